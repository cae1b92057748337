"""The cluster score while equal copies are placed: what one more copy on each node adds.

A copy changes a node's share of each component by the same amount every time, so nothing
but means and variances has to follow.  Primary and secondary are scored each by itself;
what both together add to a variance beyond that is of the order of 1 / nodes^2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.score.score import (
    LOCATION_WEIGHT,
    RESERVED_MEM,
    RESERVED_TOTAL_WEIGHT,
    SPREAD_WEIGHTS,
    SPREADS,
    Scorer,
    counts,
    merged_rows,
    shares,
)
from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY

if TYPE_CHECKING:
    from ganeti_steward.allocators.capacity.headroom import Headroom
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask, NodePair
    from ganeti_steward.allocators.state.demand import Demand
    from ganeti_steward.allocators.state.state import State


class HeadroomScore:
    """Costs of the next copy by node and role, lower is better."""

    def __init__(
        self, state: State, demand: Demand, terms: Terms, headroom: Headroom, scope: Mask
    ) -> None:
        """``scope``: the nodes in the score (allocation 5)."""
        frame = state.frame
        self._frame, self._headroom = frame, headroom
        self._online = (frame.usable & scope).astype(np.float64)
        self._n = max(float(self._online.sum()), 1.0)
        first = _steps(state, state.after_primary(demand))
        second = _steps(state, state.after_secondary(demand, 0)) if headroom.paired else state.now
        now = shares(frame, state.now)
        by_first, by_second = shares(frame, first) - now, shares(frame, second) - now
        rows = _changing(now, by_first, by_second)
        self._weights = np.array([weight for _, weight in rows])[:, None]
        which = [row for row, _ in rows]
        self._now = now[which]
        self._first = by_first[which] * self._online / self._n
        self._second = by_second[which] * self._online / self._n
        self._first_square = by_first[which] ** 2 * self._online / self._n - self._first**2
        self._second_square = by_second[which] ** 2 * self._online / self._n - self._second**2
        self._step = (by_first[which], by_second[which])
        base = counts(frame, state.now)
        extra = Scorer(state, scope).location_pairs(demand)
        self._first_cost: Floats = counts(frame, first) - base + terms.costs[PRIMARY] + extra
        self._second_cost: Floats = counts(frame, second) - base + terms.costs[SECONDARY]
        self._mean = (self._now * self._online).sum(axis=1) / self._n
        centred = self._now - self._mean[:, None]
        self._variance = (centred * centred * self._online).sum(axis=1) / self._n

    def as_primary(self) -> Floats:
        """What one more copy costs by its primary."""
        return self._first_cost + self._role(self._first, self._first_square)

    def as_secondary(self) -> Floats:
        """What one more copy costs by its secondary, the memory kept free aside."""
        return self._second_cost + self._role(self._second, self._second_square)

    def pairs(self, primary: int) -> Floats:
        """What the secondary adds to the costs, with this primary."""
        memory, headroom = self._frame.memory, self._headroom
        reserved = headroom.reserved / memory
        grown = headroom.reserved_with(primary) / memory - reserved
        cost: Floats = grown * RESERVED_TOTAL_WEIGHT
        if grown.any():
            share = reserved * self._online
            mean = share.sum() / self._n
            variance = float((share * share).sum() / self._n - mean * mean)
            after = variance + (2 * (reserved - mean) + grown) * grown / self._n
            after -= (grown / self._n) ** 2
            now = np.sqrt(max(variance, 0.0))
            cost += SPREADS[RESERVED_MEM][1] * (np.sqrt(np.maximum(after, 0.0)) - now)
        if self._frame.locations.shape[1]:
            cost += LOCATION_WEIGHT * self._frame.shared_locations(primary)
        return cost

    def change(self, pair: NodePair) -> None:
        """A copy was placed."""
        for node, step in zip(pair, self._step, strict=True):
            if node < 0 or not self._online[node]:
                continue
            moved, was = step[:, node], self._now[:, node]
            shift = moved / self._n
            self._variance += (2 * (was - self._mean) + moved) * shift - shift * shift
            self._mean += shift
            self._now[:, node] += moved

    def _role(self, step: Floats, square: Floats) -> Floats:
        after = self._now - self._mean[:, None]
        after *= 2 * step
        after += square
        after += self._variance[:, None]
        np.maximum(after, 0.0, out=after)
        np.sqrt(after, out=after)
        total: Floats = (self._weights * after).sum(axis=0)
        return total


def _steps(state: State, after: Ints) -> Ints:
    """The figures after one copy, without those that follow from others."""
    after[[quantity.RESERVED, quantity.FAILS]] = state.now[[quantity.RESERVED, quantity.FAILS]]
    return after


def _changing(now: Floats, first: Floats, second: Floats) -> list[tuple[int, float]]:
    """The components a copy changes and their weights, equal ones merged."""

    def equal(one: int, other: int) -> bool:
        return all(np.array_equal(part[one], part[other]) for part in (now, first, second))

    rows = merged_rows(SPREAD_WEIGHTS.tolist(), equal)
    return [(row, weight) for row, weight in rows if first[row].any() or second[row].any()]
