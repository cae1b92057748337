"""Planning the moves of many instances together.

The instances are taken one after the other, each to its best place on what those before have
left, first in the order of the request as hail does.  Where some do not fit that way, other
orders are tried and planned instances give way to those left over.  Then single instances
and pairs of them are placed anew as long as that lowers the score.  At the end the plan is
gone through once more step by step: what is answered is legal in the order given.

How much is tried is counted in work done, not in time, so that the same request always has
the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final
from zlib import crc32

from ganeti_steward.allocators.moves.best_move import Found, Seeker, Task, Tiers, resident_of

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import State

#: Ways looked at to lower the score, times the nodes of the cluster ...
_IMPROVING: Final = 6000
#: ... and to find places for those that are left over.
_FITTING: Final = 12000

#: How often each instance is looked at in any case.
_AT_LEAST: Final = 1

#: Orders tried besides those with a reason.
_SHUFFLES: Final = 12

#: Places of a left-over instance for which another one is asked to give way.
_ALTERNATIVES: Final = 3

#: How many may have to go elsewhere, one for the other, so that one has a place.
_GIVING_WAY: Final = 2

#: A score must fall by this much to count as lower.
_GAIN: Final = 1e-9


def _however_often(task: Task) -> Tiers:
    """All ways at once: the score alone decides, however often disks are copied."""
    return (tuple(way for tier in task.tiers for way in tier),)


class Plan:
    """Moves in the order in which they are made, and the state they lead to."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.found: dict[int, Found] = {}
        """position of the task -> its move, the first to be made first"""

    def copy(self) -> Plan:
        """Another plan of the same moves."""
        plan = Plan(self.state)
        plan.found = dict(self.found)
        return plan

    def without(self, at: int, task: Task) -> State:
        """The state with one instance taken off, wherever it is."""
        return self.state.removed(resident_of(self.state, task, self.found.get(at)))

    def take_off(self, at: int, task: Task) -> Found:
        """Take one instance off its new nodes; its move is not made."""
        self.state = self.without(at, task)
        return self.found.pop(at)

    def move(self, at: int, task: Task, left: State, found: Found) -> None:
        """Make (or make anew) one move; ``left`` is the state without the instance."""
        self.found.pop(at, None)
        self.found[at] = found
        self.state = left.placed(task.mover.guest, found.primary, found.secondary)


