"""The plugin ``harep`` of routine work: every instance by itself, none stops the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.maintenance.config import Harep
from ganeti_steward.plugins.maintenance.harep import health, tags
from ganeti_steward.plugins.maintenance.harep.decide import (
    Action,
    InstanceFacts,
    NotRepaired,
    StartRepair,
    SubmittedRepair,
    Tag,
    decide,
)
from ganeti_steward.plugins.maintenance.harep.health import delay, need_of, repair_job, tag_jobs
from ganeti_steward.plugins.maintenance.harep.tags import (
    HEALTHY,
    Contradiction,
    RepairPolicy,
    policy_of,
    repair_state_of,
)
from ganeti_steward.plugins.maintenance.queue.disk_checks import can_be_checked, check_tasks
from ganeti_steward.plugins.model.disks import DiskHealth, split_brains
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import TAG, RoutinePlan, Task, Wait
from ganeti_steward.plugins.model.world import Reported, World


def _is_checked(view: InstanceIndex, instance: Instance) -> bool:
    """Whether its disks can be checked, and may be repaired if they are degraded."""
    if not can_be_checked(view.world, instance):
        return False
    policy = view.policy(instance)
    if policy is None or policy.until or any(job.open for job in view.jobs(instance)):
        return False
    try:
        return repair_state_of(instance.tags).status == HEALTHY
    except Contradiction:
        return False


NAME: Final = "harep"

#: ns in one s.
SECOND: Final = 10**9


class InstanceIndex:
    """The world by instance."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = world.now // SECOND
        """s since the epoch"""
        self.nodes = {node.name: node for node in world.cluster.nodes}
        """by name"""
        self._jobs: dict[str, list[RoutineJob]] = {}
        for job in world.routine:
            if job.plugin == NAME:
                self._jobs.setdefault(job.subject, []).append(job)

    def jobs(self, instance: Instance) -> list[RoutineJob]:
        """The jobs of the plugin about an instance, by number."""
        return self._jobs.get(instance.name, [])

    def policy(self, instance: Instance) -> RepairPolicy | None:
        """Which repairs of an instance are allowed; None: none is enabled."""
        group = self.world.groups.get(self.nodes[instance.primary].group)
        objects = [
            (f"instance {instance.name}", instance.tags),
            *([(f"node group {group.name}", group.tags)] if group else []),
            ("the cluster", self.world.cluster_tags),
        ]
        return policy_of(objects, self.now)

    def disks(self, instance: Instance) -> DiskHealth | None:
        """What is known of its disks; a check from before its last repair says nothing.

        Raises Contradiction.
        """
        found = self.world.disks.get(instance.name)
        if found is None:
            return None
        mark = repair_state_of(instance.tags).mark
        repaired = mark.time * SECOND if mark and mark.jobs else 0
        return found if found.at >= repaired else None

    def are_outdated(self, instance: Instance) -> bool:
        """Whether its disks were degraded, and not checked since its last repair.

        Raises Contradiction.
        """
        before = self.world.disks.get(instance.name)
        return before is not None and bool(before.faults) and self.disks(instance) is None

    def report(self, node: str) -> Reported | None:
        """What the agent of a node reports; None: nothing."""
        known = self.nodes.get(node)
        found = self.world.observations.get(known.uuid) if known else None
        return found if isinstance(found, Reported) else None

    def split_on(self, instance: Instance) -> str:
        """The first of its nodes that reports a split brain of its disks; empty: none."""
        disks = self.world.disks.get(instance.name)
        for node, minor in disks.minors if disks else ():
            report = self.report(node)
            if report and minor in split_brains(report.original):
                return node
        return ""


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
        view = InstanceIndex(world)
        repairs = _Repairs(view, self._settings).plans()
        checked = (one for one in world.cluster.instances if _is_checked(view, one))
        interval = self._settings.disk_check_interval
        return [*repairs, *check_tasks(world, checked, interval, view.are_outdated)]


class _Repairs:
    """The instances as they are now."""

    def __init__(self, view: InstanceIndex, settings: Harep) -> None:
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

    def _case(self, instance: Instance, own: list[RoutineJob]) -> InstanceFacts:
        view = self._view
        need = need_of(
            instance,
            view.nodes,
            view.disks(instance),
            outdated=view.are_outdated(instance),
            split=view.split_on(instance),
            reported=any(map(view.report, instance.nodes)),
        )
        return InstanceFacts(
            instance.name,
            view.now,
            repair_state_of(instance.tags),
            view.policy(instance) if need else None,
            need,
            view.world.tagged_jobs,
            _untagged(instance, own),
            self._settings.replace_after,
        )

    def _planned(self, instance: Instance, action: Action, own: list[RoutineJob]) -> RoutinePlan:
        name = instance.name
        if isinstance(action, NotRepaired):
            return Wait(action.reason, name)
        if isinstance(action, StartRepair):
            return self._repair(instance, action)
        if OPT_OUT_TAG in instance.tags:
            return Wait(f"instance {name} has the tag {OPT_OUT_TAG}; held: {action.reason}", name)
        failed = [job for job in own if job.step == TAG and job.failed]
        wait = _TAG_RETRY - (self._view.world.now - failed[-1].ended) if failed else 0
        if wait > 0:
            left = f"tried again in {wait // SECOND} s"
            return Wait(f"the tags of {name} could not be set ({failed[-1].error}); {left}", name)
        return _tag(name, action)

    def _repair(self, instance: Instance, repair: StartRepair) -> Task:
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


def _untagged(instance: Instance, own: list[RoutineJob]) -> SubmittedRepair | None:
    """The last repair, if no tag names its job and none was set for it."""
    repairs = [job for job in own if job.step in health.TYPE_OF]
    if not repairs:
        return None
    last = max(repairs, key=lambda job: job.number)
    named = {number for mark in tags.read_marks(instance.tags) for number in mark.mark.jobs}
    tagged = any(job.step == TAG and job.number > last.number and not job.failed for job in own)
    if last.number in named or tagged:
        return None
    return SubmittedRepair(last.step, last.number, last.submitted // SECOND)
