"""What moving a guest changes of the nodes, and what that does to the score.

A score changes by what its changed nodes add to the spreads and by themselves (allocation
5), so the parts of a move are judged node by node and added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import Board
    from ganeti_steward.allocators.state.state import Floats, Ints, Mask


class Fate(NamedTuple):
    """What becoming something else changes of some nodes."""

    square: Floats
    """component x ...: growth of the sum of squares"""
    shift: Floats
    """growth of the sum"""
    own: Floats
    """growth of what they add by themselves"""

    def plus(self, other: Fate) -> Fate:
        """Both together; shapes are broadcast."""
        return Fate(self.square + other.square, self.shift + other.shift, self.own + other.own)

    def where(self, which: Mask) -> Fate:
        """Only those of ``which``."""
        return Fate(self.square * which, self.shift * which, self.own * which)


class Fates:
    """The parts of moves on a board as it stands."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def fate(
        self,
        node: Ints,
        change: Floats,
        free: Floats,
        needed: Floats,
        primaries: int = 0,
        secondaries: int = 0,
    ) -> Fate:
        """Nodes with other figures: the components but the last, memory free and needed."""
        board = self._board
        count = board.counted(
            node,
            board.primaries[node] + primaries,
            board.secondaries[node] + secondaries,
            free <= needed,
            needed,
        )
        count = count - board.own[node]
        reserve = (needed - board.needed[node]) * board.inverse[-1, node]
        shape = np.broadcast_shapes(change.shape[1:], count.shape)
        shift = np.empty((len(board.values), *shape))
        shift[:-1], shift[-1] = change, reserve
        centred = board.centred[:, node]
        if not board.all_usable:
            shift *= board.usable[node]
        return Fate(
            shift * (2.0 * centred.reshape(self._aligned(centred, shift)) + shift), shift, count
        )

    @staticmethod
    def _aligned(narrow: Floats, wide: Floats) -> tuple[int, ...]:
        """The shape in which a component x ... array goes with one of more dimensions."""
        missing = wide.ndim - narrow.ndim
        return (narrow.shape[0], *[1] * missing, *narrow.shape[1:])

    def worth(self, g: Ints, node: Ints, *, primary: bool) -> Floats:
        """component (but the reserve) x ...: what a guest means on a node."""
        board = self._board
        figures = board.figures.as_primary if primary else board.figures.as_secondary
        mine = figures[board.kind[node], g] if board.mixed else figures[0, g]
        inverse = board.inverse[:-1, node]
        change = np.moveaxis(mine[..., :-1], -1, 0)
        if inverse.ndim < change.ndim:
            inverse = inverse.reshape(self._aligned(inverse, change))
        return change * inverse

    def primary_at(self, g: Ints, t: Ints) -> Fate:
        """A node as new primary."""
        board = self._board
        free = board.free[t] - board.figures.use[g]
        return self.fate(t, self.worth(g, t, primary=True), free, board.needed[t], 1)

    def secondary_at(self, g: Ints, t: Ints, primary: Ints) -> Fate:
        """A node as new secondary of a primary."""
        board = self._board
        kept = board.reserved[t, primary] + board.figures.reserve[g]
        needed = np.maximum(board.needed[t], kept)
        return self.fate(t, self.worth(g, t, primary=False), board.free[t], needed, 0, 1)

    def primary_left(self, g: Ints) -> Fate:
        """A guest's primary without it."""
        board, p = self._board, self._board.primary[g]
        free = board.free[p] + board.figures.use[g]
        return self.fate(p, -self.worth(g, p, primary=True), free, board.needed[p], -1)

    def secondary_left(self, g: Ints) -> Fate:
        """A guest's secondary without it."""
        board, s = self._board, self._board.secondary[g]
        needed = board.reserve_without(s, board.primary[g], board.figures.reserve[g])
        return self.fate(s, -self.worth(g, s, primary=False), board.free[s], needed, 0, -1)

    def secondary_promoted(self, g: Ints) -> Fate:
        """A guest's secondary as its primary."""
        board, s = self._board, self._board.secondary[g]
        needed = board.reserve_without(s, board.primary[g], board.figures.reserve[g])
        free = board.free[s] - board.figures.use[g]
        change = self.worth(g, s, primary=True) - self.worth(g, s, primary=False)
        return self.fate(s, change, free, needed, 1, -1)

    def demoted(self, g: Ints, t: Ints) -> Fate:
        """A guest's primary as its secondary, the target being primary."""
        board, p = self._board, self._board.primary[g]
        kept = board.reserved[p, t] + board.figures.reserve[g]
        needed = np.maximum(board.needed[p], kept)
        free = board.free[p] + board.figures.use[g]
        change = self.worth(g, p, primary=False) - self.worth(g, p, primary=True)
        return self.fate(p, change, free, needed, -1, 1)

    def kept(self, g: Ints, t: Ints) -> Fate:
        """A guest's secondary staying so, the target being primary."""
        board, s, reserve = self._board, self._board.secondary[g], self._board.figures.reserve[g]
        without = board.reserve_without(s, board.primary[g], reserve)
        needed = np.maximum(without, board.reserved[s, t] + reserve)
        nothing = np.zeros((len(board.values) - 1, *[1] * needed.ndim))
        return self.fate(s, nothing, board.free[s], needed)

    def gain(self, fate: Fate) -> Floats:
        """How much lower the score gets."""
        board, n = self._board, self._board.online
        variance = board.variance.reshape(-1, *[1] * (fate.square.ndim - 1))
        mean = fate.shift / n
        after = fate.square / n
        after += variance
        mean *= mean
        after -= mean
        np.maximum(after, 0.0, out=after)
        np.sqrt(after, out=after)
        spread = np.tensordot(board.weights, after, axes=1)
        gain: Floats = board.spread - spread - fate.own
        return gain
