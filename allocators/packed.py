"""The allocator ``packed``: fill nodes one after another, so that empty ones stay empty.

The rules are those of `balanced`; only the order of the legal places differs.  It is the
example of another policy: the engine checks the rules and tests the places; the policy puts
them in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.placement.multi_allocate import answered
from ganeti_steward.allocators.placement.one_place import allocate, allocate_secondary, relocate
from ganeti_steward.allocators.placement.placing import Placer, PlaceSearch
from ganeti_steward.allocators.score.ranked_places import PairPlaces, RankedPlace, SinglePlaces
from ganeti_steward.allocators.score.score import FREE_DISK, shares
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.answer import Outcome, Refusal
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import (
        Allocate,
        AllocateSecondary,
        MultiAllocate,
        Relocate,
    )


@hookimpl
def steward_allocate(request: Allocate, cluster: Cluster, context: Context) -> Outcome:
    """Place one new instance on the fullest nodes that may take it."""
    return _noted(allocate(request, cluster, context, PackedSearch))


@hookimpl
def steward_multi_allocate(request: MultiAllocate, cluster: Cluster, context: Context) -> Outcome:
    """Place a batch, one after another in the order of the request."""
    state = load(cluster, None, context.options.kvm_memory)
    placer, placements = Placer(state, context, PackedSearch), []
    for item in request.items:
        group = item.group_name if item.group_name is not None else request.group_name
        placements.append(placer.place(state, item, group, placer.terms(item)))
        chosen = placements[-1].chosen
        state = chosen.after if chosen and chosen.after else state
    return answered(request, placements, context)


@hookimpl
def steward_relocate(request: Relocate, cluster: Cluster, context: Context) -> Outcome:
    """Move to the fullest node that may take the instance."""
    return relocate(request, cluster, context, PackedSearch)


@hookimpl
def steward_allocate_secondary(
    request: AllocateSecondary, cluster: Cluster, context: Context
) -> Outcome:
    """Take the fullest node that may become the secondary."""
    return _noted(allocate_secondary(request, cluster, context, PackedSearch))


def _noted(outcome: Outcome) -> Outcome:
    """With a note that the score in hail's wording is not the cluster score here."""
    if isinstance(outcome, Refusal):
        return outcome
    return outcome._replace(info=f"{outcome.info} (packed: the score is the primary's free share)")


class PackedSearch(PlaceSearch):
    """A search whose legal places come with the fullest nodes first."""

    def _places(self, members: Mask, group: int) -> SinglePlaces | PairPlaces:
        if len(self._verdicts) == 1:
            return _Single(self._scorer, self._demand, self._verdicts[0], members, self._terms)
        first, second = self._verdicts
        return _FullestPairs(self._scorer, self._demand, (first, second), members, self._terms)


def emptiness(state: State, terms: Terms, role: str) -> Floats:
    """The free shares of memory (beyond the N+1 reserve) and disk of each node, added up.

    The site rules' costs of the node are added.
    """
    free = (state.now[quantity.UNALLOCATED] - state.now[quantity.RESERVED]) / state.frame.memory
    total: Floats = free + shares(state.frame, state.now)[FREE_DISK] + terms.costs[role]
    return total


def _order(nodes: Ints, empty: Floats) -> list[int]:
    """Positions in ``nodes``, the fullest first; among equals the last by name."""
    order: list[int] = np.lexsort((-nodes, empty[nodes])).tolist()
    return order


class _Single(SinglePlaces):
    """The legal nodes; the score of a place is how empty its node is."""

    def best_first(self) -> Iterator[RankedPlace]:
        empty = emptiness(self._scorer.state, self._terms, PRIMARY)
        for at in _order(self._nodes, empty):
            node = int(self._nodes[at])
            yield RankedPlace(float(empty[node]), node)


class _FullestPairs(PairPlaces):
    """The legal pairs: the fullest primary, with it the fullest secondary."""

    def best_first(self) -> Iterator[RankedPlace]:
        state = self._scorer.state
        empty = emptiness(state, self._terms, PRIMARY)
        seconds = _order(self._second, emptiness(state, self._terms, SECONDARY))
        for position in _order(self._first, empty):
            primary = int(self._first[position])
            scores = self._rows(position, position + 1)[0]
            for at in seconds:
                # An infinite score marks a pair that is not legal.
                if np.isfinite(scores[at]):
                    yield RankedPlace(float(empty[primary]), primary, int(self._second[at]))
