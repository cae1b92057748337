"""Planning that looks further where a first plan is not good enough.

`Planner` puts each instance where that is best for itself, or makes room for it.  Sometimes one
has to take a worse place, or has to be copied twice, so that another one gets a good place.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.moves.planning import MovePlan, Planner
from ganeti_steward.allocators.score.tolerance import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ganeti_steward.allocators.moves.best_move import BestMoveSearch, MoveTask
    from ganeti_steward.allocators.state.state import State

#: Ways looked at, times the nodes of the cluster.
_REARRANGING: Final = 20000

#: Places of one instance that are tried with each number of copies.
_ALTERNATIVES: Final = 12


class ThoroughPlanner(Planner):
    """Also tries places that are worse for one instance and better for another one."""

    def __init__(
        self,
        start: State,
        tasks: Sequence[MoveTask],
        search: BestMoveSearch,
        good_enough: Callable[[MovePlan], bool],
    ) -> None:
        """``good_enough``: whether no better plan than this one needs to be looked for."""
        super().__init__(start, tasks, search)
        self._good_enough = good_enough

    def plan(self) -> MovePlan:
        """The best plan found."""
        best = super().plan()
        self._allow(_REARRANGING)
        while not self._good_enough(best):
            better = next((one for one in self._rearranged(best) if self._gains(best, one)), None)
            if better is None:
                break
            best = better
        return best

    def _gains(self, plan: MovePlan, other: MovePlan) -> bool:
        *before, score = self._rank(plan)
        return self._rank(other) < (*before, score - TOLERANCE)

    def _rearranged(self, plan: MovePlan) -> Iterator[MovePlan]:
        """One instance to one of several places, then another one to its best place."""
        for first, second in permutations(self._movable, 2):
            if self._spent:
                return
            others = [at for at in plan.found if at not in (first, second)]
            rest = self._in_order(others, plan.found)
            left = rest.without(first, self._tasks[first])
            places = self._search.alternatives(left, self._tasks[first], _ALTERNATIVES, every=True)
            for place in places:
                if self._spent:
                    return
                trial = rest.copy()
                trial.move(first, self._tasks[first], left, place)
                state = trial.without(second, self._tasks[second])
                found = self._search.best(state, self._tasks[second])
                if found is not None:
                    trial.move(second, self._tasks[second], state, found)
                yield trial
