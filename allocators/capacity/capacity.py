"""Request type ``capacity``: how many instances like one still fit, and where.

Each copy is placed by the rules of ``allocate`` on the cluster with all copies before it;
the last step is an ``allocate`` that is refused, whose reasons are what limits the count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.capacity.headroom import Headroom
from ganeti_steward.allocators.capacity.headroom_search import (
    HeadroomScore,
    RoomCosts,
    greedy,
    most_placements,
)
from ganeti_steward.allocators.capacity.shrink_hints import fits_with
from ganeti_steward.allocators.capacity.sizes import copies_of, with_instances
from ganeti_steward.allocators.placement.info import limits_text, usual_note
from ganeti_steward.allocators.placement.one_place import explained
from ganeti_steward.allocators.placement.placing import Placement, Placer
from ganeti_steward.allocators.rules.candidates import known_only
from ganeti_steward.allocators.score.global_n1 import CapacityTest, PlaceFilter
from ganeti_steward.allocators.score.ranked_places import RankedPlace
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.quantity import MANY
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.cluster import ALLOC_POLICIES, Cluster

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.arrays import Mask, NodePair
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Allocate, Capacity


#: Copies placed at first before the capacity test looks at them together.
_BATCH: Final = 32

#: Up to so many copies are put on a state one by one.
_FEW: Final = 64


def capacity(request: Capacity, cluster: Cluster, context: Context) -> Outcome:
    """Answer with the count, the places in order, and what stops one more."""
    item, options = request.item, context.options
    template = item.instance.template
    state = load(cluster, template, options.kvm_memory)
    placer = Placer(state, context)
    terms = known_only(state.frame, item.instance, placer.terms(item))
    last = placer.place(state, item, item.group_name, terms)
    if last.fault:
        return Refusal(last.fault)
    placed: list[NodePair] = []
    if last.chosen is not None:
        filling = _GroupFiller(state, item, last, options.kvm_memory)
        if filling.endless:
            return Refusal(f"{item.instance.name} takes nothing that could run out")
        placed = filling.placed
        last = placer.place(filling.state, item, item.group_name, terms)
    while last.chosen is not None and last.chosen.best is not None:
        # What was passed over for good may fit after all.
        assert last.chosen.after is not None
        placed.append(last.chosen.best.nodes)
        last = placer.place(last.chosen.after, item, item.group_name, terms)
    result: dict[str, object] = {
        "count": len(placed),
        "placements": [list(state.frame.node_names(pair)) for pair in placed],
        "limited_by": limits_text(last),
    }
    if context.explain:
        result["fits_with"] = fits_with(placer, last, item)
    note = usual_note(state.frame, item.instance)
    info = f"{len(placed)} more fit, limited by {result['limited_by']}{note}"
    return Answer(result, info, explained(context, last))


def quick_count(cluster: Cluster, item: Allocate, context: Context) -> int | None:
    """How many copies fit, without the last ones that are hard to find.

    None where it cannot be counted.
    """
    state = load(cluster, item.instance.template, context.options.kvm_memory)
    placer = Placer(state, context)
    terms = known_only(state.frame, item.instance, placer.terms(item))
    first = placer.place(state, item, item.group_name, terms)
    if first.fault or first.chosen is None:
        return None if first.fault else 0
    filling = _GroupFiller(state, item, first, context.options.kvm_memory)
    return None if filling.endless else len(filling.placed)


class _GroupFiller:
    """Fills the groups that may be used, the preferred ones first."""

    def __init__(self, state: State, item: Allocate, first: Placement, kvm_memory: int) -> None:
        """``first``: the result of placing one copy."""
        self._state: State | None = state
        self.placed: list[NodePair] = []
        """all copies, in the order in which they are placed"""
        self._empty, self._item, self._first = state, item, first
        self._demand: Demand = first.demand
        self._terms: Terms = first.terms
        self._test: CapacityTest | None = first.test
        self._kvm_memory = kvm_memory
        self._headroom = Headroom(state, first.demand, first.terms, paired=item.required_nodes == 2)
        self.endless = self._headroom.bound() >= MANY // 2
        for nodes in () if self.endless else self._stages():
            self._headroom.narrow(nodes)
            if nodes.any():
                self._stage()

    @property
    def state(self) -> State:
        """With all copies in place."""
        if self._state is None:
            self._state = self._filled(self.placed)
        return self._state

    def _stages(self) -> list[Mask]:
        """The nodes of all groups that may be used, by alloc_policy (allocation 7)."""
        frame = self._empty.frame
        groups = frame.cluster.groups
        open_groups = [trial.group for trial in self._first.trials if not trial.reason]
        if self._item.group_name is not None:
            return [np.isin(frame.group, open_groups)]
        return [
            np.isin(frame.group, [g for g in open_groups if groups[g].alloc_policy == policy])
            for policy in ALLOC_POLICIES[:2]
        ]

    def _stage(self) -> None:
        start = self._headroom.copy()
        headroom, placed = most_placements(self._headroom, self._score(self.state, self._headroom))
        state = None if self._test is None else self._filled([*self.placed, *placed])
        if state is not None and not self._passes(state, placed):
            empty = _PassingCopies(start, self.state, [])
            runs = [self._tested(empty, by_room=by_room) for by_room in (False, True)]
            headroom, state, placed = max(runs, key=lambda run: len(run.placed))
        self._headroom, self._state = headroom, state
        self.placed += placed

    def _score(self, state: State, headroom: Headroom) -> HeadroomScore:
        return HeadroomScore(state, self._demand, self._terms, headroom, self._first.scope)

    def _filled(self, placed: Sequence[NodePair]) -> State:
        """The state with these copies and no others; many are recounted at once, not one by one."""
        if len(placed) <= _FEW:
            return self._after(self._empty, placed)
        cluster = self._empty.frame.cluster
        nodes = map(self._empty.frame.node_names, placed)
        instance = self._demand.instance
        grown = with_instances(cluster, copies_of(instance, nodes, 1))
        return load(grown, instance.template, self._kvm_memory)

    def _after(self, state: State, placed: Sequence[NodePair]) -> State:
        for primary, secondary in placed:
            state = state.placed(self._demand, primary, secondary)
        return state

    def _passes(self, state: State, placed: Sequence[NodePair]) -> bool:
        """The capacity test with all these copies in place."""
        assert self._test is not None
        changed = {node for pair in placed for node in pair if node >= 0}
        return not self._test.is_worse(state, tuple(sorted(changed)))

    def _tested(self, found: _PassingCopies, *, by_room: bool) -> _PassingCopies:
        """Place in batches; where one fails the test, a smaller one, down to single copies."""
        batch = _BATCH
        while True:
            more = self._batch(found, batch, by_room=by_room)
            if more is None:
                return found
            if more.passed:
                found, batch = more.found, 2 * len(more.pairs)
            elif len(more.pairs) > 1:
                batch = max(len(more.pairs) // 4, 1)
            else:
                found = self._barred(found, more.pairs[0])

    def _batch(self, found: _PassingCopies, size: int, *, by_room: bool) -> _Copies | None:
        """So many copies more; None where none fits."""
        headroom = found.headroom.copy()
        costs = RoomCosts(headroom, 1.0) if by_room else self._score(found.state, headroom)
        pairs = greedy(headroom, costs, size)
        if not pairs:
            return None
        after = _PassingCopies(headroom, self._after(found.state, pairs), [*found.placed, *pairs])
        return _Copies(pairs, after, passed=self._passes(after.state, after.placed))

    def _barred(self, found: _PassingCopies, pair: NodePair) -> _PassingCopies:
        """Without the place, or the node, that fails the test alone."""
        assert self._test is not None
        trial = PlaceFilter(self._test, found.state, self._demand)
        trial.find_failing_role(RankedPlace(0.0, *pair))
        headroom = found.headroom.copy()
        headroom.bar(pair, trial.failing_role)
        return found._replace(headroom=headroom)


class _PassingCopies(NamedTuple):
    """Copies that pass the capacity test."""

    headroom: Headroom
    state: State
    placed: list[NodePair]


class _Copies(NamedTuple):
    """Some copies more, and whether they pass."""

    pairs: list[NodePair]
    found: _PassingCopies
    passed: bool
