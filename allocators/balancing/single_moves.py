"""The best single move of each instance, for many instances and targets at once (allocation 4.4).

A drbd instance can move by each of `move_kinds.DRBD_MOVES` to every other node t; an instance
on external storage can move to t.  Every step obeys the rules by itself: the soft rules are
dropped only where the node that is left is unusable.

Instances and targets are index arrays that are broadcast: ``instances[:, None]`` with all nodes
evaluates every target of each instance, two arrays of one length evaluate pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.deltas import Delta, Deltas
from ganeti_steward.allocators.balancing.legality import Legality
from ganeti_steward.allocators.balancing.preferences import Preferences, SitePreferences
from ganeti_steward.allocators.rules import move_kinds as kinds

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import GroupModel
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
        *,
        forced: bool = False,
    ) -> None:
        """``forced``: drop the soft rules (--ignore-soft-errors)."""
        self.model, self.request = model, request
        self.preferences, self.deltas = Preferences(model, site_preferences), Deltas(model)
        self.legality = Legality(model, request, self.preferences, forced=forced)
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
        gains = self.single_gains(instances)
        target = gains.argmax(axis=1)
        gain = gains[np.arange(len(instances)), target]
        return Best(gain, gain, target, np.full(len(instances), -1))

    # -- drbd instances

    def _drbd(self, instances: Ints) -> Best:
        model, rows = self.model, np.arange(len(instances))
        p, s = model.primary[instances], model.secondary[instances]
        gains = self.drbd_gains(instances)
        ranks = gains.copy()
        for row, kind in enumerate(kinds.DRBD_MOVES):
            if kind.copies:
                ranks[row] /= self.request.disk_factor
        flat = ranks.transpose(1, 0, 2).reshape(len(instances), -1)
        chosen = flat.argmax(axis=1)
        best, target = np.divmod(chosen, model.size)
        places = [kind.place(p, s, target) for kind in kinds.DRBD_MOVES]
        primary = np.stack([first for first, _ in places])[best, rows]
        secondary = np.stack([second for _, second in places])[best, rows]
        return Best(gains[best, rows, target], flat[rows, chosen], primary, secondary)

    def drbd_gains(self, instances: Ints) -> Floats:
        """kind x instance x target; failing over is shown at the place of the secondary."""
        model, deltas, g, t = self.model, self.deltas, instances[:, None], self._nodes
        p, s = model.primary[g], model.secondary[g]
        gains = np.full((len(kinds.DRBD_MOVES), len(instances), model.size), -np.inf)
        parts = _Parts(deltas, g, t, p, s)
        for row, kind in enumerate(kinds.DRBD_MOVES):
            gain = deltas.gain(parts.of(kind)) - self.preferences.costs(g, *kind.place(p, s, t))
            where = t if kind is not kinds.FAILOVER else s
            gains[row] = np.where(self.legality.drbd(kind, g, where), gain, -np.inf)
        gains[kinds.DRBD_MOVES.index(kinds.FAILOVER)][
            model.secondary[instances][:, None] != t
        ] = -np.inf
        return gains

    @staticmethod
    def place_of(row: int, p: int, s: int, target: int) -> tuple[int, int]:
        """The place that a row and a target of `drbd_gains` stand for, from (``p``, ``s``)."""
        place: tuple[int, int] = kinds.DRBD_MOVES[row].place(p, s, target)
        return place

    def single_gains(self, instances: Ints) -> Floats:
        """instance x target, of instances on external storage."""
        g, t, deltas = instances[:, None], self._nodes, self.deltas
        delta = deltas.primary_left(g).plus(deltas.primary_at(g, t))
        costs = self.preferences.costs(g, t, self.model.secondary[g])
        return np.where(self.legality.single(g, t), deltas.gain(delta) - costs, -np.inf)

    # -- certain places

    def gains_to(self, instances: Ints, primary: Ints, secondary: Ints) -> Floats:
        """instances: the gain of one move to these nodes; minus infinite where none is legal."""
        model, gains = self.model, np.full(len(instances), -np.inf)
        p, s = model.primary[instances], model.secondary[instances]
        single = np.flatnonzero((secondary < 0) & (primary != p))
        if len(single):
            g, t, deltas = instances[single], primary[single], self.deltas
            delta = deltas.primary_left(g).plus(deltas.primary_at(g, t))
            gain = deltas.gain(delta) - self.preferences.costs(g, t, secondary[single])
            gains[single] = np.where(self.legality.single(g, t), gain, -np.inf)
        for kind in kinds.DRBD_MOVES:
            target = secondary if kind.secondary_is_new else primary
            first, second = kind.place(p, s, target)
            fits = (s >= 0) & (first == primary) & (second == secondary)
            if kind is not kinds.FAILOVER:
                fits &= (target != p) & (target != s)
            at = np.flatnonzero(fits)
            if len(at):
                gains[at] = self._certain(kind, instances[at], target[at])
        return gains

    def _certain(self, kind: kinds.MoveKind, g: Ints, t: Ints) -> Floats:
        p, s = self.model.primary[g], self.model.secondary[g]
        change = _Parts(self.deltas, g, t, p, s).of(kind)
        gain = self.deltas.gain(change) - self.preferences.costs(g, *kind.place(p, s, t))
        return np.where(self.legality.drbd(kind, g, t), gain, -np.inf)


class _Parts:
    """The changes that the kinds of move are made of; each is computed once."""

    def __init__(self, deltas: Deltas, g: Ints, t: Ints, p: Ints, s: Ints) -> None:
        self._deltas, self._g, self._t, self._p, self._s = deltas, g, t, p, s

    def of(self, kind: kinds.MoveKind) -> Delta:
        """The change of one kind of move."""
        deltas, g, t = self._deltas, self._g, self._t
        if kind is kinds.REPLACE_SECONDARY:
            return self._left_s.plus(deltas.secondary_at(g, t, self._p))
        if kind is kinds.REPLACE_AND_FAILOVER:
            return self._left_s.plus(self._t_primary).plus(deltas.demoted(g, t))
        if kind is kinds.FAILOVER_AND_REPLACE:
            promoted = self._left_p.plus(self._promoted)
            return promoted.plus(deltas.secondary_at(g, t, self._s))
        if kind is kinds.REPLACE_PRIMARY:
            return self._left_p.plus(self._t_primary).plus(deltas.kept(g, t))
        return self._promoted.plus(deltas.demoted(g, self._s))

    @cached_property
    def _t_primary(self) -> Delta:
        return self._deltas.primary_at(self._g, self._t)

    @cached_property
    def _left_p(self) -> Delta:
        return self._deltas.primary_left(self._g)

    @cached_property
    def _left_s(self) -> Delta:
        return self._deltas.secondary_left(self._g)

    @cached_property
    def _promoted(self) -> Delta:
        return self._deltas.secondary_promoted(self._g)
