"""The incidents of one step while it works on them, and what happened to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.copies import old_copies, seen_now, with_progress
from ganeti_steward.plugins.maintenance.engine.decision import Change, Inputs, Recent, Started
from ganeti_steward.plugins.maintenance.engine.transitions import OBSERVED, Event, apply
from ganeti_steward.plugins.model.incident import ACTIONS, Incident
from ganeti_steward.plugins.model.task import AROUND, MASTER_FAILOVER, Held
from ganeti_steward.plugins.model.world import World


def command_key(incident: Incident, step: str) -> str:
    """By what `Recent` remembers the repair command of a step of an incident."""
    key = f"{incident.node} {incident.object_id}"
    return f"{key} {step}" if step in AROUND or step == MASTER_FAILOVER else key


def with_commands(
    recent: Recent, started: Iterable[Started], incidents: Mapping[str, Incident], now: int
) -> Recent:
    """What is remembered, with the repair commands that were handed over ``now`` (ns)."""
    begun = {
        command_key(incidents[one.incident], one.task.step): now
        for one in started
        if one.task.command
    }
    return recent._replace(commands={**recent.commands, **begun})


class Ledger:
    """What one step has changed so far; the only mutable thing of a step."""

    def __init__(self, inputs: Inputs, config: Maintd) -> None:
        self.inputs, self.config = inputs, config
        self.world: World = inputs.world
        self.now = inputs.world.now
        self.incidents: dict[str, Incident] = dict(sorted(inputs.world.incidents.items()))
        self.changes: list[Change] = []
        self.held: list[Held] = []
        self.cancels: list[int] = []
        self.opened: dict[str, tuple[tuple[int, str], ...]] = {}
        """as `Recent.opened`"""
        self.commands: dict[str, int] = dict(inputs.recent.commands)
        """as `Recent.commands`"""
        self.seen = seen_now(inputs.recent.seen, inputs.world, config.sync_stalled_after)
        self.unanswered: dict[str, int] = {}
        """as `Recent.unanswered`"""
        self.world = self.world._replace(
            old_copies=old_copies(self.world, self.seen), disks=with_progress(self.world, self.seen)
        )

    def update(self, incident: Incident) -> None:
        """Replace an incident by a newer form of it."""
        self.incidents[incident.uuid] = incident

    def add(self, incident: Incident, reason: str) -> None:
        """Add a new incident."""
        self.incidents[incident.uuid] = incident
        self.changes.append(Change(None, incident, OBSERVED, reason))

    def happen(self, uuid: str, event: Event, reason: str) -> None:
        """Apply an event to an incident; one that changes nothing in its state is no change."""
        before = self.incidents[uuid]
        after = apply(before, event, self.now, reason)
        if after is None:
            del self.incidents[uuid]
        else:
            self.incidents[uuid] = after
        if after != before:
            self.changes.append(Change(before, after, event.value, reason))

    def hold(
        self,
        subject: str,
        brake: str,
        sentence: str,
        *,
        since: int = 0,
        until: int = 0,
        **values: object,
    ) -> None:
        """Note that something is not done; ``since``, ``until``: as in `Held`."""
        self.held.append(Held(subject, brake, sentence, tuple(values.items()), since, until))

    def node(self, incident: Incident) -> Node | None:
        """The node of an incident; None when it has left the cluster."""
        return self.world.nodes.get(incident.node)

    def all(self, wanted: Callable[[Incident], bool] = lambda _: True) -> Iterator[Incident]:
        """The incidents as they are now, most urgent first; they may be changed meanwhile."""
        for incident in sorted(self.incidents.values(), key=urgency):
            current = self.incidents.get(incident.uuid)
            if current is not None and wanted(current):
                yield current


def urgency(incident: Incident) -> tuple[int, int, str]:
    """The order in which incidents get nodes: the most severe first, then the oldest."""
    return -ACTIONS.index(incident.action), incident.first_seen, incident.uuid
