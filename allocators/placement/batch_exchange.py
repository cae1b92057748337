"""Lowering the score of a batch of new instances: single ones and pairs are placed again.

The effort depends on the size of the batch and the cluster alone, so that the same request
always has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, permutations
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.score.global_n1 import PlaceFilter
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.core.model.cluster import ALLOC_POLICIES

if TYPE_CHECKING:
    from ganeti_steward.allocators.placement.placing import Placement
    from ganeti_steward.allocators.state.state import Resident, State

#: How often at most the whole batch is gone through to lower the score.
_ROUNDS: Final = 2

#: How often an item may be placed to go through all ordered pairs once: no more than this,
#: nor than the other by the number of nodes.
_EFFORT: Final = 300
_EFFORT_BY_NODES: Final = 6000

#: Places of the first of a pair that are tried at most, the best ones.
_PLACES: Final = 8


class BatchPlan:
    """The batch placed so far; one placement per item, chosen or refused."""

    def __init__(self, state: State, placements: list[Placement]) -> None:
        self.state = state
        self.placements = placements

    @property
    def placed(self) -> int:
        """How many have a place."""
        return sum(placement.chosen is not None for placement in self.placements)


class Exchange:
    """Improves a plan in place."""

    def __init__(
        self,
        place: Callable[[State, int], Placement],
        score: Callable[[State], float],
        size: int,
    ) -> None:
        """``place``: the best place of an item on a state; ``size``: number of nodes."""
        self._place, self._score = place, score
        self._effort = min(_EFFORT, _EFFORT_BY_NODES // max(size, 1))
        self._places = 0

    def improve(self, plan: BatchPlan) -> None:
        """Place single items, then pairs of them, again while that lowers score and costs."""
        items = [at for at in range(len(plan.placements)) if _may_move(plan, at)]
        singles = [(at,) for at in items] * _ROUNDS
        pairs = list(permutations(items, 2))
        score = self._improved(plan, singles, len(items), self._score(plan.state))
        self._places = min(self._effort // max(len(pairs), 1) - 1, _PLACES)
        if self._places > 0:
            self._improved(plan, [*pairs, *singles] * _ROUNDS, len(items) + len(pairs), score)

    def _improved(
        self, plan: BatchPlan, ways: Sequence[tuple[int, ...]], enough: int, score: float
    ) -> float:
        """The score after trying these items in turn, until ``enough`` in a row gained nothing."""
        unmoved = 0
        for moved in ways:
            if unmoved == enough:
                break
            unmoved += 1
            better = self._again(plan, moved, score)
            if better is not None:
                score, unmoved = better, 0
        return score

    def _again(self, plan: BatchPlan, moved: tuple[int, ...], score: float) -> float | None:
        """The score when these are placed again, one after the other; None: nothing is gained."""
        before = [plan.placements[at] for at in moved]
        state = plan.state
        for placement in before:
            resident = _resident(state, placement)
            assert resident is not None
            state = state.removed(resident)
        costs, policies = sum(one.cost() for one in before), sum(map(_policy, before))
        for placed in self._ways(state, moved):
            if [one.nodes() for one in placed] == [one.nodes() for one in before]:
                continue
            left = after(placed[-1], state)
            rank, new = sum(map(_policy, placed)) - policies, self._score(left)
            gain = score + costs - new - sum(one.cost() for one in placed)
            if rank < 0 or (rank == 0 and gain > TOLERANCE):
                plan.state = left
                for at, placement in zip(moved, placed, strict=True):
                    plan.placements[at] = placement
                return new
        return None

    def _ways(self, state: State, moved: tuple[int, ...]) -> Iterator[list[Placement]]:
        """One on its best place; of two the first on a few of its best, then the other."""
        first = self._place(state, moved[0])
        if len(moved) == 1:
            yield from [[first]] if first.chosen is not None else []
            return
        for placement in _alternatives(first, self._places):
            second = self._place(after(placement, state), moved[1])
            if second.chosen is not None:
                yield [placement, second]


def after(placement: Placement, otherwise: State) -> State:
    """The state with the chosen place taken, ``otherwise`` where there is none."""
    if placement.chosen is None or placement.chosen.after is None:
        return otherwise
    return placement.chosen.after


def _alternatives(found: Placement, number: int) -> Iterator[Placement]:
    """The same instance on its best places in the chosen group."""
    trial = found.chosen
    if trial is None or trial.places is None:
        return
    passing = found.test and PlaceFilter(found.test, found.state, found.demand)
    for place in islice(trial.places.best_first(), number):
        state = (
            passing.passes(place)
            if passing
            else found.state.placed(found.demand, place.primary, place.secondary)
        )
        if state is not None:
            yield found._replace(chosen=trial._replace(best=place, after=state))


def _may_move(plan: BatchPlan, at: int) -> bool:
    placement = plan.placements[at]
    return not placement.dedicated and _resident(plan.state, placement) is not None


def _policy(placement: Placement) -> int:
    """The rank of the chosen group's alloc_policy; lower is better."""
    assert placement.chosen is not None
    group = placement.state.frame.cluster.groups[placement.chosen.group]
    return ALLOC_POLICIES.index(group.alloc_policy)


def _resident(state: State, placement: Placement) -> Resident | None:
    """The placed instance on the state, None when it has no place (or takes none yet)."""
    if placement.chosen is None or placement.chosen.best is None:
        return None
    return state.find(placement.demand, placement.chosen.best.primary)
