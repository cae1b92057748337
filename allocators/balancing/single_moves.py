"""The best single move of each instance, for many instances and targets at once (allocation 4.4).

A drbd instance can move by each of `move_kinds.DRBD_MOVES` to every other node t; an instance
on external storage can move to t.  Every step obeys the rules by itself: the soft rules are
dropped only where the node that is left is unusable.

Instances and targets are index arrays that are broadcast: ``instances[:, None]`` with all nodes
evaluates every target of each instance, two arrays of one length evaluate pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.deltas import Deltas
from ganeti_steward.allocators.balancing.legality import Legality
from ganeti_steward.allocators.balancing.preferences import Preferences
from ganeti_steward.allocators.rules.move_kinds import DRBD_MOVES, FAILOVER

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import GroupModel
    from ganeti_steward.allocators.balancing.preferences import SitePreferences
    from ganeti_steward.allocators.state.arrays import Floats, Ints
    from ganeti_steward.core.model.requests import Balance

#: Candidates evaluated at once; small enough for their figures to stay in the cache.
_CHUNK: Final = 8192


class Best(NamedTuple):
    """The best move of each instance; the gain is at most 0 where there is none."""

    gain: Floats
    """instances: how much lower the score becomes"""
    rank: Floats
    """instances: the gain, reduced where disks are copied"""
    primary: Ints
    """instances: node of the group"""
    secondary: Ints
    """instances: node of the group; -1 without one"""


class SingleMoves:
    """The single moves on a group model in its present state."""

    def __init__(
        self,
        model: GroupModel,
        request: Balance,
        site_preferences: Mapping[int, SitePreferences],
    ) -> None:
        self.model, self.request = model, request
        self.preferences, self.deltas = Preferences(model, site_preferences), Deltas(model)
        self.legality = Legality(model, request, self.preferences)
        self.block = max(1, _CHUNK // model.size)
        self._nodes = np.arange(model.size)

    def best(self, instances: Ints) -> Best:
        """The best move of each of these instances."""
        found = Best(*(np.zeros(len(instances), kind) for kind in (float, float, int, int)))
        paired = self.model.figures.drbd[instances]
        for search, which in ((self._drbd, paired), (self._single, ~paired)):
            at = np.flatnonzero(which)
            for start in range(0, len(at), self.block):
                some = at[start : start + self.block]
                for whole, part in zip(found, search(instances[some]), strict=True):
                    whole[some] = part
        return found

    # -- instances on external storage

    def _single(self, instances: Ints) -> Best:
        g, t, deltas = instances[:, None], self._nodes, self.deltas
        delta = deltas.primary_left(g).plus(deltas.primary_at(g, t))
        costs = self.preferences.costs(g, t, self.model.secondary[g])
        gains = np.where(self.legality.single(g, t), deltas.gain(delta) - costs, -np.inf)
        target = gains.argmax(axis=1)
        gain = gains[np.arange(len(instances)), target]
        return Best(gain, gain, target, np.full(len(instances), -1))

    # -- drbd instances

    def _drbd(self, instances: Ints) -> Best:
        model, rows = self.model, np.arange(len(instances))
        p, s = model.primary[instances], model.secondary[instances]
        gains = self._drbd_gains(instances)
        ranks = gains.copy()
        for row, kind in enumerate(DRBD_MOVES):
            if kind.copies:
                ranks[row] /= self.request.disk_factor
        flat = ranks.transpose(1, 0, 2).reshape(len(instances), -1)
        chosen = flat.argmax(axis=1)
        best, target = np.divmod(chosen, model.size)
        places = [kind.place(p, s, target) for kind in DRBD_MOVES]
        primary = np.stack([first for first, _ in places])[best, rows]
        secondary = np.stack([second for _, second in places])[best, rows]
        return Best(gains[best, rows, target], flat[rows, chosen], primary, secondary)

    def _drbd_gains(self, instances: Ints) -> Floats:
        """kind x instance x target; failing over is shown at the place of the secondary."""
        model, deltas, g, t = self.model, self.deltas, instances[:, None], self._nodes
        p, s = model.primary[g], model.secondary[g]
        gains = np.full((len(DRBD_MOVES), len(instances), model.size), -np.inf)
        t_secondary = deltas.secondary_at(g, t, p)
        t_primary, left_p = deltas.primary_at(g, t), deltas.primary_left(g)
        left_s, promoted = deltas.secondary_left(g), deltas.secondary_promoted(g)
        changes = (
            left_s.plus(t_secondary),
            left_s.plus(t_primary).plus(deltas.demoted(g, t)),
            left_p.plus(promoted).plus(deltas.secondary_at(g, t, s)),
            left_p.plus(t_primary).plus(deltas.kept(g, t)),
            promoted.plus(deltas.demoted(g, s)),
        )
        for row, (kind, delta) in enumerate(zip(DRBD_MOVES, changes, strict=True)):
            gain = deltas.gain(delta) - self.preferences.costs(g, *kind.place(p, s, t))
            where = t if kind is not FAILOVER else s
            gains[row] = np.where(self.legality.drbd(kind, g, where), gain, -np.inf)
        gains[DRBD_MOVES.index(FAILOVER)][model.secondary[instances][:, None] != t] = -np.inf
        return gains
