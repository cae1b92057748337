"""Exchanges: two guests take each other's node in one role.

Single moves end where every node has its share of guests; exchanges keep the numbers and
even out the sizes.  Many pairs of guests are judged at once, as two arrays of one length:

* secondaries: (p, s) and (q, u) become (p, u) and (q, s)
* primaries: (p, s) and (q, u) become (q, s) and (p, u)
* crosswise: (p, s) and (q, u) become (u, s) and (q, p)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.single_moves import Moves
    from ganeti_steward.allocators.state.state import Floats, Ints, Mask

SECONDARIES, PRIMARIES, CROSSWISE = range(3)


class Swaps:
    """Judges exchanges on a board as it stands."""

    def __init__(self, moves: Moves) -> None:
        self._leave, self._board = moves.leave, moves.board
        self._fates, self._costs = moves.fates, moves.opinions.costs

    def gains(self, kind: int, guests: Ints, others: Ints) -> Floats:
        """What each pair's exchange gains; minus infinite where it is not allowed.

        An estimate where both carry exclusion tags: those are not looked at together.
        """
        judge = (self._secondaries, self._primaries, self._crosswise)[kind]
        return judge(guests, others)

    def kinds(self) -> list[int]:
        """The kinds that are allowed at all."""
        leave = self._leave
        kinds = [SECONDARIES] if leave.disk_moves else []
        if leave.instance_moves and not leave.restricted_migration:
            kinds += [PRIMARIES, CROSSWISE] if leave.disk_moves else [PRIMARIES]
        return kinds

    def places(self, kind: int, guest: int, other: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the two are to live then: the guest, the other."""
        board = self._board
        (p, s), (q, u) = board.place(guest), board.place(other)
        if kind == SECONDARIES:
            return (p, u), (q, s)
        if kind == PRIMARIES:
            return (q, s), (p, u)
        return (u, s), (q, p)

    # -- the three kinds

    def _secondaries(self, guests: Ints, others: Ints) -> Floats:
        board, figures = self._board, self._board.figures
        (p, s, r), (q, u, reserve) = self._homes(guests), self._homes(others)
        legal = figures.drbd[guests] & figures.drbd[others] & (s != u) & (u != p) & (s != q)
        legal &= board.usable[s] & board.usable[u]
        same = q == p
        at_s = board.reserve_changed(s, p, -r + same * reserve, q, reserve)
        at_u = board.reserve_changed(u, q, -reserve + same * r, p, r)
        legal &= self._stored(s, others, guests) & self._stored(u, guests, others)
        legal &= self._backs(s, reserve, board.free[s], at_s)
        legal &= self._backs(u, r, board.free[u], at_u)
        change_s = self._second(s, others) - self._second(s, guests)
        change_u = self._second(u, guests) - self._second(u, others)
        total = self._fates.fate(s, change_s, board.free[s], at_s)
        total = total.plus(self._fates.fate(u, change_u, board.free[u], at_u))
        costs = self._costs(guests, p, u) + self._costs(others, q, s)
        return np.where(legal, self._fates.gain(total) - costs, -np.inf)

    def _primaries(self, guests: Ints, others: Ints) -> Floats:
        board, figures = self._board, self._board.figures
        (p, s, r), (q, u, reserve) = self._homes(guests), self._homes(others)
        less = figures.use[guests] - figures.use[others]
        first, second = figures.drbd[guests], figures.drbd[others]
        legal = (p != q) & board.usable[p] & board.usable[q] & (q != s) & (u != p)
        if not self._leave.disk_moves:
            legal &= ~first & ~second
        free_p, free_q = board.free[p] + less, board.free[q] - less
        legal &= self._stored(p, others, guests) & self._stored(q, guests, others)
        legal &= self._carries(p, others, guests, free_p)
        legal &= self._carries(q, guests, others, free_q)
        change_p = self._first(p, others) - self._first(p, guests)
        change_q = self._first(q, guests) - self._first(q, others)
        total = self._fates.fate(p, change_p, free_p, board.needed[p])
        total = total.plus(self._fates.fate(q, change_q, free_q, board.needed[q]))
        nothing = np.zeros((len(board.values) - 1, len(q)))
        joint = first & second & (u == s)
        # A node that is secondary of both is looked at once, with what both change.
        moved = r - joint * reserve
        at_s = board.reserve_changed(s, p, -moved, q, moved)
        total = total.plus(self._fates.fate(s, nothing, board.free[s], at_s).where(first))
        legal &= ~first | self._backs(s, r, board.free[s], at_s)
        at_u = board.reserve_changed(u, q, -reserve, p, reserve)
        alone = second & ~joint
        total = total.plus(self._fates.fate(u, nothing, board.free[u], at_u).where(alone))
        legal &= ~alone | self._backs(u, reserve, board.free[u], at_u)
        costs = self._costs(guests, q, s) + self._costs(others, p, u)
        return np.where(legal, self._fates.gain(total) - costs, -np.inf)

    def _crosswise(self, guests: Ints, others: Ints) -> Floats:
        board, figures = self._board, self._board.figures
        (p, s, r), (q, u, reserve) = self._homes(guests), self._homes(others)
        use = figures.use[guests]
        legal = figures.drbd[guests] & figures.drbd[others] & (p != u) & (u != s) & (p != q)
        legal &= board.usable[p] & board.usable[u]
        free_p, free_u = board.free[p] + use, board.free[u] - use
        at_p = board.reserve_changed(p, q, reserve, q, reserve)
        at_u = board.reserve_changed(u, q, -reserve, q, -reserve)
        at_s = board.reserve_changed(s, p, -r, u, r)
        legal &= self._stored(p, others, guests) & self._stored(u, guests, others)
        legal &= self._carries(u, guests, None, free_u, at_u)
        legal &= self._backs(p, reserve, free_p, at_p) & self._backs(s, r, board.free[s], at_s)
        change_p = self._second(p, others) - self._first(p, guests)
        change_u = self._first(u, guests) - self._second(u, others)
        nothing = np.zeros((len(board.values) - 1, len(q)))
        total = self._fates.fate(p, change_p, free_p, at_p, -1, 1)
        total = total.plus(self._fates.fate(u, change_u, free_u, at_u, 1, -1))
        total = total.plus(self._fates.fate(s, nothing, board.free[s], at_s))
        costs = self._costs(guests, u, s) + self._costs(others, q, p)
        return np.where(legal, self._fates.gain(total) - costs, -np.inf)

    def _homes(self, guests: Ints) -> tuple[Ints, Ints, Floats]:
        """Primary, secondary and the memory that keeps free."""
        board = self._board
        return board.primary[guests], board.secondary[guests], board.figures.reserve[guests]

    # -- rules

    def _stored(self, node: Ints, comes: Ints, goes: Ints) -> Mask:
        """Whether there is disk for one guest when the other has gone."""
        board, figures = self._board, self._board.figures
        fits = board.disk_slack[node] + figures.disk[goes] > figures.disk[comes]
        fits &= figures.share[comes] <= board.share_slack[node] + figures.share[goes]
        if board.mixed:
            fits &= figures.spindles[comes] <= board.spindle_slack[node] + figures.spindles[goes]
        legal: Mask = fits | ~figures.local[comes]
        return legal

    def _backs(self, node: Ints, reserve: Floats, free: Floats, needed: Floats) -> Mask:
        """Whether a node can be secondary with these figures."""
        board = self._board
        backs: Mask = (reserve < free) & (reserve < board.free_all[node])
        backs &= board.fails[node] | (free > needed)
        return backs

    def _carries(
        self,
        node: Ints,
        comes: Ints,
        goes: Ints | None,
        free: Floats,
        needed: Floats | None = None,
    ) -> Mask:
        """Whether a node can be primary with these figures."""
        board, figures = self._board, self._board.figures
        vcpus, memory = (0.0, 0.0) if goes is None else (figures.vcpus[goes], figures.memory[goes])
        need = board.needed[node] if needed is None else needed
        carries: Mask = (free > 0) & (board.fails[node] | (free > need))
        carries &= figures.vcpus[comes] <= board.vcpu_slack[node] + vcpus
        carries &= figures.memory[comes] < board.free_all[node] + memory
        return carries

    # -- what changes

    def _first(self, node: Ints, guests: Ints) -> Floats:
        return self._fates.worth(guests, node, primary=True)

    def _second(self, node: Ints, guests: Ints) -> Floats:
        return self._fates.worth(guests, node, primary=False)
