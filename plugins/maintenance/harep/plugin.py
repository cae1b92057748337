"""The plugin ``harep`` of routine work: every instance by itself, none stops the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.maintenance.incident import OPT_OUT_TAG
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.maintenance.task import TAG, RoutinePlan, Task, Wait
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.maintenance.harep import health, tags
from ganeti_steward.plugins.maintenance.harep.checks import check_tasks
from ganeti_steward.plugins.maintenance.harep.config import Harep
from ganeti_steward.plugins.maintenance.harep.decide import (
    Action,
    Case,
    Left,
    Repair,
    Submitted,
    Tag,
    decide,
)
from ganeti_steward.plugins.maintenance.harep.health import need_of
from ganeti_steward.plugins.maintenance.harep.jobs import delay, repair_job, tag_jobs
from ganeti_steward.plugins.maintenance.harep.standing import Contradiction, standing_of
from ganeti_steward.plugins.maintenance.harep.view import SECOND, View

#: ns until a tag whose job failed is tried again.
_TAG_RETRY: Final = 300 * SECOND


class Plugin:
    """The work of harep."""

    CONFIG: Final = Harep

    def __init__(self) -> None:
        self._settings = Harep()

    def configure(self, settings: Harep) -> None:
        """``settings``: the section ``[harep]``."""
        self._settings = settings

    @hookimpl
    def steward_routine(self, world: World) -> list[RoutinePlan]:
        """Repairs and tags, then checks of disks."""
        view = View(world)
        repairs = _Repairs(view, self._settings).plans()
        return [*repairs, *check_tasks(view, self._settings.disk_check_interval)]


class _Repairs:
    """The instances as they are now."""

    def __init__(self, view: View, settings: Harep) -> None:
        self._view, self._settings = view, settings

    def plans(self) -> Iterator[RoutinePlan]:
        """What is done about each instance, and what is left."""
        for name, instance in sorted(self._view.world.instances.items()):
            try:
                plan = self._plan(instance)
            except Contradiction as err:
                plan = Wait(f"{name} is not repaired: {err}", name)
            if plan:
                yield plan

    def _plan(self, instance: Instance) -> RoutinePlan | None:
        name, own = instance.name, self._view.jobs(instance)
        missing = [node for node in instance.nodes if node not in self._view.nodes]
        if missing:
            return Wait(f"{name} is not judged: {', '.join(missing)} is not known", name)
        if any(job.step == TAG and job.open for job in own):
            return None
        action = decide(self._case(instance, own))
        return self._planned(instance, action, own) if action else None

    def _case(self, instance: Instance, own: list[RoutineJob]) -> Case:
        view = self._view
        need = need_of(
            instance, view.nodes, view.disks(instance), outdated=view.are_outdated(instance)
        )
        return Case(
            instance.name,
            view.now,
            standing_of(instance.tags),
            view.policy(instance) if need else None,
            need,
            view.world.tagged_jobs,
            _untagged(instance, own),
            self._settings.replace_after,
        )

    def _planned(self, instance: Instance, action: Action, own: list[RoutineJob]) -> RoutinePlan:
        name = instance.name
        if isinstance(action, Left):
            return Wait(action.reason, name)
        if isinstance(action, Repair):
            return self._repair(instance, action)
        if OPT_OUT_TAG in instance.tags:
            return Wait(f"instance {name} has the tag {OPT_OUT_TAG}; held: {action.reason}", name)
        failed = [job for job in own if job.step == TAG and job.failed]
        wait = _TAG_RETRY - (self._view.world.now - failed[-1].ended) if failed else 0
        if wait > 0:
            left = f"tried again in {wait // SECOND} s"
            return Wait(f"the tags of {name} could not be set ({failed[-1].error}); {left}", name)
        return _tag(name, action)

    def _repair(self, instance: Instance, repair: Repair) -> Task:
        disks = self._view.disks(instance)
        job = repair_job(
            repair.need.step,
            instance.name,
            self._settings.iallocator,
            may_fail_over=repair.allowed != tags.MIGRATE,
            primary_good=disks is None or disks.primary_good,
        )
        first = [delay(self._settings.job_delay)] if self._settings.job_delay else []
        return Task(
            repair.need.step,
            frozenset(instance.nodes),
            frozenset({instance.name}),
            repair.reason,
            [[*first, *job]],
            subject=instance.name,
            shares_nodes=True,
        )


def _tag(name: str, action: Tag) -> Task:
    """It reserves nothing: tags can be set while the instance is repaired."""
    mark = action.mark.tag
    remove = tuple(one for one in action.remove if one != mark)
    reason = f"set {mark} on {name}: {action.reason}"
    nothing: frozenset[str] = frozenset()
    return Task(TAG, nothing, nothing, reason, tag_jobs(name, mark, remove), subject=name)


def _untagged(instance: Instance, own: list[RoutineJob]) -> Submitted | None:
    """The last repair, if no tag names its job and none was set for it."""
    repairs = [job for job in own if job.step in health.TYPE_OF]
    if not repairs:
        return None
    last = max(repairs, key=lambda job: job.number)
    named = {number for one in tags.read_marks(instance.tags) for number in one.mark.jobs}
    tagged = any(job.step == TAG and job.number > last.number and not job.failed for job in own)
    if last.number in named or tagged:
        return None
    return Submitted(last.step, last.number, last.submitted // SECOND)
