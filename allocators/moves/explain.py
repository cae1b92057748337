"""From a plan of moves to explanations for people: each instance when its turn came."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ganeti_steward.allocators.moves import best_move
from ganeti_steward.allocators.placement.explain import explain
from ganeti_steward.allocators.placement.info import group_refusal
from ganeti_steward.allocators.placement.placing import GroupTrial, Placement
from ganeti_steward.allocators.score.ranked_places import RankedPlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ganeti_steward.allocators.moves.planning import MovePlan
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.explanation import Explanation


def explain_plan(
    start: State,
    tasks: Sequence[best_move.MoveTask],
    plan: MovePlan,
    search: best_move.BestMoveSearch,
) -> tuple[Explanation, ...]:
    """An explanation of each instance: those that move in that order, then the others."""
    explanations = []
    state = start
    for at, found in plan.found.items():
        tried = best_move.try_moves(state, tasks[at], found, search)
        explanations.append(_explained(tried))
        state = tried.left.placed(tasks[at].resident.demand, *found.nodes)
    for at, task in enumerate(tasks):
        if at not in plan.found:
            explanations.append(_explained(best_move.try_moves(state, task, None, search)))
    return tuple(explanations)


def _explained(tried: best_move.TriedMoves) -> Explanation:
    found = tried.found
    trials = () if tried.task.fault else tuple(_group_trials(tried))
    chosen = next((t for t in trials if found is not None and t.group == found.group), None)
    placement = _placement(tried, trials, chosen)
    explanation = explain(placement)
    if found is None:
        return explanation
    instance = tried.task.resident.demand.instance
    notes = (
        f"Steps: {found.kind.text(instance)}.",
        f"It leaves {'/'.join(instance.nodes)}.",
        *_not_possible(tried, found),
    )
    return replace(explanation, notes=(*notes, *explanation.notes))


def _not_possible(tried: best_move.TriedMoves, found: best_move.MoveChoice) -> Iterator[str]:
    """The kinds of move that copy less than the one found, and why they are not possible."""
    demand = tried.task.resident.demand
    for stage in tried.task.stages:
        if found.kind in stage:
            return
        for trial in tried.trials:
            if trial.kind in stage and trial.group == found.group:
                shown = best_move.group_trial(tried, trial)
                reason = trial.verdicts.blocked or group_refusal(tried.left, demand, shown)
                yield f"Not possible: {trial.kind.text(demand.instance)}: {reason}"


def _placement(
    tried: best_move.TriedMoves, trials: tuple[GroupTrial, ...], chosen: GroupTrial | None
) -> Placement:
    """The trials as the placement of one instance on the state when its turn came."""
    task = tried.task
    group = trials[0].group if trials else next(iter(task.groups), -1)
    scope = tried.left.frame.group == group
    start = Placement(tried.left, task.resident.demand, scope, task.terms, task.test)
    return start._replace(trials=trials, fault=task.fault, chosen=chosen)


def _group_trials(tried: best_move.TriedMoves) -> Iterator[GroupTrial]:
    """One kind of move per group: the chosen one, else one with legal places, else the last."""
    for group in dict.fromkeys(trial.group for trial in tried.trials):
        trials = [trial for trial in tried.trials if trial.group == group]
        yield _shown_trial(tried, min(reversed(trials), key=lambda t: _interest(t, tried.found)))


def _interest(trial: best_move.MoveTrial, found: best_move.MoveChoice | None) -> int:
    if found is not None and (trial.kind, trial.group) == (found.kind, found.group):
        return 0
    return 1 if trial.places is not None and trial.places.count else 2


def _shown_trial(tried: best_move.TriedMoves, trial: best_move.MoveTrial) -> GroupTrial:
    shown = best_move.group_trial(tried, trial)
    if trial.places is None or not trial.places.count:
        return shown
    found = tried.found
    if found is not None and found.group == trial.group:
        best: RankedPlace | None = RankedPlace(found.score + trial.before, *found.nodes)
    else:
        best = next(trial.places.best_first(), None)
    return shown._replace(places=trial.places, best=best)
