"""Which of all exchanges are worth a closer look.

There are guests x guests of them.  The score's spreads are roots of sums over the nodes; for
a small change a root is as good as straight, and a straight sum over two nodes is a sum of
products of what the two guests take.  So all pairs are estimated by a few products of
matrices.  `Swaps` then judges the best of them by the real formulas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.swaps import CROSSWISE, PRIMARIES, SECONDARIES
from ganeti_steward.allocators.score.score import RESERVED_TOTAL_WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ganeti_steward.allocators.balancing.group_model import Board
    from ganeti_steward.allocators.state.state import Ints, Mask

    Rough = NDArray[np.float32]

#: Pairs estimated at once; their figures should stay in the processor's cache.
_BLOCK: Final = 1 << 16

#: An estimate needs no more digits than this has.
_ROUGH: Final = np.float32

_NOTHING: Final = 1e-18

#: A spread of next to nothing must not make everything else look like nothing.
_LEAST: Final = 1e-6


class Pairs(NamedTuple):
    """Exchanges of one kind."""

    kind: int
    guests: Ints
    others: Ints

    def only(self, which: Mask) -> Pairs:
        """Some of them."""
        return Pairs(self.kind, self.guests[which], self.others[which])


class _Slopes(NamedTuple):
    """How the score answers to small changes, as the board stands."""

    node: Rough
    """component x node: of a figure that comes to the node (first order)"""
    bend: Rough
    """component x node: of its square"""
    reserve: Rough
    """per node: of memory it has to keep free"""
    bend_reserve: Rough


class PairFinder:
    """Estimates all exchanges of a board's guests."""

    def __init__(self, board: Board) -> None:
        self._board = board
        figures = board.figures
        # Without exclusive storage all nodes are of one kind; with it the difference between
        # kinds is left to the exact look.
        self._primary = figures.as_primary[0, :, :-1].astype(_ROUGH)
        self._secondary = figures.as_secondary[0, :, :-1].astype(_ROUGH)
        self._disk = figures.disk.astype(_ROUGH)
        self._reserve = figures.reserve.astype(_ROUGH)

    def best(self, kind: int, number: int, guests: Ints, others: Ints) -> Pairs:
        """At most ``number`` of the most promising exchanges of ``guests`` with ``others``."""
        slopes = self._slopes()
        found = [self._some(kind, slopes, part, others) for part in self._parts(guests, others)]
        loss, first, second = (np.concatenate(column) for column in zip(*found, strict=True))
        if len(loss) > number:
            top = np.argpartition(loss, number)[:number]
            first, second = first[top], second[top]
        return Pairs(kind, first, second)

    @staticmethod
    def _parts(guests: Ints, others: Ints) -> list[Ints]:
        step = max(1, _BLOCK // max(len(others), 1))
        return [guests[start : start + step] for start in range(0, max(len(guests), 1), step)]

    def _some(
        self, kind: int, slopes: _Slopes, guests: Ints, others: Ints
    ) -> tuple[Rough, Ints, Ints]:
        """The exchanges that look like a gain: loss, guests, others."""
        if kind != CROSSWISE:
            # Of two guests that take each other's place one has to ask.
            others = others[others > guests[:1].min(initial=-1)]
        loss = self._loss(kind, slopes, guests, others)
        if kind != CROSSWISE:
            loss[guests[:, None] >= others] = np.inf
        row, column = np.nonzero(loss < 0)
        return loss[row, column], guests[row], others[column]

    def _slopes(self) -> _Slopes:
        board, n = self._board, self._board.online
        spread = np.maximum(np.sqrt(np.maximum(board.variance, 0.0)), _LEAST)
        weight = (board.weights / (2.0 * spread * n))[:, None] * board.usable
        node = 2.0 * weight * board.centred * board.inverse
        bend = weight * board.inverse * board.inverse
        total = RESERVED_TOTAL_WEIGHT * board.inverse[-1] * board.usable
        slopes = (node[:-1], bend[:-1], node[-1] + total, bend[-1])
        self._reserved = board.reserved.astype(_ROUGH)
        # What is next to nothing costs the processor more time than a number.
        return _Slopes(*(np.where(np.abs(s) < _NOTHING, 0.0, s).astype(_ROUGH) for s in slopes))

    def _loss(self, kind: int, slopes: _Slopes, guests: Ints, others: Ints) -> Rough:
        """guest x other: by how much the score would grow, about; infinite when not allowed."""
        board = self._board
        p, s = board.primary[guests][:, None], board.secondary[guests][:, None]
        q, u = board.primary[others], board.secondary[others]
        if kind == SECONDARIES:
            allowed = (s != u) & (u != p) & (s != q) & self._both_drbd(guests, others)
            loss = self._exchange(slopes, self._secondary, board.secondary, guests, others)
            loss += self._rebacked(slopes, guests, q, self._reserve[others])
            loss += self._rebacked(slopes, others, p.T[0], self._reserve[guests]).T
            allowed &= self._stored(board.secondary, guests, others)
        elif kind == PRIMARIES:
            allowed = (p != q) & (u != p) & (s != q)
            loss = self._exchange(slopes, self._primary, board.primary, guests, others)
            loss += self._reprimed(slopes, guests, q)
            loss += self._reprimed(slopes, others, p.T[0]).T
            allowed &= self._stored(board.primary, guests, others)
        else:
            allowed = (p != u) & (u != s) & (p != q) & self._both_drbd(guests, others)
            loss = self._crossed(slopes, guests, others)
            loss += self._reprimed(slopes, guests, u)
        return np.where(allowed, loss, np.inf)

    def _both_drbd(self, guests: Ints, others: Ints) -> Mask:
        drbd = self._board.figures.drbd
        both: Mask = drbd[guests][:, None] & drbd[others]
        return both

    def _stored(self, node_of: Ints, guests: Ints, others: Ints) -> Mask:
        """Whether either has room where the other was."""
        board, disk = self._board, self._disk
        room = board.disk_slack[node_of].astype(_ROUGH) + disk
        fits: Mask = (room[guests][:, None] > disk[others]) & (disk[guests][:, None] < room[others])
        return fits

    def _exchange(
        self, slopes: _Slopes, figures: Rough, node_of: Ints, guests: Ints, others: Ints
    ) -> Rough:
        """Two guests take each other's node in one role."""
        mine, theirs = figures[guests], figures[others]
        loss = self._replaced(slopes, node_of[guests], mine, theirs)
        loss += self._replaced(slopes, node_of[others], theirs, mine).T
        return loss

    def _crossed(self, slopes: _Slopes, guests: Ints, others: Ints) -> Rough:
        """The guest's primary gets the other's secondary, and the other way round."""
        board = self._board
        mine, theirs = self._primary[guests], self._secondary[others]
        loss = self._replaced(slopes, board.primary[guests], mine, theirs)
        loss += self._replaced(slopes, board.secondary[others], theirs, mine).T
        return loss

    @staticmethod
    def _replaced(slopes: _Slopes, node: Ints, goes: Rough, comes: Rough) -> Rough:
        """goes x comes: on the node of what goes, what comes takes its place."""
        slope, bend = slopes.node[:, node].T, slopes.bend[:, node].T
        own = (goes * (bend * goes - slope)).sum(axis=1)
        loss: Rough = (slope - 2.0 * bend * goes) @ comes.T
        loss += bend @ (comes * comes).T
        loss += own[:, None]
        return loss

    def _reprimed(self, slopes: _Slopes, guests: Ints, primary: Ints) -> Rough:
        """guest x other: the guest's secondary backs it at another primary."""
        loss = self._rebacked(slopes, guests, primary, self._reserve[guests][:, None])
        return loss * self._board.figures.drbd[guests][:, None]

    def _rebacked(self, slopes: _Slopes, guests: Ints, primary: Ints, reserve: Rough) -> Rough:
        """guest x other: the guest's secondary keeps this for a primary, not the guest's."""
        board = self._board
        s, p = board.secondary[guests], board.primary[guests]
        without = board.reserve_without(s, p, board.figures.reserve[guests])
        needed = self._reserved[s[:, None], primary] + reserve
        np.maximum(needed, without.astype(_ROUGH)[:, None], out=needed)
        needed -= board.needed[s].astype(_ROUGH)[:, None]
        loss: Rough = needed * (
            slopes.reserve[s][:, None] + slopes.bend_reserve[s][:, None] * needed
        )
        return loss
