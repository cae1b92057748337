"""The gate of disks: ``gnt-cluster verify-disks`` finds nothing, on the whole cluster.

That command submits the same job for each node group, and acts on what they find.  Here nothing is
acted on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from ganeti_steward.core.errors import StewardError, few
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.plugins.maintenance.queue.short_jobs import LIMIT, run_short
from ganeti_steward.plugins.model.incident import JOB_SOURCE
from ganeti_steward.plugins.model.world import World

VERIFY_DISKS: Final = "OP_GROUP_VERIFY_DISKS"

_COMMAND: Final = "gnt-cluster verify-disks"
_WHY: Final = "verify all disks before a planned maintenance"
#: As many instances are named in a sentence.
_SHOWN: Final = 5


def verify_disks(
    luxi: Luxi, world: World, *, sleep: Callable[[float], None] = time.sleep
) -> tuple[str, ...]:
    """What is wrong with disks, a sentence each; also that this is not known."""
    names = _groups(world)
    jobs = [[{"OP_ID": VERIFY_DISKS, "group_name": name}] for name in names]
    if not jobs:
        return ()
    try:
        states = run_short(luxi, jobs, [[(JOB_SOURCE, _WHY)]] * len(jobs), sleep)
    except StewardError as err:
        return (f"{_COMMAND} has no result: {err}",)
    found = zip(names, states, strict=True)
    return tuple(sentence for name, state in found for sentence in _found(name, state, world))


def _groups(world: World) -> list[str]:
    """Names of the node groups with instances, sorted."""
    used = {name for instance in world.cluster.instances for name in instance.nodes}
    groups = {node.group for node in world.cluster.nodes if node.name in used}
    return sorted(world.groups[uuid].name for uuid in groups if uuid in world.groups)


def _found(group: str, state: JobState, world: World) -> Iterator[str]:
    if fault := _fault(state):
        yield f"{_COMMAND} of node group {group} has no result: {fault}"
        return
    try:
        yield from list(_sentences(state.results[0], world))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as err:
        fault = f"job {state.number} did not return what Ganeti 3 returns"
        yield f"{_COMMAND} of node group {group} has no result: {fault} ({type(err).__name__})"


def _fault(state: JobState) -> str:
    """Why a job has no result; empty where it has one."""
    if not state.number:
        return state.error
    if not state.ended:
        fault = f"job {state.number} did not end within {LIMIT:g} s"
        return f"{fault}: another job may hold its locks"
    if state.status == SUCCESS:
        return ""
    return f"job {state.number} ended with {state.status}: {state.error}"


def _sentences(result: Sequence[Any], world: World) -> Iterator[str]:
    """Nodes that could not be read, instances to activate, and instances with missing volumes."""
    silent, inactive, missing = result
    for uuid, fault in sorted(silent.items()):
        yield f"{_COMMAND} cannot read the volumes of {_name(uuid, world)}: {fault}"
    if inactive:
        yield f"{_COMMAND}: the disks must be activated of {_listed(inactive)}"
    if missing:
        lost = [f"{name} (on {_nodes(missing[name], world)})" for name in sorted(missing)]
        yield f"{_COMMAND}: volumes are missing of {_listed(lost)}"


def _nodes(volumes: Sequence[Sequence[str]], world: World) -> str:
    return " and ".join(sorted({_name(uuid, world) for uuid, _ in volumes}))


def _name(uuid: str, world: World) -> str:
    node = world.nodes.get(uuid)
    return node.name if node else uuid


def _listed(names: Collection[str]) -> str:
    return f"{counted(len(names), 'instance')}: {few(sorted(names), _SHOWN)}"
