"""From a plan of moves to the answer: jobs for what moves, reasons for what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.moves.best_move import Seeker, Task, Trial
from ganeti_steward.allocators.moves.planning import Planner
from ganeti_steward.allocators.moves.tried import Looked, group_trial, looked_at, placement_of
from ganeti_steward.allocators.placement.info import disk_note, group_refusal
from ganeti_steward.allocators.placement.placing import refused
from ganeti_steward.allocators.rules.move_kinds import REPLACE, job
from ganeti_steward.allocators.score.final_score import Settled
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.opcodes import moves_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.moves.planning import Plan
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explanation
    from ganeti_steward.core.model.opcodes import Job

#: How a way is called in a reason, by how often it copies the disks.
_COPIES = ("without a copy", "with one copy of its disks", "with two copies of its disks")


def move_all(state: State, tasks: Sequence[Task], context: Context) -> Outcome:
    """Plan the moves and answer with them.

    ``success`` stays true however many fail, as with hail: then Ganeti fails the whole
    operation and shows each name with its reason (facts, 3).
    """
    seeker = Seeker(Settled(state))
    plan = Planner(state, tasks, seeker).plan()
    nodes, groups = state.frame.cluster.nodes, state.frame.cluster.groups
    moved: list[tuple[str, str, list[str]]] = []
    jobs: list[Job] = []
    for at, found in plan.found.items():
        names = [nodes[node].name for node in found.nodes if node >= 0]
        moved.append((tasks[at].name, groups[found.group].name, names))
        jobs.append(job(tasks[at].mover, found.way, names[0], names[-1]))
    failed = [
        (task.name, task.fault or _reason(looked_at(plan.state, task, None, seeker)))
        for at, task in enumerate(tasks)
        if at not in plan.found
    ]
    text = f"{len(failed)} instances failed to move and {len(moved)} were moved successfully"
    info = "; ".join([text, *(f"{name}: {reason}" for name, reason in failed)])
    return Answer(
        moves_result(moved, failed, jobs),
        info + _disk_note(state, tasks),
        _explained(state, tasks, plan, seeker) if context.explain else (),
    )


def _explained(
    state: State, tasks: Sequence[Task], plan: Plan, seeker: Seeker
) -> tuple[Explanation, ...]:
    # Not on Ganeti's path.
    from ganeti_steward.allocators.moves.explain import explain_plan

    return explain_plan(state, tasks, plan, seeker)


def _disk_note(state: State, tasks: Sequence[Task]) -> str:
    movers = (task.mover for task in tasks)
    return max((disk_note(refused(state, m.guest, "", m.terms)) for m in movers), default="")


def _reason(looked: Looked) -> str:
    """Why an instance has no place: of each number of copies what its first way met."""
    reasons = dict(looked.task.closed)
    for group in looked.task.groups:
        reasons[group] = _group_reason(looked, [t for t in looked.trials if t.group == group])
    if not reasons:
        return "there is no other node group it may go to"
    if len(reasons) == 1 and not looked.task.closed:
        return next(iter(reasons.values()))
    groups = looked.left.frame.cluster.groups
    return "; ".join(f"group {groups[at].name}: {reasons[at]}" for at in sorted(reasons))


def _group_reason(looked: Looked, trials: list[Trial]) -> str:
    told: dict[str, str] = {}
    for trial in trials:
        copies = trial.way.count(REPLACE)
        told.setdefault(_refusal(looked, trial), _COPIES[copies])
    by_copies: dict[str, str] = {}
    for text, copies_text in told.items():
        by_copies.setdefault(copies_text, text)
    if len(by_copies) == 1:
        return next(iter(by_copies.values()))
    return "; ".join(f"{copies}: {text}" for copies, text in by_copies.items())


def _refusal(looked: Looked, trial: Trial) -> str:
    if trial.judgement.gate:
        return trial.judgement.gate
    if not trial.judgement.told:
        return "its secondary is in another node group"
    shown = group_trial(looked, trial)
    if not shown.members.any():
        return "every other node of the group is being left, too"
    return group_refusal(placement_of(looked, (shown,)), shown)
