"""What was tried for one instance of a plan, as refusals and explanations show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.moves.best_move import Seeker, Task, Trial, resident_of
from ganeti_steward.allocators.placement.placing import GroupTrial, Placement

if TYPE_CHECKING:
    from ganeti_steward.allocators.moves.best_move import Found
    from ganeti_steward.allocators.state.state import State


class Looked(NamedTuple):
    """What was looked at for one instance of a plan, for people."""

    task: Task
    left: State
    """the state without the instance when its turn came"""
    trials: list[Trial]
    found: Found | None


def looked_at(state: State, task: Task, found: Found | None, seeker: Seeker) -> Looked:
    """Look once more for all ways of moving one instance, which is still where it was."""
    left = state.removed(resident_of(state, task, None))
    return Looked(task, left, seeker.trials(left, task), found)


def group_trial(looked: Looked, trial: Trial) -> GroupTrial:
    """One way into one group as it is told to people."""
    members = looked.task.targets & (looked.left.frame.group == trial.group)
    told = GroupTrial(trial.group, trial.judgement.gate, members, trial.judgement.told)
    first = next(trial.places.best_first(), None) if trial.places is not None else None
    if looked.task.test is None or first is None:
        return told
    after = looked.left.placed(looked.task.mover.guest, first.primary, first.secondary)
    stuck = looked.task.test.newly_stuck(after, (first.primary, first.secondary))
    return told._replace(stuck=tuple(stuck))


def placement_of(looked: Looked, trials: tuple[GroupTrial, ...]) -> Placement:
    """The instance with what was tried for it, as it is told to people."""
    group = looked.task.groups[0] if looked.task.groups else -1
    scope = looked.left.frame.group == (trials[0].group if trials else group)
    mover = looked.task.mover
    return Placement(
        mover.guest, trials, "", None, looked.left, scope, mover.terms, dedicated=False, test=None
    )
