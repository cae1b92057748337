"""A balancing allocator for tests that always answers the same plan."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.model.cluster import Cluster

if TYPE_CHECKING:
    from front import Front

Message = dict[str, Any]

#: Swaps the nodes of the first drbd instance, then gives it and the second another secondary.
PLUGIN: Final = """\
import pickle
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.answer import Answer, Refusal
from ganeti_steward.core.model.explanation import GroupBalance, GroupHealth, Move
from ganeti_steward.allocators.jobs.operations import migrate, moves_result, replace_secondary

EXPLAINS, REFUSES, HEALTH = {explains}, {refuses!r}, {health}


def health(*, primaries=(), stuck=()):
    return GroupHealth((), (), primaries, (), stuck)


@hookimpl
def steward_balance(request, cluster, context):
    # Perhaps in a process of its own: the test reads what is in the file.
    with open(__file__ + ".calls", "ab") as file:
        parts = (cluster.groups, cluster.nodes, cluster.instances, cluster.tags)
        pickle.dump((request, (*parts, cluster.hypervisors), context.options), file)
    if REFUSES:
        return Refusal(REFUSES)
    drbd = [instance for instance in cluster.instances if instance.template == "drbd"]
    jobs, moves, moved, score = [], [], {{}}, 10.5
    nodes = {{instance.name: instance.nodes for instance in drbd}}
    for at, instance in enumerate((drbd[0], drbd[0], drbd[1])[: request.max_moves]):
        before = nodes[instance.name]
        spare = [node.name for node in cluster.nodes if node.name not in before][at]
        after = (before[0], spare) if at else before[::-1]
        operation = replace_secondary(instance.name, spare) if at else migrate(instance.name)
        jobs.append([operation])
        score -= 2.5
        copied = instance.disk_space if at else 0
        how, lowers = ("replace", "cpu_load_cv") if at else ("migrate", "")
        moves.append(Move(instance.name, before, after, copied, score, how, lowers))
        nodes[instance.name] = moved[instance.name] = after
    (name, *others) = [group.name for group in cluster.groups]
    wrong = health(primaries=(drbd[0].name,), stuck=((drbd[1].name, drbd[1].nodes[0]),))
    well = health()
    explained = [
        GroupBalance(name, 10.5, score, 0.5, tuple(moves), (), *((wrong, well) if HEALTH else ())),
        *(GroupBalance(other, 1.25, 1.25, 1.25, (), ("small",), *((well,) * 2 * HEALTH))
          for other in others),
    ]
    result = moves_result([(one, name, to) for one, to in moved.items()], (), jobs)
    return Answer(result, "as always", tuple(explained) if EXPLAINS else ())
"""


def install(front: Front, *, explains: bool = True, refuses: str = "", health: bool = True) -> None:
    """Write the plugin and make it the one that answers."""
    front.plugin("fixed", PLUGIN.format(explains=explains, refuses=refuses, health=health))
    front.configure('[plugins]\nload = ["fixed"]\n[allocators]\nbalance = ["fixed"]\n')


def calls(front: Front) -> list[Any]:
    """The calls of the plugin: request, cluster, options."""
    path = front.modules / "fixed.py.calls"
    found: list[Any] = []
    if path.exists():
        with path.open("rb") as file:
            while file.peek():
                request, parts, options = pickle.load(file)
                found.append((request, Cluster(*parts), options))
    return found
