"""From a plan of moves to the answer: jobs for what moves, reasons for what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.jobs.operations import moves_result
from ganeti_steward.allocators.moves import best_move
from ganeti_steward.allocators.moves.planning import Planner
from ganeti_steward.allocators.placement.info import disk_note, group_refusal
from ganeti_steward.allocators.rules.move_kinds import job
from ganeti_steward.allocators.score.plan_score import PlanScore
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.opcodes import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explanation


#: What a kind of move is called in a reason, by how often it copies the disks.
_COPIES = ("without a copy", "with one copy of its disks", "with two copies of its disks")


def move_all(state: State, tasks: Sequence[best_move.MoveTask], context: Context) -> Outcome:
    """Plan the moves and answer with them.

    ``success`` stays true however many fail, as with hail: then Ganeti fails the whole
    operation and shows each name with its reason.
    """
    search = best_move.BestMoveSearch(PlanScore())
    plan = Planner(state, tasks, search).plan()
    groups = state.frame.cluster.groups
    moved: list[tuple[str, str, list[str]]] = []
    jobs: list[Job] = []
    for at, found in plan.found.items():
        names = list(state.frame.node_names(found.nodes))
        instance = tasks[at].resident.demand.instance
        moved.append((tasks[at].name, groups[found.group].name, names))
        jobs.append(job(instance, found.kind, names[0], names[-1]))
    failed = [
        (task.name, task.fault or refusal(best_move.try_moves(plan.state, task, None, search)))
        for at, task in enumerate(tasks)
        if at not in plan.found
    ]
    text = f"{len(failed)} instances failed to move and {len(moved)} were moved successfully"
    info = "; ".join([text, *(f"{name}: {reason}" for name, reason in failed)])
    instances = (task.resident.demand.instance for task in tasks)
    info += max((disk_note(state.frame, one) for one in instances), default="")
    explanations: tuple[Explanation, ...] = ()
    if context.explain:
        # Not on Ganeti's path.
        from ganeti_steward.allocators.moves.explain import explain_plan

        explanations = explain_plan(state, tasks, plan, search)
    return Answer(moves_result(moved, failed, jobs), info, explanations)


def refusal(tried: best_move.TriedMoves) -> str:
    """Why an instance has no place: per number of copies, the refusal of the first kind of move."""
    reasons = dict(tried.task.closed)
    for group in tried.task.groups:
        reasons[group] = _group_reason(tried, [t for t in tried.trials if t.group == group])
    if not reasons:
        return "there is no other node group it may go to"
    if len(reasons) == 1 and not tried.task.closed:
        return next(iter(reasons.values()))
    groups = tried.left.frame.cluster.groups
    return "; ".join(f"group {groups[at].name}: {reasons[at]}" for at in sorted(reasons))


def _group_reason(tried: best_move.TriedMoves, trials: list[best_move.MoveTrial]) -> str:
    copies_by_refusal: dict[str, str] = {}
    for trial in trials:
        copies = trial.kind.copies
        copies_by_refusal.setdefault(_refusal(tried, trial), _COPIES[copies])
    by_copies: dict[str, str] = {}
    for text, copies_text in copies_by_refusal.items():
        by_copies.setdefault(copies_text, text)
    if len(by_copies) == 1:
        return next(iter(by_copies.values()))
    return "; ".join(f"{copies}: {text}" for copies, text in by_copies.items())


def _refusal(tried: best_move.TriedMoves, trial: best_move.MoveTrial) -> str:
    if trial.verdicts.blocked:
        return trial.verdicts.blocked
    if not trial.verdicts.shown:
        return "its secondary is in another node group"
    shown = best_move.group_trial(tried, trial)
    if not shown.members.any():
        return "every other node of the group is being left, too"
    return group_refusal(tried.left, tried.task.resident.demand, shown)
