"""What was tried for one instance of a plan, as refusals and explanations show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.moves.best_move import (
    BestMoveSearch,
    MoveTask,
    MoveTrial,
    resident_of,
)
from ganeti_steward.allocators.placement.placing import GroupTrial

if TYPE_CHECKING:
    from ganeti_steward.allocators.moves.best_move import MoveChoice
    from ganeti_steward.allocators.state.state import State


class TriedMoves(NamedTuple):
    """All moves tried for one instance of a plan, for refusals and explanations."""

    task: MoveTask
    left: State
    """the state without the instance when its turn came"""
    trials: list[MoveTrial]
    found: MoveChoice | None


def try_moves(
    state: State, task: MoveTask, found: MoveChoice | None, search: BestMoveSearch
) -> TriedMoves:
    """Try all kinds of move of one instance again; the instance is still on its old nodes."""
    left = state.removed(resident_of(state, task, None))
    return TriedMoves(task, left, search.trials(left, task), found)


def group_trial(tried: TriedMoves, trial: MoveTrial) -> GroupTrial:
    """One kind of move into one group, in the form explanations use."""
    members = tried.task.targets & (tried.left.frame.group == trial.group)
    shown = GroupTrial(trial.group, trial.verdicts.blocked, members, trial.verdicts.shown)
    first = next(trial.places.best_first(), None) if trial.places is not None else None
    if tried.task.test is None or first is None:
        return shown
    after = tried.left.placed(tried.task.resident.demand, *first.nodes)
    stuck = tried.task.test.newly_stuck(after, first.nodes)
    return shown._replace(stuck=tuple(stuck))
