"""Checks of the disks of instances, in jobs of their own; and the plugin that checks them all.

What the last check found decides whether a copy may be started while its primary does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.queue.short_jobs import CHECK_DISKS, check_job
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import RoutinePlan, Task
from ganeti_steward.plugins.model.world import World

#: ns in one s.
_SECOND: Final = 10**9


def can_be_checked(world: World, instance: Instance) -> bool:
    """Whether Ganeti can compare its copies: with a node that does not answer the check fails."""
    if instance.template != "drbd" or not instance.up or OPT_OUT_TAG in instance.tags:
        return False
    return all(map(world.answers, instance.nodes))


def check_tasks(
    world: World,
    checked: Iterable[Instance],
    interval: float,
    are_outdated: Callable[[Instance], bool] = lambda _: False,
) -> Iterator[Task]:
    """The checks of these instances that are due, whichever plugin requested the last ones.

    ``interval``: s, 0 for no checks; ``are_outdated``: whether what is known of the disks of an
    instance says nothing any more.  Where the check of a node's instances failed, each is checked
    by itself: one bad instance hides no other.
    """
    last, by_node = _last(world.routine), dict[str, list[Instance]]()
    for instance in sorted(checked, key=lambda one: one.name) if interval else ():
        by_node.setdefault(instance.primary, []).append(instance)
    for node, those in sorted(by_node.items()):
        subject = f"disks of instances on {node}"
        before = last.get(subject)
        parts = {subject: those}
        if before and before.failed:
            parts = {f"disks of {instance.name}": [instance] for instance in those}
        for name, instances in parts.items():
            again = any(map(are_outdated, instances))
            if _is_due(last.get(name), again, interval, world.now):
                yield _task(name, [instance.name for instance in instances])


def _last(jobs: Collection[RoutineJob]) -> Mapping[str, RoutineJob]:
    """The last check of each subject."""
    checks = [job for job in jobs if job.step == CHECK_DISKS]
    return {one.subject: one for one in sorted(checks, key=lambda one: one.number)}


def _is_due(before: RoutineJob | None, again: bool, interval: float, now: int) -> bool:
    if before is None:
        return True
    elapsed = (now - before.submitted) / _SECOND
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


class Plugin:
    """The plugin ``check-disks`` of routine work."""

    def __init__(self) -> None:
        self._settings = Maintd()

    def configure(self, settings: Maintd) -> None:
        """``settings``: the section ``[maintd]``."""
        self._settings = settings

    @hookimpl
    def steward_routine(self, world: World) -> list[RoutinePlan]:
        """The checks that are due."""
        checked = (one for one in world.cluster.instances if can_be_checked(world, one))
        return list(check_tasks(world, checked, self._settings.disk_check_interval))
