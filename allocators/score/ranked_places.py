"""Finding places in the order of their score, best first, without keeping them all."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.score.score import LOCATION_WEIGHT, Scorer
from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Terms, Verdicts
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask, NodePair
    from ganeti_steward.allocators.state.frame import Demand


class RankedPlace(NamedTuple):
    """One legal place; ``secondary`` is -1 where none is needed."""

    score: float
    primary: int
    secondary: int = -1
    metric: tuple[int, ...] = ()
    """with exclusive storage, what is compared instead of the score"""

    @property
    def nodes(self) -> NodePair:
        """Both nodes."""
        return self.primary, self.secondary


class SinglePlaces:
    """All legal places on one node."""

    def __init__(
        self, scorer: Scorer, demand: Demand, verdicts: Verdicts, members: Mask, terms: Terms
    ) -> None:
        self._scorer, self._terms = scorer, terms
        self._nodes = np.flatnonzero(verdicts.fits & members)
        extra = _extra(scorer, demand, verdicts, terms)
        self._scores = scorer.one(self._nodes, verdicts.after[:, self._nodes], extra[self._nodes])

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._nodes)

    def best_first(self) -> Iterator[RankedPlace]:
        """By score; among equals the last node by name first."""
        order = np.lexsort((-self._nodes, self._scores))
        for at in order.tolist():
            yield RankedPlace(float(self._scores[at]), int(self._nodes[at]))


class PairPlaces:
    """All legal places on a primary and a secondary of one group."""

    def __init__(
        self,
        scorer: Scorer,
        demand: Demand,
        verdicts: tuple[Verdicts, Verdicts],
        members: Mask,
        terms: Terms,
    ) -> None:
        first, second = verdicts
        self._scorer, self._demand, self._terms = scorer, demand, terms
        self._forced = second.forced
        self._first = np.flatnonzero(first.fits & members)
        self._second = np.flatnonzero(second.fits & members)
        self._scores = scorer.pairs(
            self._first,
            first.after[:, self._first],
            self._second,
            second.after[:, self._second],
        )
        extra = _extra(scorer, demand, first, terms)
        self._scores.first += extra[self._first]
        self._scores.second += terms.costs[second.role][self._second]
        self._kept_pairs()
        self._best, self.counts = self._scan()

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    def _kept_pairs(self) -> None:
        """Pairs whose secondary keeps memory for the primary already.

        There the reserve grows on top of that memory: another score, and maybe a
        refusal.  They are few, so they are held as positions with a correction.
        """
        state = self._scorer.state
        size, peers = state.frame.size, state.peers
        kept = peers.reserved > 0
        primary, secondary = peers.key[kept] % size, peers.key[kept] // size
        at_first, at_second = _positions(self._first, size), _positions(self._second, size)
        mine = (at_first[primary] >= 0) & (at_second[secondary] >= 0)
        if self._demand.instance.forthcoming:
            mine[:] = False
        primary, secondary = primary[mine], secondary[mine]
        after, refused = self._n1_pair_columns(secondary, peers.reserved[kept][mine])
        column = at_second[secondary]
        correction = self._scores.second_part(secondary, after) - self._scores.plain[column]
        if not self._forced:
            correction[refused] = np.inf
        order = np.argsort(at_first[primary], kind="stable")
        self._kept_row = at_first[primary][order]
        self._kept_column = column[order]
        self._kept_correction = correction[order]

    def _n1_pair_columns(self, secondary: Ints, kept: Ints) -> tuple[Ints, Mask]:
        """The columns of secondaries that keep memory already, and which that rules out."""
        state = self._scorer.state
        after = state.after_secondary(self._demand, kept, secondary)
        fails = quantity.newly_fails(state.now[quantity.FAILS, secondary], after[quantity.FAILS])
        if state.frame.reserves is not None:
            fails |= state.frame.reserves.newly_fails(state.now, after, secondary)
        return after, fails

    def _rows(self, start: int, stop: int) -> Floats:
        """The scores of some primaries with every secondary; infinite where illegal."""
        rows = self._scores.rows(slice(start, stop))
        locations = self._scorer.state.frame.locations
        if locations.shape[1]:
            shared = locations[self._first[start:stop]] @ locations[self._second].T
            rows += LOCATION_WEIGHT * shared
        low, high = np.searchsorted(self._kept_row, (start, stop))
        rows[self._kept_row[low:high] - start, self._kept_column[low:high]] += (
            self._kept_correction[low:high]
        )
        rows[self._first[start:stop, None] == self._second] = np.inf
        return rows

    def _scan(self) -> tuple[Floats, Ints]:
        """The best score of each primary, and how many secondaries it has."""
        best = np.full(len(self._first), np.inf)
        counts = np.zeros(len(self._first), np.int64)
        if len(self._second):
            step = self._scores.chunk
            for start in range(0, len(self._first), step):
                rows = self._rows(start, start + step)
                best[start : start + step] = rows.min(axis=1)
                counts[start : start + step] = np.isfinite(rows).sum(axis=1)
        return best, counts

    def best_first(self) -> Iterator[RankedPlace]:
        """By score; among equals the last primary, then the last secondary by name.

        A primary's secondaries are only put in order when its best one is due.
        """
        heap: list[tuple[float, int, float, Iterator[RankedPlace] | None]] = [
            (score, -position, -np.inf, None)
            for position, score in enumerate(self._best.tolist())
            if score < np.inf
        ]
        heapify(heap)
        while heap:
            score, position, secondary, rest = heappop(heap)
            if rest is None:
                rest = self._row_places(-position)
            else:
                yield RankedPlace(score, int(self._first[-position]), -int(secondary))
            following = next(rest, None)
            if following is not None:
                heappush(heap, (following.score, position, -following.secondary, rest))

    def _row_places(self, position: int) -> Iterator[RankedPlace]:
        row = self._rows(position, position + 1)[0]
        for at in np.lexsort((-self._second, row)).tolist():
            if row[at] == np.inf:
                return
            yield RankedPlace(float(row[at]), int(self._first[position]), int(self._second[at]))


def _extra(scorer: Scorer, demand: Demand, verdicts: Verdicts, terms: Terms) -> Floats:
    """What placing the instance on each node adds to the node's own components."""
    extra: Floats = terms.costs[verdicts.role] + scorer.tag_costs(demand) + scorer.paired_tags()
    return extra


def _positions(nodes: Ints, size: int) -> Ints:
    """Node -> where it stands in ``nodes``, -1 where it does not."""
    positions = np.full(size, -1, np.int64)
    positions[nodes] = np.arange(len(nodes))
    return positions
