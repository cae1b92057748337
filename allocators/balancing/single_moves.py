"""All ways to move one guest, judged for many guests and targets at once (allocation 4.4).

A drbd guest on (p, s) can go, with one copy of its disks or none, to

==============  ==========================================================
(s, p)          fail over
(p, t)          replace the secondary
(t, p)          replace the secondary, then fail over
(s, t)          fail over, then replace the secondary
(t, s)          fail over, replace the secondary, fail over
==============  ==========================================================

for every other node t; a guest on external storage from p to t.  Every step keeps to the
rules by itself: strict, but for a node left that is unusable.

Guests and targets are index arrays that are broadcast: ``guests[:, None]`` with all nodes
judges every target of each guest, two arrays of one length judge pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.deltas import Fates
from ganeti_steward.allocators.balancing.legality import FAILOVER, Leave, Rules
from ganeti_steward.allocators.balancing.preferences import Opinions

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import Board
    from ganeti_steward.allocators.balancing.preferences import Wishes
    from ganeti_steward.allocators.state.state import Floats, Ints

#: Candidates judged at once; small enough for their figures to stay in the cache.
_CHUNK: Final = 8192


class Best(NamedTuple):
    """The best move of each guest; the gain is at most 0 where there is none."""

    gain: Floats
    rank: Floats
    """the gain, made smaller for copying disks"""
    primary: Ints
    secondary: Ints


class Moves:
    """The moves of a board's guests as it stands."""

    def __init__(self, board: Board, leave: Leave, wishes: Mapping[int, Wishes]) -> None:
        self.board, self.leave = board, leave
        self.opinions, self.fates = Opinions(board, wishes), Fates(board)
        self.rules = Rules(board, leave, self.opinions)
        self.block = max(1, _CHUNK // board.size)
        self._nodes = np.arange(board.size)

    def best(self, guests: Ints) -> Best:
        """The best move of each of these guests."""
        found = Best(*(np.zeros(len(guests), kind) for kind in (float, float, int, int)))
        paired = self.board.figures.drbd[guests]
        for judge, which in ((self._drbd, paired), (self._single, ~paired)):
            at = np.flatnonzero(which)
            for start in range(0, len(at), self.block):
                some = at[start : start + self.block]
                for whole, part in zip(found, judge(guests[some]), strict=True):
                    whole[some] = part
        return found

    # -- guests on external storage

    def _single(self, guests: Ints) -> Best:
        g, t, fates = guests[:, None], self._nodes, self.fates
        fate = fates.primary_left(g).plus(fates.primary_at(g, t))
        costs = self.opinions.costs(g, t, self.board.secondary[g])
        gains = np.where(self.rules.single(g, t), fates.gain(fate) - costs, -np.inf)
        target = gains.argmax(axis=1)
        gain = gains[np.arange(len(guests)), target]
        return Best(gain, gain, target, np.full(len(guests), -1))

    # -- drbd guests

    def _drbd(self, guests: Ints) -> Best:
        board, rows = self.board, np.arange(len(guests))
        p, s = board.primary[guests], board.secondary[guests]
        gains = self._drbd_gains(guests)
        ranks = gains.copy()
        ranks[:FAILOVER] /= self.leave.disk_factor
        flat = ranks.transpose(1, 0, 2).reshape(len(guests), -1)
        chosen = flat.argmax(axis=1)
        kind, target = np.divmod(chosen, board.size)
        primary = np.stack([p, target, s, target, s])[kind, rows]
        secondary = np.stack([target, p, target, s, p])[kind, rows]
        return Best(gains[kind, rows, target], flat[rows, chosen], primary, secondary)

    def _drbd_gains(self, guests: Ints) -> Floats:
        """kind x guest x target; failing over is shown at the place of the secondary."""
        board, fates, g, t = self.board, self.fates, guests[:, None], self._nodes
        p, s = board.primary[g], board.secondary[g]
        gains = np.full((5, len(guests), board.size), -np.inf)
        t_secondary = fates.secondary_at(g, t, p)
        t_primary, left_p = fates.primary_at(g, t), fates.primary_left(g)
        left_s, promoted = fates.secondary_left(g), fates.secondary_promoted(g)
        kinds = (
            left_s.plus(t_secondary),
            left_s.plus(t_primary).plus(fates.demoted(g, t)),
            left_p.plus(promoted).plus(fates.secondary_at(g, t, s)),
            left_p.plus(t_primary).plus(fates.kept(g, t)),
            promoted.plus(fates.demoted(g, s)),
        )
        for kind, fate in enumerate(kinds):
            gain = fates.gain(fate) - self._costs(kind, g, t)
            where = t if kind != FAILOVER else s
            gains[kind] = np.where(self.rules.drbd(kind, g, where), gain, -np.inf)
        gains[FAILOVER][board.secondary[guests][:, None] != t] = -np.inf
        return gains

    def _costs(self, kind: int, g: Ints, t: Ints) -> Floats | float:
        """What tags and the site say of a kind of move."""
        p, s = self.board.primary[g], self.board.secondary[g]
        primary, secondary = (p, t, s, t, s)[kind], (t, p, t, s, p)[kind]
        return self.opinions.costs(g, primary, secondary)
