"""Planning the moves of many instances together.

The instances are placed one after the other, each on its best place in the state left by those
before, first in the order of the request as hail does.  If some do not fit, other orders are
tried, and planned instances are moved to make room.  Then single instances and pairs are placed
again as long as that lowers the score.  At the end the whole plan is checked step by step: the
answer is legal in the order given.

The effort is limited by a count of work, not by time, so that the same request always has the
same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, combinations, cycle
from operator import attrgetter
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from ganeti_steward.allocators.moves.best_move import (
    BestMoveSearch,
    MoveChoice,
    MoveTask,
    Stages,
    resident_of,
)
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.allocators.state import quantity

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import State

#: Ways looked at to lower the score, times the nodes of the cluster ...
_IMPROVING: Final = 3500
#: ... and to find places for those that are left over.
_FITTING: Final = 8000

#: How often each instance is looked at in any case.
_AT_LEAST: Final = 1

#: Random orders tried in addition to those with a reason.
_SHUFFLES: Final = 12

#: Places of a left-over instance for which another instance may be moved away.
_ALTERNATIVES: Final = 3

#: How many may have to go elsewhere, one for the other, so that one has a place.
_GIVING_WAY: Final = 2


def _all_kinds_at_once(task: MoveTask) -> Stages:
    """All kinds of move in one stage: the score decides, however often disks are copied."""
    return (tuple(kind for stage in task.stages for kind in stage),)


class MovePlan:
    """Moves in the order in which they are made, and the state they lead to."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.found: dict[int, MoveChoice] = {}
        """position of the task -> its move, the first to be made first"""

    def copy(self) -> MovePlan:
        """Another plan of the same moves."""
        plan = MovePlan(self.state)
        plan.found = dict(self.found)
        return plan

    def without(self, at: int, task: MoveTask) -> State:
        """The state with one instance taken off, wherever it is."""
        return self.state.removed(resident_of(self.state, task, self.found.get(at)))

    def take_off(self, at: int, task: MoveTask) -> MoveChoice:
        """Take one instance off its new nodes; its move is not made."""
        self.state = self.without(at, task)
        return self.found.pop(at)

    def move(self, at: int, task: MoveTask, left: State, found: MoveChoice) -> None:
        """Make (or redo) one move; ``left`` is the state without the instance."""
        self.found.pop(at, None)
        self.found[at] = found
        self.state = left.placed(task.resident.demand, found.primary, found.secondary)


