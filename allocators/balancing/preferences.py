"""What tags and a site's plugins say of guests on nodes, broadcast over both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ganeti_steward.allocators.score.score import TAGS_WEIGHT

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import Board
    from ganeti_steward.allocators.state.state import Floats, Ints, Mask


class Wishes(NamedTuple):
    """What a site's plugins say of one guest, by role; the group's nodes only."""

    banned: tuple[Mask, Mask]
    costs: tuple[Floats, Floats]


class Opinions:
    """Costs and bans beside the figures, as the board stands."""

    def __init__(self, board: Board, wishes: Mapping[int, Wishes]) -> None:
        """``wishes``: of the guests a plugin says something of."""
        self._board, self._wishes = board, wishes
        self._tagged = bool(board.tags.carried or board.tags.missed or wishes)

    @property
    def silent(self) -> bool:
        """Whether there is nothing to be said."""
        return not self._tagged and self._board.tags.shared is None

    def costs(self, g: Ints, primary: Ints, secondary: Ints) -> Floats | float:
        """How much more these nodes cost than the present ones."""
        if self.silent:
            return 0.0
        cost = self._tag_costs(g, primary) + self._second_costs(g, secondary)
        return cost + self._pair_tags(g, primary, secondary)

    def clashes(self, g: Ints, t: Ints) -> Mask | bool:
        """Whether an exclusion tag of a guest is on a node already."""
        if not self._board.tags.carried:
            return False
        clashes: Mask = self._everywhere(g, t, self._clashing) > 0
        return clashes

    def _clashing(self, guest: int) -> Ints | None:
        board = self._board
        return board.tags.clashing(guest, int(board.primary[guest]))

    def allowed(self, g: Ints, t: Ints, role: int) -> Mask | bool:
        """Whether the site lets a guest be there in a role (0 primary, 1 secondary)."""
        if not self._wishes:
            return True
        allowed: Mask = self._everywhere(g, t, lambda guest: self._banned(guest, role)) == 0
        return allowed

    def _banned(self, guest: int, role: int) -> Mask | None:
        return self._wishes[guest].banned[role] if guest in self._wishes else None

    def _tag_costs(self, g: Ints, t: Ints) -> Floats | float:
        """What a node costs more as primary than the present one."""
        if not self._tagged:
            return 0.0
        board = self._board
        return self._everywhere(g, t, self._tag_row) - self._everywhere(
            g, board.primary[g], self._tag_row
        )

    def _tag_row(self, guest: int) -> Floats | None:
        board = self._board
        row = np.zeros(board.size)
        clashing = self._clashing(guest)
        met = board.tags.met(guest, int(board.primary[guest]))
        if clashing is not None:
            row += TAGS_WEIGHT * clashing * board.usable
        if met is not None:
            row += met
        if guest in board.tags.missed:
            row += board.tags.missed[guest] * board.usable
        if guest in self._wishes:
            row += self._wishes[guest].costs[0]
        return row

    def _second_costs(self, g: Ints, t: Ints) -> Floats | float:
        """What the site says more of a node as secondary than of the present one."""
        if not self._wishes:
            return 0.0
        return self._everywhere(g, t, self._second_row) - self._everywhere(
            g, self._board.secondary[g], self._second_row
        )

    def _second_row(self, guest: int) -> Floats | None:
        return self._wishes[guest].costs[1] if guest in self._wishes else None

    def site_cost(self, guest: int, primary: int, secondary: int) -> float:
        """How much more the site charges for these nodes than for the present ones."""
        if guest not in self._wishes:
            return 0.0
        board, costs = self._board, self._wishes[guest].costs
        more = costs[0][primary] - costs[0][board.primary[guest]]
        if secondary >= 0:
            more += costs[1][secondary] - costs[1][board.secondary[guest]]
        return float(more)

    def _pair_tags(self, g: Ints, primary: Ints, secondary: Ints) -> Floats | float:
        """Location tags the two nodes share less those shared now."""
        board, shared = self._board, self._board.tags.shared
        if shared is None:
            return 0.0
        p, s = board.primary[g], board.secondary[g]
        # Counted on the primary, when that is usable.
        then = shared[primary, secondary] * board.usable[primary] * (secondary >= 0)
        more: Floats = (then - shared[p, s] * board.usable[p] * (s >= 0)).astype(np.float64)
        return more

    def _everywhere(self, g: Ints, t: Ints, row_of: Callable[[int], Any]) -> Floats:
        """What ``row_of`` a guest says of its target (0 for None), broadcast."""
        flat = g.ravel()
        rows = np.zeros((len(flat), self._board.size))
        for at, guest in enumerate(flat.tolist()):
            row = row_of(guest)
            if row is not None:
                rows[at] = row
        return rows[np.arange(len(flat)).reshape(g.shape), t]
