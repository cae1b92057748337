"""Costs and bans by tags and by site rules, per instance and node.

Index arrays are broadcast: ``g`` stands for instances, ``t`` for target nodes.  Costs are in units
of the score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ganeti_steward.allocators.score.score import TAGS_WEIGHT

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import GroupModel
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask


class SitePreferences(NamedTuple):
    """Site rules about one instance: (as primary, as secondary), for the group's nodes."""

    banned: tuple[Mask, Mask]
    """nodes each: whether the site rules forbid it"""
    costs: tuple[Floats, Floats]
    """nodes each: the cost of having it there, weighted"""


class CopyPrice(NamedTuple):
    """What copying costs, in units of the score, by where each instance started."""

    per_mib: float
    """score per MiB of disk copied"""
    home: tuple[Ints, Ints]
    """instances each: (primary, secondary) at the start, by node of the group"""
    free: Ints
    """instances: copies that cost nothing"""

    def copies(self, g: Ints, primary: Ints, secondary: Ints) -> Ints:
        """How often the disks are copied when instances go from their start to these nodes."""
        first, second = self.home[0][g], self.home[1][g]
        new_primary = ((primary != first) & (primary != second)).astype(np.int64)
        copies: Ints = new_primary + ((secondary != first) & (secondary != second))
        return copies


