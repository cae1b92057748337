"""Which disks are checked, and when: one job for each primary node, from time to time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ganeti_steward.core.maintenance.incident import OPT_OUT_TAG
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.maintenance.task import Task
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.maintenance.harep.standing import HEALTHY, Contradiction, standing_of
from ganeti_steward.plugins.maintenance.harep.view import SECOND, View
from ganeti_steward.plugins.maintenance.repairs.disk_check import CHECK_DISKS, check_job


def check_tasks(view: View, interval: float) -> Iterator[Task]:
    """The checks that are due; ``interval``: s, 0 for no checks.

    Where the check of a node's instances failed, each is checked by itself: one bad instance hides
    no other.
    """
    last = _last(view.world.routine)
    for node, those in sorted(_by_node(view).items()) if interval else ():
        subject = f"disks of instances on {node}"
        before = last.get(subject)
        parts = {subject: those}
        if before and before.failed:
            parts = {f"disks of {one.name}": [one] for one in those}
        for name, instances in parts.items():
            again = any(view.are_outdated(one) for one in instances)
            if _is_due(last.get(name), again, interval, view.world.now):
                yield _task(name, [one.name for one in instances])


def _by_node(view: View) -> dict[str, list[Instance]]:
    """Name of a node -> the instances that are checked and have it as their primary."""
    found: dict[str, list[Instance]] = {}
    for _, instance in sorted(view.world.instances.items()):
        if _is_checked(view, instance):
            found.setdefault(instance.primary, []).append(instance)
    return found


def _is_checked(view: View, instance: Instance) -> bool:
    """Whether its disks can be checked, and may be repaired if they are degraded.

    With a node that does not answer, the whole check fails.
    """
    if instance.template != "drbd" or not instance.up or OPT_OUT_TAG in instance.tags:
        return False
    if not all(view.answers(name) for name in instance.nodes):
        return False
    policy = view.policy(instance)
    if policy is None or policy.until or any(job.open for job in view.jobs(instance)):
        return False
    try:
        return standing_of(instance.tags).status == HEALTHY
    except Contradiction:
        return False


def _last(jobs: Collection[RoutineJob]) -> Mapping[str, RoutineJob]:
    """The last check of each subject."""
    checks = [one for one in jobs if one.step == CHECK_DISKS]
    return {one.subject: one for one in sorted(checks, key=lambda one: one.number)}


def _is_due(before: RoutineJob | None, again: bool, interval: float, now: int) -> bool:
    if before is None:
        return True
    elapsed = (now - before.submitted) / SECOND
    return not before.open and (elapsed >= interval or (again and not before.failed))


def _task(subject: str, names: list[str]) -> Task:
    return Task(
        CHECK_DISKS,
        frozenset(),
        frozenset(),
        f"check the {subject}",
        [check_job(names)],
        subject=subject,
    )
