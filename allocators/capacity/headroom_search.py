"""Placing as many equal copies as possible: by the score first, then by room.

Greedy by the score has the result of repeated allocations.  Where it ends below the bound the
copies are placed again by the room that is left, and then one placed copy at a time makes
way for two others, until nothing more is gained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from ganeti_steward.allocators.score import score
from ganeti_steward.allocators.state import quantity
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY

if TYPE_CHECKING:
    from ganeti_steward.allocators.capacity.headroom import Headroom
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask, NodePair
    from ganeti_steward.allocators.state.frame import Demand
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
        now = score.shares(frame, state.now)
        by_first, by_second = score.shares(frame, first) - now, score.shares(frame, second) - now
        rows = _changing(score.spread_weights(frame), now, by_first, by_second)
        self._weights = np.array([weight for _, weight in rows])[:, None]
        which = [row for row, _ in rows]
        self._now = now[which]
        self._first = by_first[which] * self._online / self._n
        self._second = by_second[which] * self._online / self._n
        self._first_square = by_first[which] ** 2 * self._online / self._n - self._first**2
        self._second_square = by_second[which] ** 2 * self._online / self._n - self._second**2
        self._step = (by_first[which], by_second[which])
        base = score.counts(frame, state.now)
        extra = score.Scorer(state, scope).tag_costs(demand)
        self._first_cost: Floats = score.counts(frame, first) - base + terms.costs[PRIMARY] + extra
        self._second_cost: Floats = score.counts(frame, second) - base + terms.costs[SECONDARY]
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
        cost: Floats = grown * score.RESERVED_TOTAL_WEIGHT
        if grown.any():
            share = reserved * self._online
            mean = share.sum() / self._n
            variance = float((share * share).sum() / self._n - mean * mean)
            after = variance + (2 * (reserved - mean) + grown) * grown / self._n
            after -= (grown / self._n) ** 2
            now = np.sqrt(max(variance, 0.0))
            cost += score.SPREADS[score.RESERVED_MEM][1] * (np.sqrt(np.maximum(after, 0.0)) - now)
        if self._frame.locations.shape[1]:
            cost += score.LOCATION_WEIGHT * self._frame.shared_locations(primary)
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


def _changing(
    weights: Floats, now: Floats, first: Floats, second: Floats
) -> list[tuple[int, float]]:
    """The components a copy changes and their weights, equal ones merged."""

    def equal(one: int, other: int) -> bool:
        return all(np.array_equal(part[one], part[other]) for part in (now, first, second))

    rows = score.merged_rows(weights.tolist(), equal)
    return [(row, weight) for row, weight in rows if first[row].any() or second[row].any()]


#: How many places are tried at most in making room for two copies in place of one.
_EFFORT: Final = 6_000

#: How many nodes are tried as the other end of each of the two.
_ENDS: Final = 4


class Costs(Protocol):
    """What the next copy costs on each node."""

    def as_primary(self) -> Floats:
        """By its primary."""

    def as_secondary(self) -> Floats:
        """By its secondary, whatever the primary."""

    def pairs(self, primary: int) -> Floats:
        """Added by its secondary, with this primary."""

    def change(self, pair: NodePair) -> None:
        """A copy was placed there."""


class RoomCosts:
    """Takes the primaries where most can go, the secondaries where few primaries could."""

    def __init__(self, headroom: Headroom, share: float) -> None:
        """``share``: what a place for a primary is worth in places for either role."""
        self._headroom, self._share = headroom, share
        self._look()

    def as_primary(self) -> Floats:
        """The more room for primaries, the cheaper."""
        costs: Floats = -(self._share * self._primary_slots + (1 - self._share) * self._slots)
        return costs

    def as_secondary(self) -> Floats:
        """The more room beyond that for primaries, the cheaper."""
        costs: Floats = np.subtract(
            self._share * self._primary_slots, self._slots, dtype=np.float64
        )
        return costs

    def pairs(self, primary: int) -> Floats:
        """What the larger N+1 reserve costs, in primaries."""
        grown = self._headroom.reserved_with(primary) - self._headroom.reserved
        costs: Floats = 2.0 * grown / max(self._headroom.use, 1)
        return costs

    def change(self, pair: NodePair) -> None:
        """A copy was placed."""
        self._look()

    def _look(self) -> None:
        headroom = self._headroom
        primary_slots = headroom.primaries_left()
        # Room without end is all the same.
        self._slots: Ints = np.minimum(
            headroom.slots - headroom.taken, 1 + int(primary_slots.sum())
        )
        self._primary_slots: Ints = np.minimum(primary_slots, self._slots)


def greedy(headroom: Headroom, costs: Costs, limit: int | None = None) -> list[NodePair]:
    """Place one copy after the other where it costs least, as long as any fits."""
    placed: list[NodePair] = []
    while limit is None or len(placed) < limit:
        pair = _cheapest(headroom, costs)
        if pair is None:
            break
        headroom.change(pair, 1)
        costs.change(pair)
        placed.append(pair)
    return placed


def _cheapest(headroom: Headroom, costs: Costs) -> NodePair | None:
    """The cheapest place; among equals the last node by name."""
    first = np.where(headroom.as_primary(), costs.as_primary(), np.inf)
    if not headroom.paired:
        at = len(first) - 1 - int(first[::-1].argmin())
        return (at, -1) if first[at] < np.inf else None
    as_secondary = headroom.as_secondary()
    if not as_secondary.any():
        return None
    second = np.where(as_secondary, costs.as_secondary(), np.inf)
    least = second.min()
    best, found = np.inf, None
    order = np.argsort(first[::-1], kind="stable")
    for primary in (len(first) - 1 - order).tolist():
        if first[primary] + least >= best or first[primary] == np.inf:
            break
        row = np.where(headroom.row(primary, as_secondary), second, np.inf) + costs.pairs(primary)
        at = len(row) - 1 - int(row[::-1].argmin())
        if first[primary] + row[at] < best:
            best, found = first[primary] + row[at], (primary, at)
    return found


def widen(headroom: Headroom, placed: list[NodePair], bound: int) -> None:
    """Take single copies off where two others find room then; changes both arguments."""
    effort = _EFFORT
    gained = headroom.paired
    while gained and len(placed) < bound and effort > 0:
        gained = False
        for pair in dict.fromkeys(placed):
            if len(placed) >= bound or effort <= 0:
                break
            if not headroom.as_primary().any() and not headroom.as_secondary().any():
                return
            two, tries = _two_for_one(headroom, pair)
            effort -= tries
            if two:
                placed.remove(pair)
                # What fits by itself now comes with it.
                placed += [*two, *greedy(headroom, RoomCosts(headroom, 0.5))]
                gained = True


def _two_for_one(headroom: Headroom, pair: NodePair) -> tuple[list[NodePair], int]:
    """Two copies in place of one, each on one of its nodes; and how much was tried."""
    headroom.change(pair, -1)
    first, second = pair
    tries = 0
    for one in _with(headroom, first, second):
        headroom.change(one, 1)
        tries += 1
        for other in _with(headroom, second, first):
            headroom.change(other, 1)
            return [one, other], tries
        headroom.change(one, -1)
    headroom.change(pair, 1)
    return [], tries


def _with(headroom: Headroom, node: int, other: int) -> Iterator[NodePair]:
    """Some places for one copy on a node; with the ``other`` only last of all."""
    as_primary, as_secondary = headroom.as_primary(), headroom.as_secondary()
    if as_primary[node]:
        for second in _ends(headroom, headroom.row(node, as_secondary), other):
            yield node, second
    if as_secondary[node]:
        for first in _ends(headroom, headroom.column(node, as_primary), other):
            yield first, node


def _ends(headroom: Headroom, nodes: Mask, last: int) -> Iterable[int]:
    left = np.where(nodes, headroom.slots - headroom.taken, -1)
    left[last] = min(left[last], 0)
    order = np.argsort(-left, kind="stable")[:_ENDS]
    return [node for node in order.tolist() if nodes[node]]


#: Shares for which placing by room is tried.
SHARES: Final = (1.0, 0.5)


def most_placements(headroom: Headroom, costs: Costs) -> tuple[Headroom, list[NodePair]]:
    """As many copies as can be found; the copies given are changed by the first attempt."""
    bound = headroom.bound()
    start = headroom.copy()
    best = headroom, greedy(headroom, costs)
    for share in SHARES if headroom.paired else ():
        if len(best[1]) >= bound:
            break
        other = start.copy()
        placed = greedy(other, RoomCosts(other, share))
        if len(placed) > len(best[1]):
            best = other, placed
    widen(*best, bound)
    return best