class Planner:
    """Plans the tasks of one request."""

    def __init__(self, start: State, tasks: Sequence[MoveTask], search: BestMoveSearch) -> None:
        self._start, self._tasks, self._search = start, tasks, search
        frame = start.frame
        concerned = {int(frame.group[task.resident.primary]) for task in tasks}
        concerned |= {group for task in tasks for group in task.groups}
        self._scopes = [frame.group == group for group in sorted(concerned)]
        self._choice = any(len(task.groups) > 1 for task in tasks)
        if self._choice:
            # Groups are compared by what they mean for the cluster, as for a new instance.
            self._scopes = [np.ones(frame.size, np.bool_)]
        self._movable = [at for at, task in enumerate(tasks) if not task.fault]
        self._limit = 0.0
        self._kept: frozenset[int] = frozenset()

    def plan(self) -> MovePlan:
        """The best plan found."""
        # Copies are only made for those that cannot do without when the others have moved.
        first = self._in_order(self._movable, stages=lambda task: task.stages[:1])
        self._kept = frozenset(first.found)
        starts = [first]
        if self._left_over(first):
            more = self._in_order([*first.found, *self._left_over(first)], first.found)
            starts = [more, self._in_order(self._movable)]
        best = min(starts, key=self._rank)
        if self._left_over(best):
            starts = [self._fit(best)]
        if self._choice:
            whole = BestMoveSearch(self._search.plan_score, whole=True)
            starts.append(self._in_order(self._movable, search=whole))
        return min([*starts, *map(self._improved, starts)], key=self._rank)

    def _improved(self, plan: MovePlan) -> MovePlan:
        better = plan.copy()
        self._improve(better)
        if better.found == plan.found:
            return plan
        return self._in_order([*better.found, *self._left_over(better)], better.found)

    def _allow(self, amount: int) -> None:
        """Set how much more work may be done."""
        kinds = sum(len(self._tasks[at].stages[0]) for at in self._movable)
        allowed = max(amount / max(self._start.frame.size, 1), _AT_LEAST * kinds)
        self._limit = self._search.work + allowed

    @property
    def _spent(self) -> bool:
        return self._search.work >= self._limit

    def _rank(self, plan: MovePlan) -> tuple[int, int, int, int, float]:
        """Fewest left over, then fewest copies, preferred groups, the lowest score.

        No instance is left over that has a place in the order of the request.
        """
        found = plan.found.values()
        return (
            len(self._kept - plan.found.keys()),
            len(self._movable) - len(plan.found),
            sum(one.copies for one in found),
            sum(one.policy for one in found),
            self._score(plan),
        )

    def _score(self, plan: MovePlan) -> float:
        plan_score = self._search.plan_score
        costs = sum(one.cost(self._tasks[at]) for at, one in plan.found.items())
        return costs + sum(plan_score.score(plan.state, scope) for scope in self._scopes)

    def _left_over(self, plan: MovePlan) -> list[int]:
        return [at for at in self._movable if at not in plan.found]

    def _in_order(
        self,
        order: Sequence[int],
        wanted: Mapping[int, MoveChoice] | None = None,
        *,
        stages: Callable[[MoveTask], Stages] = attrgetter("stages"),
        search: BestMoveSearch | None = None,
    ) -> MovePlan:
        """Each in turn to the place ``wanted`` if that is legal, else to the best there is."""
        plan = MovePlan(self._start)
        search = search or self._search
        for at in order:
            task = self._tasks[at]
            left = plan.without(at, task)
            found = wanted.get(at) if wanted else None
            if found is None or not search.confirms(left, task, found):
                found = search.best(left, task, stages(task))
            if found is not None:
                plan.move(at, task, left, found)
        return plan

    # -- making room

    def _fit(self, plan: MovePlan) -> MovePlan:
        """Try other orders and move other instances to make room, while instances are left over."""
        self._allow(_FITTING)
        least = self._least_left_over()
        if len(self._left_over(plan)) <= least:
            return plan
        impossible = [at for at in self._left_over(plan) if not self._fits_alone(at)]
        least = max(least, len(impossible))
        best = min(plan, self._make_room(plan, impossible), key=self._rank)
        for key in self._orders():
            if self._spent or len(self._left_over(best)) <= least:
                break
            other = self._in_order(sorted(self._movable, key=key))
            best = min(best, other, self._make_room(other, impossible), key=self._rank)
        if len(self._left_over(best)) > least:
            other = self._in_order(self._movable, stages=_all_kinds_at_once)
            best = min(best, other, key=self._rank)
        return best

    def _least_left_over(self) -> int:
        """How many cannot be placed in any plan: the free disk of all targets is too little.

        Whatever way an instance goes, its targets have its size less in the end.
        """
        frame, now = self._start.frame, self._start.now
        copied = [
            self._tasks[at]
            for at in self._movable
            if self._tasks[at].resident.demand.instance.local
            and all(kind.copies for stage in self._tasks[at].stages for kind in stage)
        ]
        targets = np.zeros(frame.size, np.bool_)
        for task in copied:
            targets |= task.targets
        free = int(np.maximum(now[quantity.DISK, targets & ~frame.lacks_disk], 0).sum())
        sizes = sorted(task.resident.demand.disk for task in copied)
        return sum(size > free for size in accumulate(sizes))

    def _fits_alone(self, at: int) -> bool:
        task = self._tasks[at]
        left = self._start.removed(resident_of(self._start, task, None))
        return self._search.best(left, task) is not None

    def _orders(self) -> Iterator[Callable[[int], tuple[int, str]]]:
        """Large ones first, in several senses, then shuffled by name."""
        demands = [task.resident.demand for task in self._tasks]
        names = [task.name for task in self._tasks]
        yield lambda at: (-demands[at].memory, names[at])
        yield lambda at: (-demands[at].all_disk, names[at])
        yield lambda at: (demands[at].memory, names[at])
        for number in range(_SHUFFLES):
            codes = [crc32(f"{number} {name}".encode()) for name in names]
            yield lambda at, codes=codes: (codes[at], names[at])  # type: ignore[misc]

    def _make_room(self, plan: MovePlan, impossible: Sequence[int]) -> MovePlan:
        """Place left-over instances where a planned one can go elsewhere instead."""
        plan = plan.copy()
        inserted = [
            at
            for at in self._left_over(plan)
            if at not in impossible and self._insert(plan, at, _GIVING_WAY, frozenset())
        ]
        if not inserted:
            return plan
        # What was exchanged without looking at the steps between must still be legal.
        return self._in_order([*plan.found, *self._left_over(plan)], plan.found)

    def _insert(self, plan: MovePlan, at: int, depth: int, fixed: frozenset[int]) -> bool:
        """Place one; so many others may have to go elsewhere for it, but none of ``fixed``."""
        task = self._tasks[at]
        left = plan.without(at, task)
        found = self._search.best(left, task)
        if found is not None:
            plan.move(at, task, left, found)
            return True
        for other in list(plan.found) if depth else ():
            if other in fixed or self._spent:
                continue
            without = plan.copy()
            without.take_off(other, self._tasks[other])
            left = without.without(at, task)
            for found in self._search.alternatives(left, task, _ALTERNATIVES):
                trial = without.copy()
                trial.move(at, task, left, found)
                if self._insert(trial, other, depth - 1, fixed | {at}):
                    plan.state, plan.found = trial.state, trial.found
                    return True
        return False

    # -- lowering the score

    def _improve(self, plan: MovePlan) -> None:
        planned = len(plan.found)
        self._allow(_IMPROVING)
        score = self._score(plan)
        unmoved = 0
        while not self._spent and unmoved < planned:
            for at in sorted(plan.found):
                if self._spent or unmoved >= planned:
                    break
                unmoved += 1
                changed = self._replaced(plan, (at,), score)
                if changed is not None:
                    score, unmoved = changed, 0
            changed = self._exchanged(plan, score)
            if changed is not None:
                score, unmoved = changed, 0

    def _exchanged(self, plan: MovePlan, score: float) -> float | None:
        """The score after all exchanges of two that are worth it; None without any."""
        pairs = list(combinations(sorted(plan.found), 2))
        gained, unmoved = None, 0
        for first, second in cycle(pairs):
            if self._spent or unmoved >= len(pairs):
                break
            unmoved += 1
            for moved in ((first, second), (second, first)):
                changed = self._replaced(plan, moved, score)
                if changed is not None:
                    score = gained = changed
                    unmoved = 0
                    break
        return gained

    def _replaced(self, plan: MovePlan, moved: tuple[int, ...], score: float) -> float | None:
        """Take these off and place them again in this order; None where nothing is gained.

        Where the first of two goes back to where it was, only the other one is placed again,
        which is tried alone.
        """
        trial = plan.copy()
        copies = policy = 0
        for at in moved:
            before = trial.take_off(at, self._tasks[at])
            copies, policy = copies - before.copies, policy - before.policy
        for at in moved:
            found = self._search.best(trial.state, self._tasks[at])
            if found is None or (at != moved[-1] and found.nodes == plan.found[at].nodes):
                return None
            copies, policy = copies + found.copies, policy + found.policy
            trial.move(at, self._tasks[at], trial.state, found)
        if all(trial.found[at].nodes == plan.found[at].nodes for at in moved):
            return None
        changed = self._score(trial)
        if (copies, policy, changed) >= (0, 0, score - TOLERANCE):
            return None
        plan.state, plan.found = trial.state, trial.found
        return changed
