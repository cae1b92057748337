"""Request type ``multi-allocate``: a batch of new instances planned as a whole (allocation 9.4).

The batch is placed one by one in the order of the request, as hail does.  Where some do
not fit that way, other orders are tried (large ones first, small ones first) and the one
that places most is kept.  Then single instances are placed again as long as that lowers
the score, and those left over get another chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.placement.explained import explained
from ganeti_steward.allocators.placement.info import disk_note, refusal_reasons
from ganeti_steward.allocators.placement.placing import Placement, Placer
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.cluster import ALLOC_POLICIES

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Allocate, MultiAllocate

#: Orders to try when the request's own leaves some out: large first, then small first.
_ORDERS: Final[tuple[Callable[[Allocate], tuple[int, ...]], ...]] = (
    lambda item: (-item.instance.memory, -item.instance.disk_space, -item.instance.vcpus),
    lambda item: (-item.instance.disk_space, -item.instance.memory),
    lambda item: (-item.instance.vcpus, -item.instance.memory),
    lambda item: (item.instance.memory, item.instance.disk_space, item.instance.vcpus),
    lambda item: (item.instance.disk_space, item.instance.memory),
)

#: How often at most the whole batch is gone through to lower the score.
_ROUNDS: Final = 2


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
            reasons.append(f"{name}: {refusal_reasons(placement)}")
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


class _BatchPlan:
    """The batch placed so far; one placement per item, chosen or refused."""

    def __init__(self, state: State, placements: list[Placement]) -> None:
        self.state = state
        self.placements = placements

    @property
    def placed(self) -> int:
        """How many have a place."""
        return sum(placement.chosen is not None for placement in self.placements)


class _Batch:
    """All items of one request with what holds for each on any state."""

    def __init__(self, request: MultiAllocate, state: State, context: Context) -> None:
        self._request, self._state = request, state
        self._everywhere = np.ones(state.frame.size, np.bool_)
        self._placer = Placer(state, context)
        self._terms: list[Terms] = [self._placer.terms(item) for item in request.items]

    def plan(self) -> _BatchPlan:
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
        self._improve(best)
        if best.placed < len(items):
            self._fill(best, [at for at in order if best.placements[at].chosen is None])
        return best

    def _rank(self, plan: _BatchPlan) -> tuple[int, float]:
        costs = sum(placement.cost() for placement in plan.placements)
        return -plan.placed, self._score(plan.state) + costs

    def _score(self, state: State) -> float:
        return Scorer(state, self._everywhere).score

    def _place(self, state: State, at: int) -> Placement:
        item = self._request.items[at]
        group = item.group_name if item.group_name is not None else self._request.group_name
        return self._placer.place(state, item, group, self._terms[at])

    def _greedy(self, order: Sequence[int]) -> _BatchPlan:
        placements: dict[int, Placement] = {}
        plan = _BatchPlan(self._state, [])
        for at in order:
            placements[at] = self._place(plan.state, at)
            plan.state = _after(placements[at], plan.state)
        plan.placements = [placements[at] for at in range(len(placements))]
        return plan

    def _fill(self, plan: _BatchPlan, left_over: Sequence[int]) -> None:
        for at in left_over:
            placement = self._place(plan.state, at)
            plan.state, plan.placements[at] = _after(placement, plan.state), placement

    def _improve(self, plan: _BatchPlan) -> None:
        """Place single items again while that lowers the score and the site's costs."""
        score, unmoved = self._score(plan.state), 0
        for _ in range(_ROUNDS):
            for at, placement in enumerate(plan.placements):
                if unmoved == len(plan.placements):
                    return
                unmoved += 1
                resident = _resident(plan.state, placement)
                if resident is None or placement.dedicated:
                    continue
                again = self._place(plan.state.removed(resident), at)
                if again.chosen is None or again.nodes() == placement.nodes():
                    continue
                after = _after(again, plan.state)
                rank, new = _policy(again) - _policy(placement), self._score(after)
                gain = score + placement.cost() - new - again.cost()
                if rank < 0 or (rank == 0 and gain > TOLERANCE):
                    plan.state, plan.placements[at], score, unmoved = after, again, new, 0


def _after(placement: Placement, otherwise: State) -> State:
    if placement.chosen is None or placement.chosen.after is None:
        return otherwise
    return placement.chosen.after


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
