"""Placing as many equal copies as possible: by the score first, then by room.

Greedy by the score is what repeated allocations come to.  Where it ends below the bound the
copies are placed anew by the room that is left, and then one placed copy at a time makes
way for two others, until nothing more is gained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.capacity.headroom import Copies, Pair
    from ganeti_steward.allocators.state.state import Floats, Ints, Mask

#: How many places are tried at most in making room for two copies in place of one.
_EFFORT: Final = 6_000

#: How many nodes are tried as the other end of each of the two.
_ENDS: Final = 4


class Costs(Protocol):
    """What the next copy costs on each node."""

    def firsts(self) -> Floats:
        """By its primary."""

    def seconds(self) -> Floats:
        """By its secondary, whatever the primary."""

    def pairs(self, primary: int) -> Floats:
        """By its secondary besides, with this primary."""

    def change(self, pair: Pair) -> None:
        """A copy was placed there."""


class RoomCosts:
    """Takes the primaries where most can go, the secondaries where few primaries could."""

    def __init__(self, copies: Copies, share: float) -> None:
        """``share``: what a place for a primary is worth in places for either role."""
        self._copies, self._share = copies, share
        self._look()

    def firsts(self) -> Floats:
        """The more room for primaries, the cheaper."""
        costs: Floats = -(self._share * self._heads + (1 - self._share) * self._slots)
        return costs

    def seconds(self) -> Floats:
        """The more room beyond that for primaries, the cheaper."""
        costs: Floats = np.subtract(self._share * self._heads, self._slots, dtype=np.float64)
        return costs

    def pairs(self, primary: int) -> Floats:
        """What the growth of the memory kept free costs in primaries."""
        grown = self._copies.reserved_with(primary) - self._copies.reserved
        costs: Floats = 2.0 * grown / max(self._copies.use, 1)
        return costs

    def change(self, pair: Pair) -> None:
        """A copy was placed."""
        self._look()

    def _look(self) -> None:
        copies = self._copies
        heads = copies.heads_left()
        # Room without end is all the same.
        self._slots: Ints = np.minimum(copies.slots - copies.taken, 1 + int(heads.sum()))
        self._heads: Ints = np.minimum(heads, self._slots)


def greedy(copies: Copies, costs: Costs, limit: int | None = None) -> list[Pair]:
    """Place one copy after the other where it costs least, as long as any fits."""
    placed: list[Pair] = []
    while limit is None or len(placed) < limit:
        pair = _cheapest(copies, costs)
        if pair is None:
            break
        copies.change(pair, 1)
        costs.change(pair)
        placed.append(pair)
    return placed


def _cheapest(copies: Copies, costs: Costs) -> Pair | None:
    """The cheapest place; among equals the last node by name."""
    first = np.where(copies.firsts(), costs.firsts(), np.inf)
    if not copies.paired:
        at = len(first) - 1 - int(first[::-1].argmin())
        return (at, -1) if first[at] < np.inf else None
    seconds = copies.seconds()
    if not seconds.any():
        return None
    second = np.where(seconds, costs.seconds(), np.inf)
    least = second.min()
    best, found = np.inf, None
    order = np.argsort(first[::-1], kind="stable")
    for primary in (len(first) - 1 - order).tolist():
        if first[primary] + least >= best or first[primary] == np.inf:
            break
        row = np.where(copies.row(primary, seconds), second, np.inf) + costs.pairs(primary)
        at = len(row) - 1 - int(row[::-1].argmin())
        if first[primary] + row[at] < best:
            best, found = first[primary] + row[at], (primary, at)
    return found


def widen(copies: Copies, placed: list[Pair], bound: int) -> None:
    """Take single copies off where two others find room then; changes both arguments."""
    effort = _EFFORT
    gained = copies.paired
    while gained and len(placed) < bound and effort > 0:
        gained = False
        for pair in dict.fromkeys(placed):
            if len(placed) >= bound or effort <= 0:
                break
            if not copies.firsts().any() and not copies.seconds().any():
                return
            two, tries = _two_for_one(copies, pair)
            effort -= tries
            if two:
                placed.remove(pair)
                placed += [*two, *_direct(copies)]
                gained = True


def _direct(copies: Copies) -> list[Pair]:
    """Whatever fits by itself now."""
    return greedy(copies, RoomCosts(copies, 0.5))


def _two_for_one(copies: Copies, pair: Pair) -> tuple[list[Pair], int]:
    """Two copies in place of one, each on one of its nodes; and how much was tried."""
    copies.change(pair, -1)
    first, second = pair
    tries = 0
    for one in _with(copies, first, second):
        copies.change(one, 1)
        tries += 1
        for other in _with(copies, second, first):
            copies.change(other, 1)
            return [one, other], tries
        copies.change(one, -1)
    copies.change(pair, 1)
    return [], tries


def _with(copies: Copies, node: int, other: int) -> Iterator[Pair]:
    """Some places for one copy on a node; with the ``other`` only last of all."""
    firsts, seconds = copies.firsts(), copies.seconds()
    if firsts[node]:
        for second in _ends(copies, copies.row(node, seconds), other):
            yield node, second
    if seconds[node]:
        for first in _ends(copies, copies.column(node, firsts), other):
            yield first, node


def _ends(copies: Copies, nodes: Mask, last: int) -> Iterable[int]:
    left = np.where(nodes, copies.slots - copies.taken, -1)
    left[last] = min(left[last], 0)
    order = np.argsort(-left, kind="stable")[:_ENDS]
    return [node for node in order.tolist() if nodes[node]]


#: Shares for which placing by room is tried.
SHARES: Final = (1.0, 0.5)


def most_copies(copies: Copies, costs: Costs) -> tuple[Copies, list[Pair]]:
    """As many copies as can be found; the copies given are changed by the first attempt."""
    bound = copies.bound()
    start = copies.copy()
    best = copies, greedy(copies, costs)
    for share in SHARES if copies.paired else ():
        if len(best[1]) >= bound:
            break
        other = start.copy()
        placed = greedy(other, RoomCosts(other, share))
        if len(placed) > len(best[1]):
            best = other, placed
    widen(*best, bound)
    return best
