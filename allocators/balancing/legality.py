"""The rules for moves on a group model, as masks (allocation 4).

`allocators.rules` has the same rules with a sentence each, for one instance at a time; a test
compares the two.

Index arrays are broadcast: ``g`` stands for instances, ``t`` for target nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.rules import move_kinds as kinds
from ganeti_steward.allocators.state import quantity

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import GroupModel
    from ganeti_steward.allocators.balancing.preferences import Preferences
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.core.model.requests import Balance


class Legality:
    """The rules on a group model in its present state."""

    def __init__(
        self,
        model: GroupModel,
        request: Balance,
        preferences: Preferences,
        *,
        forced: bool = False,
    ) -> None:
        """``forced``: drop the soft rules everywhere (--ignore-soft-errors)."""
        self._model, self._request, self._preferences = model, request, preferences
        self._forced = forced
        self.as_hbal = False
        """whether moves of several steps are allowed as hbal allows them; their steps, one by one,
        may then be illegal (allocation 4.4)"""
        self.may_get_stuck: Mask | None = None
        """instances: whether one may go where migration tags keep it from its secondary; None:
        every one"""

    def legal_to(self, instance: int, primary: int, secondary: int) -> bool:
        """Whether one certain move can be made in one go."""
        model, one = self._model, np.array([instance])
        if secondary < 0:
            return bool(self.single(one, np.array([primary]))[0])
        kind = kinds.kind_between(model.place(instance), (primary, secondary))
        if kind is None:
            return False
        target = secondary if kind.secondary_is_new else primary
        return bool(self.drbd(kind, one, np.array([target])).all())

    def single(self, g: Ints, t: Ints) -> Mask:
        """Whether an instance on external storage may go to a node."""
        model = self._model
        p = model.primary[g]
        legal: Mask = self._primary_fits(g, t, self._leaves(p)) & model.takes[t] & (t != p)
        legal &= self._accepted(p, t)
        if not self._request.instance_moves:
            legal &= False
        if self._request.restricted_migration:
            legal &= ~model.usable[p]
        return legal

    def drbd(self, kind: kinds.MoveKind, g: Ints, t: Ints) -> Mask:
        """Whether every step of a kind of move keeps to the rules."""
        model, legal = self._model, self._steps(kind, g, t)
        accepts = model.tags.accepts
        if accepts is None or self.may_get_stuck is None or self.as_hbal:
            return legal
        primary, secondary = kind.place(model.primary[g], model.secondary[g], t)
        returns: Mask = accepts[primary, secondary] | self.may_get_stuck[g]
        return legal & returns

    def _steps(self, kind: kinds.MoveKind, g: Ints, t: Ints) -> Mask:
        model, request = self._model, self._request
        p, s = model.primary[g], model.secondary[g]
        dead_p, dead_s = self._leaves(p), self._leaves(s)
        migrates = self._migrates(~model.usable[p])
        if kind is kinds.FAILOVER:
            over: Mask = self._failover_fits(g) & migrates
            return over
        legal: Mask = model.takes[t] & (t != p) & (t != s) & request.disk_moves
        if kind is kinds.REPLACE_SECONDARY:
            legal &= self._has_source(g, p) & self._secondary_fits(g, t, p, dead_s)
            return legal
        legal = legal & migrates
        if kind is kinds.REPLACE_AND_FAILOVER:
            legal &= self._has_source(g, p) & self._secondary_fits(g, t, p, dead_s)
            beside, first = (dead_s, self._forced) if self.as_hbal else (dead_p, dead_p)
            legal &= self._stays_beside(g, t, beside)
            legal &= self._primary_fits(g, t, first) & self._accepted(p, t)
            return legal
        legal &= self._failover_fits(g) & self._secondary_fits(g, t, s, dead_p)
        if kind is kinds.REPLACE_PRIMARY:
            forced = dead_p if self.as_hbal else self._forced
            legal &= self._primary_fits(g, t, forced) & self._accepted(s, t)
            legal &= self._keeps_beside(g, t, forced) & (not request.restricted_migration)
        return legal

    def _has_source(self, g: Ints, p: Ints) -> Mask:
        """Whether there is something to copy from: the primary is alive; it may be drained.

        Nothing is copied of an announced instance.
        """
        has: Mask = self._model.live[p] | ~self._model.figures.real[g]
        return has

    def _leaves(self, node: Ints) -> Mask:
        """Whether soft rules are dropped for a step that leaves a node."""
        leaves: Mask = ~self._model.usable[node] | self._forced
        return leaves

    def _migrates(self, dead: Mask) -> Mask | bool:
        if not self._request.instance_moves:
            return False
        return dead if self._request.restricted_migration else True

    def _accepted(self, source: Ints, t: Ints) -> Mask | bool:
        accepts = self._model.tags.accepts
        return True if accepts is None else accepts[source, t]

    def _storage_fits(self, g: Ints, t: Ints, forced: Mask | bool) -> Mask:
        model, figures = self._model, self._model.figures
        disk, spindles = figures.disk[g], figures.spindles[g]
        elsewhere = ~figures.usual[g]
        fits = (disk < model.disk_slack[t]) | elsewhere
        fits &= figures.share[g] <= model.share_slack[t]
        hard: Mask = (disk < model.disk_hard[t]) | elsewhere
        for pool, sizes in enumerate(figures.pools):
            size = sizes[g]
            fits &= (size < model.pools_all[pool, t]) & ~model.pools_unknown[t] | (size == 0)
            hard &= (size < model.pools_hard[pool, t]) | (size == 0)
        if model.kept is not None:
            fits &= self._leaves_disk(model.kept, g, t)
        if model.mixed:
            fits &= spindles <= model.spindle_slack[t]
            hard &= spindles <= model.spindle_hard[t]
        # What is only announced takes nothing yet: of that, no hard rule keeps it away.
        return fits | (forced & (hard | ~figures.real[g])) | ~figures.local[g]

    def _leaves_disk(self, kept: Floats, g: Ints, t: Ints) -> Mask:
        """Whether a copy leaves the reserve of disk on a node."""
        model, figures = self._model, self._model.figures
        left = model.disk_slack[t] - kept[quantity.DISK, t]
        leaves: Mask = (figures.disk[g] < left) | ~figures.usual[g]
        for pool, sizes in enumerate(figures.pools):
            left = model.pools_all[pool, t] - kept[quantity.pool_rows(pool)[1], t]
            leaves &= (sizes[g] < left) | (sizes[g] == 0)
        return leaves

    def _leaves_memory(self, g: Ints, t: Ints, free: Floats, before: Floats, need: Floats) -> Mask:
        """Whether a new primary leaves a node its reserve of memory, for N+1 too.

        ``free``: what is unallocated then, and ``before`` without it; ``need``: the N+1 reserve.
        """
        model, figures = self._model, self._model.figures
        assert model.kept is not None
        assert model.closed is not None
        kept, closed = model.kept[quantity.UNALLOCATED, t], model.closed[t]
        leaves: Mask = (free > closed) & ((before - kept <= need) | (free - kept > need))
        if model.announced:
            leaves |= ~figures.real[g]
        leaves &= figures.memory[g] < model.free_all[t] - closed
        return leaves

    def _has_spindles(self, node: Ints) -> Mask:
        """Whether a node has the spindles for what is there, as soft rules see it."""
        model = self._model
        has: Mask = model.share_slack[node] >= 0
        if model.mixed:
            has &= model.spindle_slack[node] >= 0
        return has

    def _primary_fits(self, g: Ints, t: Ints, forced: Mask | bool) -> Mask:
        """Whether a node may become primary (allocation 4.1)."""
        model, figures = self._model, self._model.figures
        free = model.free[t] - figures.use[g]
        n1, room = model.fails[t] | (free > model.needed[t]), free > 0
        clash_free = np.logical_not(self._preferences.clashes(g, t))
        if model.announced:
            announced = ~figures.real[g]
            n1, room, clash_free = n1 | announced, room | announced, clash_free | announced
        soft = n1 & clash_free & (figures.vcpus[g] <= model.vcpu_slack[t])
        soft &= figures.memory[g] < model.free_all[t]
        if model.kept is not None:
            soft &= self._leaves_memory(g, t, free, model.free[t], model.needed[t])
        fits: Mask = self._storage_fits(g, t, forced) & room & (soft | forced)
        fits &= self._preferences.allowed(g, t, 0)
        fits &= np.logical_not(self._preferences.crowded(g, t))
        return fits

    def _secondary_fits(self, g: Ints, t: Ints, primary: Ints, forced: Mask) -> Mask:
        """Whether a node may become secondary of a primary (allocation 4.2)."""
        model, figures = self._model, self._model.figures
        reserve, free = figures.reserve[g], model.free[t]
        needed = np.maximum(model.needed[t], model.reserved[t, primary] + reserve)
        n1 = (model.fails[t] | (free > needed)) & (reserve < free)
        kept: Floats | float = 0.0
        if model.kept is not None:
            kept = model.kept[quantity.UNALLOCATED, t]
            n1 &= (free - kept <= model.needed[t]) | (free - kept > needed)
            n1 &= reserve < free - kept
        if model.announced:
            announced = ~figures.real[g]
            n1 |= announced
            reserve = np.where(announced, figures.memory[g], reserve)
        soft = n1 & (reserve < model.free_all[t] - kept)
        fits: Mask = self._storage_fits(g, t, forced) & (soft | forced)
        fits &= self._preferences.allowed(g, t, 1)
        return fits

    def _failover_fits(self, g: Ints) -> Mask:
        """Whether an instance may go to its own secondary."""
        model, figures = self._model, self._model.figures
        p, s = model.primary[g], model.secondary[g]
        forced, use, reserve = self._leaves(p), figures.use[g], figures.reserve[g]
        needed, free = model.reserve_without(s, p, reserve), model.free[s]
        hard = (free > use) & ~(model.lacks_disk[s] & figures.usual[g])
        for pool, sizes in enumerate(figures.pools):
            hard &= ~(model.lacks_pool[pool, s] & (sizes[g] > 0))
        soft = (free <= needed) | (free - use > needed)
        soft &= np.logical_not(self._preferences.clashes(g, s))
        if model.announced:
            announced = ~figures.real[g]
            hard, soft = hard | announced, soft | announced
        if model.kept is not None:
            soft &= self._leaves_memory(g, s, free - use, free, needed)
        hard &= model.takes[s] & self._accepted(p, s)
        soft &= self._has_spindles(s) & self._has_spindles(p)
        soft &= figures.vcpus[g] <= model.vcpu_slack[s]
        soft &= figures.memory[g] < model.free_all[s]
        soft &= self._stays_beside(g, s, False)
        fits: Mask = hard & (soft | forced)
        fits &= self._preferences.allowed(g, s, 0) & self._preferences.allowed(g, p, 1)
        fits &= np.logical_not(self._preferences.crowded(g, s))
        return fits

    def _stays_beside(self, g: Ints, t: Ints, forced: Mask | bool) -> Mask:
        """Whether an instance's primary may become secondary of a target."""
        model, figures = self._model, self._model.figures
        p, reserve = model.primary[g], figures.reserve[g]
        room, needed = model.free[p] + figures.use[g], model.needed[p]
        kept = np.maximum(needed, model.reserved[p, t] + reserve)
        fits: Mask = ((room <= needed) | (room > kept)) & (reserve < room)
        if model.announced:
            announced = ~figures.real[g]
            fits |= announced
            reserve = np.where(announced, figures.memory[g], reserve)
        fits &= reserve < model.free_all[p] + figures.memory[g]
        fits &= self._has_spindles(p)
        fits |= forced
        fits &= self._preferences.allowed(g, p, 1)
        return fits

    def _keeps_beside(self, g: Ints, t: Ints, forced: Mask | bool) -> Mask:
        """Whether an instance's secondary may be secondary of a target."""
        model, figures = self._model, self._model.figures
        s, reserve = model.secondary[g], figures.reserve[g]
        needed, free = model.reserve_without(s, model.primary[g], reserve), model.free[s]
        kept = np.maximum(needed, model.reserved[s, t] + reserve)
        fits: Mask = ((free <= needed) | (free > kept)) & (reserve < free)
        if model.announced:
            announced = ~figures.real[g]
            fits |= announced
            reserve = np.where(announced, figures.memory[g], reserve)
        fits &= (reserve < model.free_all[s]) & self._has_spindles(s)
        fits |= forced
        return fits
