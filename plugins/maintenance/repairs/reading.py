"""Reads by jobs what repairs depend on.

These are the disks of instances that are going to leave a node, and the storage of each node that
reports failing physical volumes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.finding import EVACUATIONS
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.queue.short_jobs import (
    LIMIT,
    check_job,
    read_check,
    run_short,
)
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import JOB_SOURCE, MAINTENANCE, Incident
from ganeti_steward.plugins.model.storage import (
    DEGRADED,
    FAULTY,
    GOOD,
    UNKNOWN,
    LogicalVolume,
    NodeStorage,
    PhysicalVolume,
    failing_volumes,
)
from ganeti_steward.plugins.model.world import Reported, World


class _NodePair(NamedTuple):
    """Instances with the same two nodes: one node that fails hides no others."""

    incident: str
    """uuid"""
    names: tuple[str, ...]


def read_disks(
    luxi: Luxi,
    world: World,
    jobs: Mapping[int, JobState],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Mapping[str, DiskHealth]:
    """Name of an instance -> health of its disks; what could not be read is missing.

    ``jobs``: number -> state of each job of an open submission: while one runs nothing is read.
    """
    queries = list(_queries(world, jobs))
    if not queries:
        return {}
    trails = [[(JOB_SOURCE, pair.incident)] for pair in queries]
    try:
        states = run_short(luxi, [check_job(pair.names) for pair in queries], trails, sleep)
    except StewardError:
        return {}
    found = (read_check(state.results, world.now) for state in states if state.status == SUCCESS)
    return {name: health for each in found for name, health in each.items()}


def _queries(world: World, jobs: Mapping[int, JobState]) -> Iterator[_NodePair]:
    for _, incident in sorted(world.incidents.items()):
        node = world.nodes.get(incident.node)
        if not (node and _needs_reading(incident, jobs) and world.answers(node.name)):
            continue
        by_other: dict[str, list[str]] = {}
        for instance in world.instances_on(node.name):
            if (
                instance.template == "drbd"
                and instance.up
                and (incident.maintenance or instance.primary == node.name)
            ):
                other = next(name for name in instance.nodes if name != node.name)
                by_other.setdefault(other, []).append(instance.name)
        for other, names in sorted(by_other.items()):
            if world.answers(other):
                yield _NodePair(incident.uuid, tuple(names))


def _needs_reading(incident: Incident, jobs: Mapping[int, JobState]) -> bool:
    """While a repair waits to begin they are read once, to know when they were in sync last.

    A maintenance needs them from its beginning on, and one that only takes back at once.
    """
    if not incident.active or incident.action not in (*EVACUATIONS, MAINTENANCE):
        return False
    for submission in incident.open:
        if not submission.jobs or not all(
            number in jobs and jobs[number].ended for number in submission.jobs
        ):
            return False
    if incident.maintenance:
        return incident.state.begun or incident.maintenance.worked > 0
    return incident.state.begun or not incident.synced


#: Ganeti's numbers for the state of a local disk.
_LOCAL_STATES: Final = {1: GOOD, 2: DEGRADED, 4: FAULTY}
_WORST_LAST: Final = (GOOD, DEGRADED, UNKNOWN, FAULTY)


def nodes_to_read(world: World) -> list[str]:
    """Names of the nodes whose storage a repair has to know, sorted."""
    incidents = [incident for incident in world.incidents.values() if incident.node in world.nodes]
    known = {(incident.node, incident.object_id) for incident in incidents}
    wanted = {incident.node for incident in incidents if _is_about_storage(incident, world)} | {
        uuid
        for uuid, report in world.observations.items()
        if isinstance(report, Reported) and report.needs_repair and uuid in world.nodes
        # There is no incident of it yet.
        if (uuid, report.object_id) not in known and failing_volumes(report.original)
    }
    busy = {name for incident in incidents for each in incident.open for name in each.nodes}
    return sorted({world.nodes[uuid].name for uuid in wanted} - busy)


def _is_about_storage(incident: Incident, world: World) -> bool:
    """Whether its repair, or the opening after it, has to know the storage of its node."""
    if not failing_volumes(incident.original):
        return False
    return incident.active or (
        incident.state.reopens and incident.closed_tag in world.nodes[incident.node].tags
    )


def read_storage(
    luxi: Luxi,
    world: World,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Mapping[str, NodeStorage]:
    """Name of each node of `nodes_to_read` -> its storage; where that fails, why."""
    nodes = nodes_to_read(world)
    try:
        return _read(luxi, world, nodes, sleep) if nodes else {}
    except StewardError as err:
        return dict.fromkeys(nodes, NodeStorage(fault=str(err)))


def _read(
    luxi: Luxi, world: World, nodes: Sequence[str], sleep: Callable[[float], None]
) -> dict[str, NodeStorage]:
    group = str(luxi.info()["volume_group_name"])
    jobs = [_job(name, world) for name in nodes]
    states = run_short(luxi, jobs, [_trail(name, world) for name in nodes], sleep)
    return {name: _storage(group, world, state) for name, state in zip(nodes, states, strict=True)}


def _trail(node: str, world: World) -> list[tuple[str, str]]:
    """Sources and texts of the reasons for the job: the incidents it is for, and the node."""
    uuids = sorted(
        incident.uuid
        for incident in world.incidents.values()
        if incident.node in world.nodes
        and world.nodes[incident.node].name == node
        and _is_about_storage(incident, world)
    )
    return [(JOB_SOURCE, text) for text in (*uuids, f"storage of node {node}")]


def _job(node: str, world: World) -> Job:
    instances = [
        instance.name for instance in world.instances_on(node) if instance.template == "drbd"
    ]
    job: Job = [
        {
            "OP_ID": "OP_NODE_QUERY_STORAGE",
            "storage_type": "lvm-pv",
            "output_fields": ["name", "free", "allocatable"],
            "nodes": [node],
        },
        {
            "OP_ID": "OP_NODE_QUERYVOLS",
            "output_fields": ["vg", "name", "phys", "instance"],
            "nodes": [node],
        },
    ]
    if instances:
        job.append(
            {
                "OP_ID": "OP_INSTANCE_QUERY_DATA",
                "instances": instances,
                "static": False,
                "use_locking": True,
            }
        )
    return job


def _storage(group: str, world: World, state: JobState) -> NodeStorage:
    if not state.ended:
        fault = f"job {state.number} did not end within {LIMIT:g} s"
        return NodeStorage(fault=f"{fault}: another job may hold its locks")
    if not state.number:
        return NodeStorage(fault=state.error)
    if state.status != SUCCESS:
        return NodeStorage(fault=f"job {state.number} ended with {state.status}: {state.error}")
    try:
        physical, logical, *instances = state.results
        return NodeStorage(
            group,
            tuple(PhysicalVolume(name, float(free), open_) for name, free, open_ in physical),
            tuple(
                LogicalVolume(f"{vg}/{name}", on, "" if instance == "-" else instance)
                for vg, name, on, instance in logical
            ),
            {
                name: _sides(found)
                for each in instances
                for name, found in each.items()
                if name in world.instances
            },
        )
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        fault = f"job {state.number} did not return what Ganeti 3 returns"
        return NodeStorage(fault=f"{fault} ({type(err).__name__}: {err})")


def _sides(instance: Mapping[str, Any]) -> dict[str, str]:
    """Node -> state of the instance's disks there; `UNKNOWN` while they are not active."""
    disks = instance["disks"]
    found = {instance["pnode"]: _worst(disk["pstatus"] for disk in disks)}
    return found | {node: _worst(disk["sstatus"] for disk in disks) for node in instance["snodes"]}


def _worst(statuses: Iterable[Sequence[Any] | None]) -> str:
    return max(map(_state, statuses), key=_WORST_LAST.index, default=UNKNOWN)


def _state(status: Sequence[Any] | None) -> str:
    """Of one disk: device, major, minor, percent synced, seconds left, degraded, local state."""
    if status is None:
        return UNKNOWN
    *_, percent, _seconds, degraded, local = status
    state = _LOCAL_STATES.get(local, UNKNOWN)
    return DEGRADED if state == GOOD and (degraded or percent is not None) else state
