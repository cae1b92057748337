"""Routine work in one step: after the repairs, with what they leave free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.job_state import NOT_STARTED
from ganeti_steward.core.model.opcodes import REPLACE_DISKS, Job
from ganeti_steward.plugins.maintenance.config import OBSERVE
from ganeti_steward.plugins.maintenance.effects import Effects, effects_of
from ganeti_steward.plugins.maintenance.engine import brakes, effect_brakes
from ganeti_steward.plugins.maintenance.engine.brake_case import BrakeCase, braked, held_task
from ganeti_steward.plugins.maintenance.engine.decision import Lasting, RoutineStarted, routine_name
from ganeti_steward.plugins.maintenance.engine.ledger import Ledger
from ganeti_steward.plugins.maintenance.engine.planned_brakes import handing_over
from ganeti_steward.plugins.maintenance.engine.reservations import Reservations
from ganeti_steward.plugins.model.routine import ROUTINE_TEXT
from ganeti_steward.plugins.model.task import Held, RoutinePlan, Task, Wait
from ganeti_steward.plugins.model.world import World

#: What a plugin of this name plans; it must depend on its arguments only.
RoutinePlanner = Callable[[str, World], Sequence[RoutinePlan]]


def no_routine(plugin: str, world: World) -> Sequence[RoutinePlan]:
    """Plan nothing."""
    return ()


@dataclass(frozen=True, kw_only=True)
class RoutineCase(BrakeCase):
    """A plugin, and once it is planned, what it would do."""

    plugin: str
    unreadable: Mapping[str, str]
    """see `Inputs.unreadable`"""
    next: Task | None = None

    @property
    def subject(self) -> str:
        """What is held back."""
        return routine_name(self.plugin, self.next.subject if self.next else "")


Brake = Callable[[RoutineCase], Held | None]


def _opt_out(case: RoutineCase) -> Held | None:
    task = case.next or _NOTHING
    nodes = task.nodes | case.effects.out | case.effects.targets
    return effect_brakes.opt_out(case, nodes, task.instances | case.effects.touched)


def _under_repair(case: RoutineCase) -> Held | None:
    """A node with an active incident is left to its repair."""
    task = case.next or _NOTHING
    busy = sorted(
        f"{one.node_name} ({one.uuid})"
        for one in case.world.incidents.values()
        if one.active and one.node_name in task.nodes
    )
    if not busy:
        return None
    sentence = f"an incident is active on {', '.join(busy)}; {held_task(case)}"
    return braked(case, "under-repair", sentence)


def _failed_target(case: RoutineCase) -> Held | None:
    """Nothing is moved to a node whose repair failed, before a person has dealt with that."""
    effects, instances = case.effects, case.world.instances
    # What is moved without another secondary goes to the one it has.
    moved = (instances[name] for name in effects.moved - effects.degraded if name in instances)
    targets = effects.targets.union(*(one.secondaries for one in moved))
    found = sorted(
        f"{one.node_name} has {one.state.avoided} incident {one.uuid}"
        for one in case.world.incidents.values()
        if one.state.avoided and not one.active and one.node_name in targets
    )
    if not found:
        return None
    sentence = f"{', '.join(found)}; {held_task(case)}"
    return braked(case, "failed-target", sentence)


def _unmovable(case: RoutineCase) -> Held | None:
    """What a repair has left on a node that is offline, for its data above all, stays there."""
    found = sorted(
        f"incident {one.uuid} of {one.node_name} has left {name} there ({reason})"
        for one in case.world.incidents.values()
        if one.state.avoided and not one.active
        for name, reason in one.unmovable
        if name in case.effects.abandoned
    )
    if not found:
        return None
    sentence = f"{'; '.join(found)}; {held_task(case)}"
    return braked(case, "unmovable", sentence)


def _record(case: RoutineCase) -> Held | None:
    """Whether an incident is active cannot be known of a node whose record is unreadable."""
    task, nodes = case.next or _NOTHING, case.world.nodes
    faults = sorted(
        why
        for uuid, why in case.unreadable.items()
        if uuid in nodes and nodes[uuid].name in task.nodes
    )
    if not faults:
        return None
    return braked(case, "record", f"{'; '.join(faults)}; {held_task(case)}")


def _window(case: RoutineCase) -> Held | None:
    """What only looks, such as a check of disks, needs no window."""
    return None if case.effects == Effects() else brakes.window(case)


#: No task: it uses nothing.
_NOTHING: Final = Task("", frozenset(), frozenset(), "")


#: Judged before a plugin is called.
BEFORE_PLAN: Final[tuple[Brake, ...]] = (brakes.storm,)
#: Judged for each task.
AFTER_PLAN: Final[tuple[Brake, ...]] = (
    _opt_out,
    _under_repair,
    _failed_target,
    _unmovable,
    _record,
    *effect_brakes.FOR_ROUTINE,
    brakes.pause,
    _window,
    handing_over,
    brakes.observe,
)
#: Those of them that people say by tags, which are read again before a task is handed over.
WORDS: Final[tuple[Brake, ...]] = (_opt_out, brakes.pause)
#: Those judged for tags, which say what has been done: also outside the windows.
FOR_TAGS: Final = tuple(brake for brake in AFTER_PLAN if brake is not _window)


class Routine:
    """The routine work of one round."""

    def __init__(self, ledger: Ledger, planner: RoutinePlanner, reservations: Reservations) -> None:
        self._ledger, self._planner, self._reservations = ledger, planner, reservations
        self._facts = effect_brakes.facts_of(ledger.world)
        self.started: list[RoutineStarted] = []
        self.since: dict[str, Lasting] = {}
        """see `Decision.since`"""

    def cancel(self) -> None:
        """Cancel jobs that have not started where an incident is active: its repair goes first."""
        ledger = self._ledger
        if ledger.config.mode == OBSERVE or ledger.inputs.only:
            return
        names = {one.node_name for one in ledger.all(lambda one: one.active)}
        ledger.cancels += [
            one.number
            for one in ledger.world.routine
            if one.status in NOT_STARTED and not names.isdisjoint(one.nodes)
        ]

    def plan(self) -> None:
        """Have each plugin plan in its turn."""
        ledger = self._ledger
        world = ledger.world._replace(incidents=ledger.incidents)
        for plugin in ledger.config.routine:
            inputs = ledger.inputs
            case = RoutineCase(
                plugin=plugin,
                world=world,
                config=ledger.config,
                utc_offset=inputs.utc_offset,
                seen=ledger.seen,
                unreadable=inputs.unreadable,
                only=inputs.only,
            )
            if inputs.calls_known:
                self._plan(case)
            else:
                if plugin in inputs.since:
                    self.since[plugin] = inputs.since[plugin]
                sentence = "whether jobs of it were submitted a moment ago is not known yet"
                ledger.held.append(braked(case, "lookup", sentence))

    def _plan(self, case: RoutineCase) -> None:
        held = brakes.holding(BEFORE_PLAN, case)
        self._ledger.held += held
        if held:
            return
        before = self._ledger.inputs.since.get(case.plugin, Lasting())
        world = self._reservations.world(case.world)._replace(**before._asdict())
        plans = self._planner(case.plugin, world)
        if plans:
            self.since[case.plugin] = _lasting(plans, before, self._ledger.now)
        for plan in plans:
            if isinstance(plan, Wait):
                name = routine_name(case.plugin, plan.subject)
                self._ledger.hold(name, "wait", plan.reason)
            else:
                effects = effects_of(plan.jobs, self._facts)
                self._take(replace(case, next=plan, effects=effects), plan)

    def _take(self, case: RoutineCase, task: Task) -> None:
        conflict = self._reservations.conflict(task, case.plugin)
        held = brakes.holding(FOR_TAGS if case.effects.only_tags else AFTER_PLAN, case)
        if conflict:
            sentence = f"another task uses {conflict}; held: {task.reason}"
            held = [braked(case, "reserved", sentence)]
        self._ledger.held += held
        if {one.brake for one in held} == {OBSERVE}:
            self._reservations.observe(task, case.plugin)
        if not held:
            self._reservations.reserve(task, case.plugin)
            self._start(case.plugin, task)

    def _start(self, plugin: str, task: Task) -> None:
        place = len(self.started)
        text = f"{ROUTINE_TEXT}{plugin} {task.step} {task.subject} {self._ledger.now} {place}"
        copied = tuple(copied_mib(job, self._ledger.world.cluster) for job in task.jobs)
        started = RoutineStarted(plugin, str(uuid5(NAMESPACE_URL, text)), task, copied)
        self.started.append(started)


def _lasting(plans: Sequence[RoutinePlan], before: Lasting, now: int) -> Lasting:
    """What is remembered of the plans; what a round before had too lasts since then."""
    marked: dict[str, dict[str, int]] = {}
    for plan in plans:
        if isinstance(plan, Wait) and plan.mark:
            start = before.marked.get(plan.subject, {}).get(plan.mark, now)
            marked.setdefault(plan.subject, {})[plan.mark] = start
    return Lasting({plan.subject: before.since.get(plan.subject, now) for plan in plans}, marked)


def copied_mib(job: Job, cluster: Cluster) -> int:
    """MiB of disks that a job copies."""
    names = [one["instance_name"] for one in job if one["OP_ID"] == REPLACE_DISKS]
    known = [name for name in names if name in cluster.instance_index]
    return sum(cluster.instance(name).disk_space for name in known)
