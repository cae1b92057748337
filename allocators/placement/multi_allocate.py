"""Request type ``multi-allocate``: a batch of new instances planned as a whole (allocation 9.4).

The batch is placed one by one in the order of the request, as hail does.  Where some do
not fit that way, other orders are tried (large ones first, small ones first) and the one
that places most is kept.  Then single instances, and pairs in batches that are not too
large, are placed again as long as that lowers the score, and those left over get another chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, permutations
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.placement.info import disk_note, refusal_reasons
from ganeti_steward.allocators.placement.one_place import explained
from ganeti_steward.allocators.placement.placing import Placement, Placer
from ganeti_steward.allocators.score.global_n1 import PlaceFilter
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.cluster import ALLOC_POLICIES, Cluster

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Allocate, MultiAllocate


#: How often at most the whole batch is gone through to lower the score.
_ROUNDS: Final = 2

#: How often an item may be placed to go through all ordered pairs once: no more than this,
#: nor than the other by the number of nodes.
_EFFORT: Final = 300
_EFFORT_BY_NODES: Final = 6000

#: Moves that the capacity tests of an exchange may try: on tight clusters these cost most of the
#: time, about .2 ms each.
_MOVES: Final = 25_000

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
        moves: Callable[[], int],
        size: int,
    ) -> None:
        """``place``: the best place of an item on a state; ``size``: number of nodes.

        ``moves``: how many moves the capacity tests have tried so far.
        """
        self._place, self._score, self._moves = place, score, moves
        self._most_moves = moves() + _MOVES
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
            if unmoved == enough or self._moves() > self._most_moves:
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


#: Orders to try when the request's own leaves some out: large first, then small first.
_ORDERS: Final[tuple[Callable[[Allocate], tuple[int, ...]], ...]] = (
    lambda item: (-item.instance.memory, -item.instance.disk_space, -item.instance.vcpus),
    lambda item: (-item.instance.disk_space, -item.instance.memory),
    lambda item: (-item.instance.vcpus, -item.instance.memory),
    lambda item: (item.instance.memory, item.instance.disk_space, item.instance.vcpus),
    lambda item: (item.instance.disk_space, item.instance.memory),
)


def multi_allocate(request: MultiAllocate, cluster: Cluster, context: Context) -> Outcome:
    """Answer with a place for as many as possible; the others are named with reasons."""
    state = load(cluster, None, context.options.kvm_memory)
    batch = _Batch(request, state, context)
    return answered(request, batch.plan().placements, context)


def answered(request: MultiAllocate, placements: Sequence[Placement], context: Context) -> Outcome:
    """The answer to a batch whose items have been placed, or refused, like this."""
    explanations = explained(context, *placements)
    placed: list[object] = []
    failed: list[object] = []
    reasons = []
    for item, placement in zip(request.items, placements, strict=True):
        name = item.instance.name
        if placement.chosen is None:
            failed.append(name)
            # Some faults begin with the name themselves.
            reason = refusal_reasons(placement).removeprefix(f"instance {name}: ")
            reasons.append(f"{name}: {reason}")
        else:
            placed.append([name, list(placement.nodes())])
    text = (
        f"{len(failed)} instances failed to allocate and {len(placed)} were allocated successfully"
    )
    notes = {disk_note(p.state.frame, p.demand.instance) for p in placements}
    info = "; ".join([text, *reasons]) + max(notes, default="")
    if failed and not placed:
        return Refusal(info, explanations)
    return Answer([placed, failed], info, explanations)


class _Batch:
    """All items of one request with what holds for each on any state."""

    def __init__(self, request: MultiAllocate, state: State, context: Context) -> None:
        self._request, self._state = request, state
        self._everywhere = np.ones(state.frame.size, np.bool_)
        self._placer = Placer(state, context)
        self._terms: list[Terms] = [self._placer.terms(item) for item in request.items]

    def plan(self) -> BatchPlan:
        """The best plan found."""
        items = self._request.items
        order = list(range(len(items)))
        best = self._greedy(order)
        if best.placed < len(items):
            for key in _ORDERS:
                keys = [key(item) for item in items]
                other = self._greedy(sorted(order, key=keys.__getitem__))
                if self._rank(other) < self._rank(best):
                    best = other
        placer, size = self._placer, self._state.frame.size
        Exchange(self._place, self._score, lambda: placer.moves, size).improve(best)
        if best.placed < len(items):
            self._fill(best, [at for at in order if best.placements[at].chosen is None])
        return best

    def _rank(self, plan: BatchPlan) -> tuple[int, float]:
        costs = sum(placement.cost() for placement in plan.placements)
        return -plan.placed, self._score(plan.state) + costs

    def _score(self, state: State) -> float:
        return Scorer(state, self._everywhere).score

    def _place(self, state: State, at: int) -> Placement:
        item = self._request.items[at]
        group = item.group_name if item.group_name is not None else self._request.group_name
        return self._placer.place(state, item, group, self._terms[at])

    def _greedy(self, order: Sequence[int]) -> BatchPlan:
        placements: dict[int, Placement] = {}
        plan = BatchPlan(self._state, [])
        for at in order:
            placements[at] = self._place(plan.state, at)
            plan.state = after(placements[at], plan.state)
        plan.placements = [placements[at] for at in range(len(placements))]
        return plan

    def _fill(self, plan: BatchPlan, left_over: Sequence[int]) -> None:
        for at in left_over:
            placement = self._place(plan.state, at)
            plan.state, plan.placements[at] = after(placement, plan.state), placement