class Planner:
    """Plans the tasks of one request."""

    def __init__(self, start: State, tasks: Sequence[Task], seeker: Seeker) -> None:
        self._start, self._tasks, self._seeker = start, tasks, seeker
        frame = start.frame
        concerned = {int(frame.group[task.mover.primary]) for task in tasks}
        concerned |= {group for task in tasks for group in task.groups}
        self._scopes = [frame.group == group for group in sorted(concerned)]
        self._movable = [at for at, task in enumerate(tasks) if not task.fault]
        self._limit = 0.0
        self._kept: frozenset[int] = frozenset()

    def plan(self) -> Plan:
        """The best plan found."""
        # Copies are only made for those that cannot do without when the others have moved.
        first = self._in_order(self._movable, tiers=lambda task: task.tiers[:1])
        self._kept = frozenset(first.found)
        starts = [first]
        if self._left_over(first):
            more = self._in_order([*first.found, *self._left_over(first)], first.found)
            starts = [more, self._in_order(self._movable)]
        best = min(starts, key=self._rank)
        if self._left_over(best):
            starts = [self._fit(best)]
        if any(len(task.groups) > 1 for task in self._tasks) and len(self._movable) > 1:
            # What suits the cluster first may suit the groups better in the end.
            whole = Seeker(self._seeker.settled, whole=True)
            starts.append(self._in_order(self._movable, seeker=whole))
        return min([*starts, *map(self._improved, starts)], key=self._rank)

    def _improved(self, plan: Plan) -> Plan:
        better = plan.copy()
        self._improve(better)
        if better.found == plan.found:
            return plan
        return self._in_order([*better.found, *self._left_over(better)], better.found)

    def _allow(self, amount: int) -> None:
        """Set how much more work may be done."""
        ways = sum(len(self._tasks[at].tiers[0]) for at in self._movable)
        allowed = max(amount / max(self._start.frame.size, 1), _AT_LEAST * ways)
        self._limit = self._seeker.work + allowed

    @property
    def _spent(self) -> bool:
        return self._seeker.work >= self._limit

    def _rank(self, plan: Plan) -> tuple[int, int, int, int, float]:
        """Fewest left over, then fewest copies, preferred groups, the lowest score.

        Nobody is left over who has a place in the order of the request.
        """
        found = plan.found.values()
        return (
            len(self._kept - plan.found.keys()),
            len(self._movable) - len(plan.found),
            sum(one.copies for one in found),
            sum(one.policy for one in found),
            self._score(plan),
        )

    def _score(self, plan: Plan) -> float:
        settled = self._seeker.settled
        costs = sum(one.cost(self._tasks[at]) for at, one in plan.found.items())
        return costs + sum(settled.score(plan.state, scope) for scope in self._scopes)

    def _left_over(self, plan: Plan) -> list[int]:
        return [at for at in self._movable if at not in plan.found]

    def _in_order(
        self,
        order: Sequence[int],
        wanted: Mapping[int, Found] | None = None,
        *,
        tiers: Callable[[Task], Tiers] = attrgetter("tiers"),
        seeker: Seeker | None = None,
    ) -> Plan:
        """Each in turn to the place ``wanted`` if that is legal, else to the best there is."""
        plan = Plan(self._start)
        seeker = seeker or self._seeker
        for at in order:
            task = self._tasks[at]
            left = plan.without(at, task)
            found = wanted.get(at) if wanted else None
            if found is None or not seeker.confirms(left, task, found):
                found = seeker.best(left, task, tiers(task))
            if found is not None:
                plan.move(at, task, left, found)
        return plan

    # -- making room

    def _fit(self, plan: Plan) -> Plan:
        """Other orders, and others giving way, while instances are left over."""
        self._allow(_FITTING)
        hopeless = [at for at in self._left_over(plan) if not self._fits_alone(at)]
        best = min(plan, self._gives_way(plan, hopeless), key=self._rank)
        for key in self._orders():
            if self._spent or len(self._left_over(best)) <= len(hopeless):
                break
            other = self._in_order(sorted(self._movable, key=key))
            best = min(best, other, self._gives_way(other, hopeless), key=self._rank)
        if len(self._left_over(best)) > len(hopeless):
            other = self._in_order(self._movable, tiers=_however_often)
            best = min(best, other, key=self._rank)
        return best

    def _fits_alone(self, at: int) -> bool:
        task = self._tasks[at]
        left = self._start.removed(resident_of(self._start, task, None))
        return self._seeker.best(left, task) is not None

    def _orders(self) -> Iterator[Callable[[int], tuple[int, str]]]:
        """Large ones first, in several senses, then shuffled by name."""
        guests = [task.mover.guest for task in self._tasks]
        names = [task.name for task in self._tasks]
        yield lambda at: (-guests[at].memory, names[at])
        yield lambda at: (-guests[at].disk, names[at])
        yield lambda at: (guests[at].memory, names[at])
        for number in range(_SHUFFLES):
            codes = [crc32(f"{number} {name}".encode()) for name in names]
            yield lambda at, codes=codes: (codes[at], names[at])  # type: ignore[misc]

    def _gives_way(self, plan: Plan, hopeless: Sequence[int]) -> Plan:
        """Place left-over instances where a planned one can go elsewhere instead."""
        plan = plan.copy()
        inserted = [
            at
            for at in self._left_over(plan)
            if at not in hopeless and self._insert(plan, at, _GIVING_WAY, frozenset())
        ]
        if not inserted:
            return plan
        # What was exchanged without looking at the steps between must still be legal.
        return self._in_order([*plan.found, *self._left_over(plan)], plan.found)

    def _insert(self, plan: Plan, at: int, depth: int, settled: frozenset[int]) -> bool:
        """Place one; so many others may have to go elsewhere for it, but none of ``settled``."""
        task = self._tasks[at]
        left = plan.without(at, task)
        found = self._seeker.best(left, task)
        if found is not None:
            plan.move(at, task, left, found)
            return True
        for other in list(plan.found) if depth else ():
            if other in settled or self._spent:
                continue
            without = plan.copy()
            without.take_off(other, self._tasks[other])
            left = without.without(at, task)
            for found in self._seeker.alternatives(left, task, _ALTERNATIVES):
                trial = without.copy()
                trial.move(at, task, left, found)
                if self._insert(trial, other, depth - 1, settled | {at}):
                    plan.state, plan.found = trial.state, trial.found
                    return True
        return False

    # -- lowering the score

    def _improve(self, plan: Plan) -> None:
        planned = len(plan.found)
        self._allow(_IMPROVING)
        score = self._score(plan)
        unmoved = 0
        while not self._spent and unmoved < planned:
            for at in sorted(plan.found):
                if self._spent or unmoved >= planned:
                    break
                unmoved += 1
                changed = self._anew(plan, (at,), score)
                if changed is not None:
                    score, unmoved = changed, 0
            changed = self._exchanged(plan, score)
            if changed is not None:
                score, unmoved = changed, 0

    def _exchanged(self, plan: Plan, score: float) -> float | None:
        """The score after the first exchange of two that is worth it."""
        planned = sorted(plan.found)
        for first in planned:
            for second in planned:
                if first != second and not self._spent:
                    changed = self._anew(plan, (first, second), score)
                    if changed is not None:
                        return changed
        return None

    def _anew(self, plan: Plan, moved: tuple[int, ...], score: float) -> float | None:
        """Take these off and place them again in this order; None where nothing is gained."""
        trial = plan.copy()
        copies = policy = 0
        for at in moved:
            before = trial.take_off(at, self._tasks[at])
            copies, policy = copies - before.copies, policy - before.policy
        for at in moved:
            found = self._seeker.best(trial.state, self._tasks[at])
            if found is None:
                return None
            copies, policy = copies + found.copies, policy + found.policy
            trial.move(at, self._tasks[at], trial.state, found)
        if all(trial.found[at].nodes == plan.found[at].nodes for at in moved):
            return None
        changed = self._score(trial)
        if (copies, policy, changed) >= (0, 0, score - _GAIN):
            return None
        plan.state, plan.found = trial.state, trial.found
        return changed
