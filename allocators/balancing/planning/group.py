"""One node group: its state, its model, and which instances may be moved in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.balancing.group_model import GroupModel, Placement
from ganeti_steward.allocators.balancing.preferences import CopyPrice, SitePreferences
from ganeti_steward.allocators.balancing.single_moves import SingleMoves
from ganeti_steward.allocators.rules.candidates import Terms, terms_of
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.core.model.cluster import DISKLESS, NOT_MIRRORED
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask, NodePair
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Balance


def movable(state: State, members: Mask, request: Balance) -> list[Resident]:
    """The instances of a group that may be moved at all, by name."""
    residents = [
        resident
        for node in np.flatnonzero(members).tolist()
        for resident in state.residents.get(node, ())
    ]
    residents += [
        state.resident(instance.name)
        for instance in state.frame.cluster.instances
        if instance.forthcoming
    ]
    found = [one for one in residents if _is_movable(state, one, members, request)]
    return sorted(found, key=lambda resident: resident.demand.instance.name)


def _is_movable(state: State, resident: Resident, members: Mask, request: Balance) -> bool:
    instance, places = resident.demand.instance, [node for node in resident[1:] if node >= 0]
    nodes = [state.frame.cluster.nodes[node] for node in places]
    lacks_disk = instance.local and any(state.frame.lacks_disk[node] for node in places)
    if instance.template in NOT_MIRRORED or not instance.auto_balance:
        return False
    # Missing figures of a node are no reason to move instances off it.
    if lacks_disk or any(node.silent for node in nodes):
        return False
    if not all(members[node] for node in places):
        return False
    if request.evacuate and all(node.usable for node in nodes):
        return False
    chosen = request.select is None or instance.name in request.select
    return chosen and instance.name not in request.exclude


class GroupSearch:
    """What all searches for a plan of one node group share."""

    def __init__(self, state: State, group: int, request: Balance, context: Context) -> None:
        """``group``: index of the node group."""
        self.state, self.number, self.request = state, group, request
        self.members: Mask = state.frame.group == group
        self.nodes: Ints = np.flatnonzero(self.members)
        """cluster index of each node of the group"""
        self.residents = movable(state, self.members, request)
        forced = context.options.ignore_soft_errors
        self.terms: list[Terms] = [
            terms_of(state.frame, one.demand.instance, context.site_rules, forced=forced)
            for one in self.residents
        ]
        self.model = GroupModel(state, self.nodes, self.residents)
        self._preferences = self._site_preferences()
        self._forced = forced
        self.test: CapacityTest | None = None
        """of the state before any move; None where capacity is not checked"""
        if context.options.capacity_checks:
            self.test = CapacityTest(state, self.members)
        self._may_get_stuck = self._exempt()
        self.moves = self.moves_of(request)
        self.home: Placement = self.model.placement
        figures = self.model.figures
        self.mib: Floats = figures.all_disk * figures.drbd * figures.real
        """instances: MiB that one copy of the disks moves"""
        self.diskless: Mask = np.array(
            [one.demand.instance.template == DISKLESS for one in self.residents], np.bool_
        )
        """instances: whether it has no disks; hbal leaves these where they are"""
        self._copies = CopyPrice(0.0, self.home, np.zeros(len(self.residents), np.int64))

    def _exempt(self) -> Mask | None:
        """instances: whether it is stuck, on an unusable node, or only announced.

        To leave an unusable node comes first, and what is announced is not there to be stuck.
        """
        if self.test is None or self.model.tags.accepts is None:
            return None
        usable = self.state.frame.usable
        lost = [
            one.demand.instance.forthcoming
            or not all(usable[node] for node in one.nodes if node >= 0)
            or self.test.is_stuck(one.demand.instance.name, one.primary)
            for one in self.residents
        ]
        return np.array(lost, np.bool_)

    @property
    def size(self) -> int:
        """Instances x nodes: what a pass over all single moves takes."""
        return len(self.residents) * len(self.nodes)

    def moves_of(self, request: Balance) -> SingleMoves:
        """The single moves on the model that a request allows."""
        moves = SingleMoves(self.model, request, self._preferences, forced=self._forced)
        moves.legality.may_get_stuck = self._may_get_stuck
        return moves

    def copies(self, placement: Placement) -> Ints:
        """instances: how often the disks are copied to get there from home."""
        return self._copies.copies(np.arange(len(self.residents)), *placement)

    def copied(self, placement: Placement) -> float:
        """MiB copied to get there from home."""
        return float(self.copies(placement) @ self.mib)

    def set_price(self, per_gib: float, free: Placement | None = None) -> None:
        """Charge copies on the model; those that ``free`` needs cost nothing."""
        paid = self.copies(free or self.home)
        price = CopyPrice(per_gib / 1024, self.home, paid) if per_gib > 0 else None
        self.moves.preferences.price = price

    def valued(self) -> float:
        """The score of the model with what site rules charge: what searches lower."""
        return self.model.score + self.moves.preferences.site_total()

    def priced(self) -> float:
        """The value of the model with the price of its copies."""
        price = self.moves.preferences.price
        if price is None:
            return self.valued()
        charged = np.maximum(self.copies(self.model.placement), price.free)
        return self.valued() + price.per_mib * float(charged @ self.mib)

    def moved(self, placement: Placement) -> Mask:
        """Which instances live elsewhere than at home."""
        primary, secondary = self.home
        moved: Mask = (placement[0] != primary) | (placement[1] != secondary)
        return moved

    def on_cluster(self, primary: int, secondary: int) -> NodePair:
        """Nodes of the group by cluster index; -1 stays -1."""
        return int(self.nodes[primary]), int(self.nodes[secondary]) if secondary >= 0 else -1

    def _site_preferences(self) -> Mapping[int, SitePreferences]:
        """The site rules about each instance, where there are any."""
        site_preferences = {}
        for at, terms in enumerate(self.terms):
            costs = (terms.costs[PRIMARY][self.nodes], terms.costs[SECONDARY][self.nodes])
            banned = (self._banned(terms, PRIMARY), self._banned(terms, SECONDARY))
            if any(mask.any() for mask in (*costs, *banned)):
                site_preferences[at] = SitePreferences(banned, costs)
        return site_preferences

    def _banned(self, terms: Terms, role: str) -> Mask:
        banned = np.zeros(len(self.nodes), np.bool_)
        for check in terms.bans[role]:
            banned |= check.failing[self.nodes]
        return banned
