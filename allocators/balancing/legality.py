"""The rules for moving the guests of a board, as masks (allocation 4).

They are those of `rules`, which says them in sentences for one guest at a time; a test holds
the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import Board
    from ganeti_steward.allocators.balancing.preferences import Opinions
    from ganeti_steward.allocators.state.state import Ints, Mask

#: The moves of a drbd guest: see `board_moves`.
REPLACE, REPLACE_FAILOVER, FAILOVER_REPLACE, AROUND, FAILOVER = range(5)


class Leave(NamedTuple):
    """What may be done to the guests of a board."""

    disk_moves: bool = True
    instance_moves: bool = True
    restricted_migration: bool = False
    disk_factor: float = 1.0


class Rules:
    """What may be done on a board as it stands."""

    def __init__(self, board: Board, leave: Leave, opinions: Opinions) -> None:
        self._board, self._leave, self._opinions = board, leave, opinions

    def legal_to(self, guest: int, primary: int, secondary: int) -> bool:
        """Whether one certain move can be made in one go."""
        board, one = self._board, np.array([guest])
        if secondary < 0:
            return bool(self.single(one, np.array([primary]))[0])
        p, s = board.place(guest)
        places = {
            (s, p): (FAILOVER, s),
            (p, secondary): (REPLACE, secondary),
            (primary, p): (REPLACE_FAILOVER, primary),
            (s, secondary): (FAILOVER_REPLACE, secondary),
            (primary, s): (AROUND, primary),
        }
        at = places.get((primary, secondary))
        return at is not None and bool(self.drbd(at[0], one, np.array([at[1]])).all())

    def single(self, g: Ints, t: Ints) -> Mask:
        """Whether a guest on external storage may go to a node."""
        board = self._board
        p = board.primary[g]
        legal: Mask = self._primary_fits(g, t, ~board.usable[p]) & board.usable[t] & (t != p)
        legal &= self._accepted(p, t)
        if not self._leave.instance_moves:
            legal &= False
        if self._leave.restricted_migration:
            legal &= ~board.usable[p]
        return legal

    def drbd(self, kind: int, g: Ints, t: Ints) -> Mask:
        """Whether every step of a kind of move keeps to the rules."""
        board, leave = self._board, self._leave
        p, s = board.primary[g], board.secondary[g]
        dead_p, dead_s = ~board.usable[p], ~board.usable[s]
        if kind == FAILOVER:
            over: Mask = self._failover_fits(g) & self._migrates(dead_p)
            return over
        legal: Mask = board.usable[t] & (t != p) & (t != s) & leave.disk_moves
        if kind == REPLACE:
            legal &= board.live[p] & self._secondary_fits(g, t, p, dead_s)
            return legal
        legal = legal & self._migrates(dead_p)
        if kind == REPLACE_FAILOVER:
            legal &= ~dead_p & self._secondary_fits(g, t, p, dead_s) & self._stays_beside(g, t)
            legal &= self._primary_fits(g, t, False) & self._accepted(p, t)
            return legal
        legal &= self._failover_fits(g) & self._secondary_fits(g, t, s, dead_p)
        if kind == AROUND:
            legal &= self._primary_fits(g, t, False) & self._accepted(s, t)
            legal &= self._keeps_beside(g, t) & (not leave.restricted_migration)
        return legal

    def _migrates(self, dead: Mask) -> Mask | bool:
        if not self._leave.instance_moves:
            return False
        return dead if self._leave.restricted_migration else True

    def _accepted(self, source: Ints, t: Ints) -> Mask | bool:
        accepts = self._board.tags.accepts
        return True if accepts is None else accepts[source, t]

    def _storage_fits(self, g: Ints, t: Ints, forced: Mask | bool) -> Mask:
        board, figures = self._board, self._board.figures
        disk = figures.disk[g]
        fits = (disk < board.disk_slack[t]) & (figures.share[g] <= board.share_slack[t])
        if np.any(forced):
            fits |= forced & (disk < board.disk_hard[t])
        if board.mixed:
            fits &= figures.spindles[g] <= board.spindle_slack[t]
        fits |= ~figures.local[g]
        return fits

    def _primary_fits(self, g: Ints, t: Ints, forced: Mask | bool) -> Mask:
        """Whether a node may become primary (4.1)."""
        board, figures = self._board, self._board.figures
        free = board.free[t] - figures.use[g]
        soft = (
            (board.fails[t] | (free > board.needed[t]))
            & (figures.vcpus[g] <= board.vcpu_slack[t])
            & (figures.memory[g] < board.free_all[t])
        )
        soft &= np.logical_not(self._opinions.clashes(g, t))
        fits: Mask = self._storage_fits(g, t, forced) & (free > 0) & (soft | forced)
        fits &= self._opinions.allowed(g, t, 0)
        return fits

    def _secondary_fits(self, g: Ints, t: Ints, primary: Ints, forced: Mask) -> Mask:
        """Whether a node may become secondary of a primary (4.2)."""
        board, figures = self._board, self._board.figures
        reserve, free = figures.reserve[g], board.free[t]
        needed = np.maximum(board.needed[t], board.reserved[t, primary] + reserve)
        soft = (board.fails[t] | (free > needed)) & (reserve < free) & (reserve < board.free_all[t])
        fits: Mask = self._storage_fits(g, t, forced) & (soft | forced)
        fits &= self._opinions.allowed(g, t, 1)
        return fits

    def _failover_fits(self, g: Ints) -> Mask:
        """Whether a guest may go to its own secondary."""
        board, figures = self._board, self._board.figures
        p, s = board.primary[g], board.secondary[g]
        forced, use, reserve = ~board.usable[p], figures.use[g], figures.reserve[g]
        needed, free = board.reserve_without(s, p, reserve), board.free[s]
        hard = board.usable[s] & (free > use) & (board.disk_hard[s] > 0)
        hard &= ((board.disk_hard[p] > 0) | forced) & self._accepted(p, s)
        soft = (free <= needed) | (free - use > needed)
        soft &= (board.disk_slack[s] > 0) & (board.disk_slack[p] > 0)
        soft &= (board.share_slack[s] >= 0) & (board.share_slack[p] >= 0)
        soft &= figures.vcpus[g] <= board.vcpu_slack[s]
        soft &= figures.memory[g] < board.free_all[s]
        soft &= self._stays_beside(g, s)
        soft &= np.logical_not(self._opinions.clashes(g, s))
        fits: Mask = hard & (soft | forced)
        fits &= self._opinions.allowed(g, s, 0) & self._opinions.allowed(g, p, 1)
        return fits

    def _stays_beside(self, g: Ints, t: Ints) -> Mask:
        """Whether a guest's primary may become secondary of a target."""
        board, figures = self._board, self._board.figures
        p, reserve = board.primary[g], figures.reserve[g]
        room, needed = board.free[p] + figures.use[g], board.needed[p]
        kept = np.maximum(needed, board.reserved[p, t] + reserve)
        fits: Mask = ((room <= needed) | (room > kept)) & (reserve < room)
        fits &= reserve < board.free_all[p] + figures.memory[g]
        fits &= (board.disk_slack[p] > 0) & (board.share_slack[p] >= 0)
        fits &= self._opinions.allowed(g, p, 1)
        return fits

    def _keeps_beside(self, g: Ints, t: Ints) -> Mask:
        """Whether a guest's secondary may be secondary of a target."""
        board, figures = self._board, self._board.figures
        s, reserve = board.secondary[g], figures.reserve[g]
        needed, free = board.reserve_without(s, board.primary[g], reserve), board.free[s]
        kept = np.maximum(needed, board.reserved[s, t] + reserve)
        fits: Mask = ((free <= needed) | (free > kept)) & (reserve < free)
        fits &= reserve < board.free_all[s]
        return fits