class Preferences:
    """Costs and bans beside the figures, for the group model in its present state."""

    def __init__(self, model: GroupModel, site_preferences: Mapping[int, SitePreferences]) -> None:
        """``site_preferences``: of the instances that site rules concern, by index."""
        self._model, self._site_preferences = model, site_preferences
        tags = model.tags
        self._tagged = bool(tags.carried or tags.missed or tags.crowds or site_preferences)
        self.price: CopyPrice | None = None
        """what copying costs; None: nothing"""

    @property
    def is_empty(self) -> bool:
        """Whether neither tags, site rules nor the price of copies concern any instance."""
        return not self._tagged and self._model.tags.shared is None and self.price is None

    def costs(self, g: Ints, primary: Ints, secondary: Ints) -> Floats | float:
        """How much more these nodes cost than the present ones."""
        if self.is_empty:
            return 0.0
        cost = self._tag_costs(g, primary) + self._second_costs(g, secondary)
        cost = cost + self._copy_costs(g, primary, secondary)
        return cost + self._pair_tags(g, primary, secondary)

    def _copy_costs(self, g: Ints, primary: Ints, secondary: Ints) -> Floats | float:
        """The price of the copies that more are needed for these nodes than for the present."""
        price, model = self.price, self._model
        if price is None:
            return 0.0
        free = price.free[g]
        now = price.copies(g, model.primary[g], model.secondary[g])
        then = price.copies(g, primary, secondary)
        more = np.maximum(then, free) - np.maximum(now, free)
        disk = model.figures.all_disk[g] * model.figures.drbd[g] * model.figures.real[g]
        costs: Floats = price.per_mib * disk * more
        return costs

    def clashes(self, g: Ints, t: Ints) -> Mask | bool:
        """Whether an exclusion tag of an instance is on a node already."""
        if not self._model.tags.carried:
            return False
        clashes: Mask = self._everywhere(g, t, self._clashing) > 0
        return clashes

    def crowded(self, g: Ints, t: Ints) -> Mask | bool:
        """Whether a hard rule ``steward:spread`` keeps an instance from a node as primary."""
        crowds, model = self._model.tags.crowds, self._model
        if crowds is None:
            return False

        def full(instance: int) -> Mask | None:
            return crowds.full(instance, int(model.primary[instance]))

        crowded: Mask = self._everywhere(g, t, full) > 0
        return crowded

    def _clashing(self, instance: int) -> Ints | None:
        model = self._model
        return model.tags.clashing(instance, int(model.primary[instance]))

    def allowed(self, g: Ints, t: Ints, role: int) -> Mask | bool:
        """Whether the site rules allow an instance there in a role (0 primary, 1 secondary)."""
        if not self._site_preferences:
            return True
        allowed: Mask = self._everywhere(g, t, lambda instance: self._banned(instance, role)) == 0
        return allowed

    def _banned(self, instance: int, role: int) -> Mask | None:
        return (
            self._site_preferences[instance].banned[role]
            if instance in self._site_preferences
            else None
        )

    def _tag_costs(self, g: Ints, t: Ints) -> Floats | float:
        """What a node costs more as primary than the present one."""
        if not self._tagged:
            return 0.0
        model = self._model
        return self._everywhere(g, t, self._tag_row) - self._everywhere(
            g, model.primary[g], self._tag_row
        )

    def _tag_row(self, instance: int) -> Floats | None:
        model = self._model
        row = np.zeros(model.size)
        clashing = self._clashing(instance)
        met = model.tags.met(instance, int(model.primary[instance]))
        if clashing is not None:
            row += TAGS_WEIGHT * clashing * model.usable
        if met is not None:
            row += met
        if instance in model.tags.missed:
            row += model.tags.missed[instance] * model.usable
        if instance in self._site_preferences:
            row += self._site_preferences[instance].costs[0]
        return row

    def _second_costs(self, g: Ints, t: Ints) -> Floats | float:
        """The site rules' cost of a node as secondary, less that of the present one."""
        if not self._site_preferences:
            return 0.0
        return self._everywhere(g, t, self._second_row) - self._everywhere(
            g, self._model.secondary[g], self._second_row
        )

    def _second_row(self, instance: int) -> Floats | None:
        return (
            self._site_preferences[instance].costs[1]
            if instance in self._site_preferences
            else None
        )

    def site_cost(self, instance: int, primary: int, secondary: int) -> float:
        """The cost of these nodes by site rules and copies, less that of the present ones."""
        one = (np.array([at]) for at in (instance, primary, secondary))
        copied = float(np.sum(self._copy_costs(*one)))
        if instance not in self._site_preferences:
            return copied
        model, costs = self._model, self._site_preferences[instance].costs
        more = copied + costs[0][primary] - costs[0][model.primary[instance]]
        if secondary >= 0:
            more += costs[1][secondary] - costs[1][model.secondary[instance]]
        return float(more)

    def site_total(self) -> float:
        """What the present nodes of all instances cost by site rules, above the least possible."""
        which, primary, secondary = self._above_least
        if not len(which):
            return 0.0
        model, rows = self._model, np.arange(len(which))
        p, s = model.primary[which], model.secondary[which]
        return float(primary[rows, p].sum() + (secondary[rows, s] * (s >= 0)).sum())

    @cached_property
    def _above_least(self) -> tuple[Ints, Floats, Floats]:
        """Instances with costs; for each, nodes as primary and as secondary: cost above least."""
        sites = self._site_preferences
        which = [at for at, one in sites.items() if any(costs.any() for costs in one.costs)]
        costs = np.array([sites[at].costs for at in which], np.float64)
        costs = costs.reshape(len(which), 2, self._model.size)
        costs -= costs.min(axis=2, keepdims=True)
        return np.array(which, np.int64), costs[:, 0], costs[:, 1]

    def _pair_tags(self, g: Ints, primary: Ints, secondary: Ints) -> Floats | float:
        """Location tags the two nodes share less those shared now."""
        model, shared = self._model, self._model.tags.shared
        if shared is None:
            return 0.0
        p, s = model.primary[g], model.secondary[g]
        # Counted on the primary, when that is usable.
        then = shared[primary, secondary] * model.usable[primary] * (secondary >= 0)
        more = (then - shared[p, s] * model.usable[p] * (s >= 0)).astype(np.float64)
        return more * model.figures.real[g]

    def _everywhere(self, g: Ints, t: Ints, row_of: Callable[[int], Any]) -> Floats:
        """``row_of`` each instance at its target (0 for None), broadcast."""
        flat = g.ravel()
        rows = np.zeros((len(flat), self._model.size))
        for at, instance in enumerate(flat.tolist()):
            row = row_of(instance)
            if row is not None:
                rows[at] = row
        return rows[np.arange(len(flat)).reshape(g.shape), t]
