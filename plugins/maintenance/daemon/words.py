"""What people say by tags, read again right before tasks are handed over.

Records are written and the vote is repeated between the reading of the cluster and that moment,
which may take seconds; a cancel, a pause or a ``maintd:off`` in that time still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from ganeti_steward.core.model.cluster import Cluster, Group, Instance, Node
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.effects import effects_of
from ganeti_steward.plugins.maintenance.engine import brakes, effect_brakes, routine
from ganeti_steward.plugins.maintenance.engine.brake_case import RepairCase
from ganeti_steward.plugins.maintenance.engine.brakes import holding
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import TAG, UNTAG, Held, Task
from ganeti_steward.plugins.model.world import World

_ANY: Final = Maintd()
_Tagged = TypeVar("_Tagged", Group, Node, Instance)


class Client(Protocol):
    """What tags are read from."""

    def info(self) -> Mapping[str, Any]:
        """What is known of the cluster; raises StewardError."""

    def rows(self, what: str, fields: tuple[str, ...], /) -> list[dict[str, Any]]:
        """All objects of one kind; raises StewardError."""


def read_words(client: Client, world: World) -> World:
    """The world with all tags as they are now; raises StewardError.

    What is not there any more keeps the tags that it had.
    """
    before = world.cluster
    cluster = Cluster(
        _tagged(client, "group", before.groups),
        _tagged(client, "node", before.nodes),
        _tagged(client, "instance", before.instances),
        client.info()["tags"],
        before.hypervisors,
        before.name,
        before.policy,
    )
    return world._replace(cluster=cluster)


def _tagged(client: Client, what: str, known: Iterable[_Tagged]) -> list[_Tagged]:
    tags = {row["name"]: tuple(row["tags"] or ()) for row in client.rows(what, ("name", "tags"))}
    return [one._replace(tags=tags.get(one.name, one.tags)) for one in known]


def against_repair(world: World, incident: Incident, task: Task) -> list[Held]:
    """Why people do not want a task of an incident; ``world``: with the tags of now."""
    node = world.nodes.get(incident.node)
    if node is None:
        return []
    case = RepairCase(
        incident=incident,
        node=node,
        world=world,
        config=_ANY,
        utc_offset=0,
        next=task,
        effects=effects_of(task.jobs, effect_brakes.facts_of(world)),
    )
    if task.step in (TAG, UNTAG):
        return holding((brakes.pause,), case)
    return holding((*brakes.WORDS, effect_brakes.opted_out), case)


def against_routine(world: World, started: RoutineStarted) -> list[Held]:
    """The same of routine work."""
    case = routine.RoutineCase(
        plugin=started.plugin,
        world=world,
        config=_ANY,
        utc_offset=0,
        unreadable={},
        next=started.task,
        effects=effects_of(started.task.jobs, effect_brakes.facts_of(world)),
    )
    return holding(routine.WORDS, case)
