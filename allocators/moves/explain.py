"""From a plan of moves to explanations for people: each instance when its turn came."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.moves.tried import Looked, group_trial, looked_at, placement_of
from ganeti_steward.allocators.placement.explain import explain
from ganeti_steward.allocators.score.ranked_places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ganeti_steward.allocators.moves.best_move import Found, Seeker, Task, Trial
    from ganeti_steward.allocators.moves.planning import Plan
    from ganeti_steward.allocators.placement.placing import GroupTrial
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.explanation import Explanation

_STEPS: Final = {"F": "migrate to the secondary", "R": "replace the secondary", "M": "migrate"}


def explain_plan(
    start: State, tasks: Sequence[Task], plan: Plan, seeker: Seeker
) -> tuple[Explanation, ...]:
    """What is to be told of each instance: those that move in that order, then the others."""
    told = []
    state = start
    for at, found in plan.found.items():
        looked = looked_at(state, tasks[at], found, seeker)
        told.append(_explained(looked))
        state = looked.left.placed(tasks[at].mover.guest, *found.nodes)
    for at, task in enumerate(tasks):
        if at not in plan.found:
            told.append(_explained(looked_at(state, task, None, seeker)))
    return tuple(told)


def _explained(looked: Looked) -> Explanation:
    found = looked.found
    trials = () if looked.task.fault else tuple(_group_trials(looked))
    chosen = next((t for t in trials if found is not None and t.group == found.group), None)
    placement = placement_of(looked, trials)._replace(
        fault=looked.task.fault, chosen=chosen, test=looked.task.test
    )
    told = explain(placement)
    if found is None:
        return told
    steps = ", then ".join(_STEPS[step] for step in found.way)
    return replace(told, notes=(f"Steps: {steps}.", *told.notes))


def _group_trials(looked: Looked) -> Iterator[GroupTrial]:
    """One way per group: the chosen one, else one that leads somewhere, else the last."""
    for group in dict.fromkeys(trial.group for trial in looked.trials):
        trials = [trial for trial in looked.trials if trial.group == group]
        yield _told_trial(looked, min(reversed(trials), key=lambda t: _interest(t, looked.found)))


def _interest(trial: Trial, found: Found | None) -> int:
    if found is not None and (trial.way, trial.group) == (found.way, found.group):
        return 0
    return 1 if trial.places is not None and trial.places.count else 2


def _told_trial(looked: Looked, trial: Trial) -> GroupTrial:
    shown = group_trial(looked, trial)
    if trial.places is None or not trial.places.count:
        return shown
    found = looked.found
    if found is not None and found.group == trial.group:
        best: Place | None = Place(found.score + trial.before, *found.nodes)
    else:
        best = next(trial.places.best_first(), None)
    return shown._replace(places=trial.places, best=best)
