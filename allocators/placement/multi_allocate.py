"""Request type ``multi-allocate``: a batch of new instances planned as a whole (allocation 9.4).

The batch is placed one by one in the order of the request, as hail does.  Where some do
not fit that way, other orders are tried (large ones first, small ones first) and the one
that places most is kept.  Then single instances, and pairs in batches that are not too
large, are placed again as long as that lowers the score, and those left over get another chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.placement.batch_exchange import BatchPlan, Exchange, after
from ganeti_steward.allocators.placement.explained import explained
from ganeti_steward.allocators.placement.info import disk_note, refusal_reasons
from ganeti_steward.allocators.placement.placing import Placement, Placer
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.state import State
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
        Exchange(self._place, self._score, self._state.frame.size).improve(best)
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
