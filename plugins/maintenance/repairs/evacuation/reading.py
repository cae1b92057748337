"""Reads the states of the disks of instances that are going to leave a node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.maintenance.disks import DiskHealth
from ganeti_steward.core.maintenance.incident import JOB_SOURCE, Incident
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.finding import EVACUATIONS
from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.plugins.maintenance.repairs.disk_check import check_job, read_check
from ganeti_steward.plugins.maintenance.repairs.short_jobs import run_short


class _Query(NamedTuple):
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
    trails = [[(JOB_SOURCE, one.incident)] for one in queries]
    try:
        states = run_short(luxi, [check_job(one.names) for one in queries], trails, sleep)
    except StewardError:
        return {}
    found = (read_check(one.results, world.now) for one in states if one.status == SUCCESS)
    return {name: health for each in found for name, health in each.items()}


def _queries(world: World, jobs: Mapping[int, JobState]) -> Iterator[_Query]:
    for _, incident in sorted(world.incidents.items()):
        node = world.nodes.get(incident.node)
        if not (node and _needs_reading(incident, jobs) and world.answers(node.name)):
            continue
        by_other: dict[str, list[str]] = {}
        for one in world.instances_on(node.name):
            if one.template == "drbd" and one.up and one.primary == node.name:
                by_other.setdefault("".join(one.secondaries), []).append(one.name)
        for other, names in sorted(by_other.items()):
            if world.answers(other):
                yield _Query(incident.uuid, tuple(names))


def _needs_reading(incident: Incident, jobs: Mapping[int, JobState]) -> bool:
    """While it waits to begin they are read once, so that it is known when they were in sync."""
    if not incident.active or incident.action not in EVACUATIONS:
        return False
    if not all(one.jobs and _have_ended(one.jobs, jobs) for one in incident.open):
        return False
    return incident.state.begun or not incident.synced


def _have_ended(numbers: Iterable[int], jobs: Mapping[int, JobState]) -> bool:
    return all(number in jobs and jobs[number].ended for number in numbers)
