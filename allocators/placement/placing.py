"""The place of one new instance: the groups it may use, the best of each (allocation 6, 7)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.rules.candidates import (
    Terms,
    Verdicts,
    doubted,
    primary_verdicts,
    secondary_verdicts,
    terms_of,
)
from ganeti_steward.allocators.rules.groups import network_fault, takes_instances
from ganeti_steward.allocators.score.emptying import Stuck
from ganeti_steward.allocators.score.exclusive_storage import DedicatedPlaces, is_dedicated
from ganeti_steward.allocators.score.global_n1 import CapacityTest, PlaceFilter
from ganeti_steward.allocators.score.ranked_places import PairPlaces, RankedPlace, SinglePlaces
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.core.model.cluster import ALLOC_POLICIES
from ganeti_steward.core.model.site_rules import PRIMARY, ROLES, SECONDARY
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.requests import Allocate

Places = SinglePlaces | PairPlaces | DedicatedPlaces


class GroupTrial(NamedTuple):
    """The result of trying one node group."""

    group: int
    """index of the node group"""
    reason: str
    """why the group was not tried at all; empty when it was"""
    members: Mask
    """nodes: whether the node is a member (and not excluded)"""
    verdicts: tuple[Verdicts, ...] = ()
    places: Places | None = None
    candidates: Mask | None = None
    """nodes hail would have tried: usable and within a restriction"""
    best: RankedPlace | None = None
    after: State | None = None
    """the state with the best place taken"""
    failed: int = 0
    """number of places the capacity test refused"""
    passing: PlaceFilter | None = None
    """the capacity test"""

    @property
    def stuck(self) -> list[Stuck]:
        """The result of the capacity test for the last place it refused."""
        return self.passing.last() if self.passing else []


class Placement(NamedTuple):
    """The result of placing one instance."""

    state: State
    """the state before"""
    demand: Demand
    scope: Mask
    """nodes: whether the node is in the score"""
    terms: Terms
    test: CapacityTest | None = None
    dedicated: bool = False
    keeps: int = -1
    """the primary it keeps when only a secondary is looked for"""
    trials: tuple[GroupTrial, ...] = ()
    fault: str = ""
    """why nothing was tried, e.g. an unknown group; empty otherwise"""
    chosen: GroupTrial | None = None

    def nodes(self) -> tuple[str, ...]:
        """The chosen node names, primary first; empty when there is no place."""
        if self.chosen is None or self.chosen.best is None:
            return ()
        return self.state.frame.node_names(self.chosen.best.nodes)

    def cost(self) -> float:
        """The site rules' costs of the chosen nodes, weighted."""
        if self.chosen is None or self.chosen.best is None:
            return 0.0
        return self.cost_of(self.chosen.best)

    def cost_of(self, place: RankedPlace) -> float:
        """The same for any place."""
        costs = self.terms.costs
        second = costs[SECONDARY][place.secondary] if place.secondary >= 0 else 0.0
        return float(costs[PRIMARY][place.primary] + second)

    def cost_shares(self, place: RankedPlace) -> dict[str, float]:
        """Plugin -> its part of `cost_of`."""
        names, found = self.state.frame.node_names(place.nodes), dict[str, float]()
        roles = dict(zip(ROLES, names, strict=False))
        for (node, role, plugin), cost in self.terms.shares.items():
            if roles.get(role) == node:
                found[plugin] = found.get(plugin, 0.0) + cost
        return found


class Placer:
    """Places new instances under the options of one call."""

    def __init__(
        self, state: State, context: Context, search: type[PlaceSearch] | None = None
    ) -> None:
        """``state``: the cluster as it is, which no placement may make worse; ``search``:
        what puts the legal places in order, by default that of the score.
        """
        self._before, self._search = state, search or PlaceSearch
        self._context = context
        self._tests: dict[int | None, CapacityTest] = {}
        self._dedicated: dict[tuple[int, ...], bool] = {}

    @property
    def moves(self) -> int:
        """How many moves its capacity tests have tried so far, see `CapacityTest.moves`."""
        return sum(test.moves for test in self._tests.values())

    def terms(self, item: Allocate) -> Terms:
        """What holds for this instance on any state; raises PluginError."""
        options, frame = self._context.options, self._before.frame
        terms = terms_of(
            frame,
            item.instance,
            self._context.site_rules,
            options.restrict_to if options.restrict_to is not None else item.restrict_to,
            forced=options.ignore_soft_errors,
        )
        return doubted(frame, item.instance, terms)

    def place(
        self, state: State, item: Allocate, group_name: str | None, terms: Terms
    ) -> Placement:
        """The best place for one new instance on a state; nothing is changed."""
        required = item.required_nodes
        groups = state.frame.cluster.groups
        demand = state.frame.tag_rules.demand(item.instance)
        if terms.fault:
            return refused(state, demand, terms.fault, terms)
        named = None if group_name is None else state.frame.cluster.groups_named(group_name)
        if required not in (1, 2):
            fault = "Unsupported number of nodes, only one or two supported"
            return refused(state, demand, fault, terms)
        if named is not None and len(named) != 1:
            many = f"{len(named)} node groups are" if named else "no node group is"
            fault = f"{many} named {group_name!r}"
            return refused(state, demand, fault, terms)
        if named:
            scope, tried = state.frame.group == named[0], named
        else:
            scope, tried = np.ones(state.frame.size, np.bool_), list(range(len(groups)))
        allocable = [i for i in tried if named or takes_instances(groups[i])]
        dedicated = self._is_dedicated(state, tuple(allocable))
        verdicts: tuple[Verdicts, ...] = (primary_verdicts(state, demand, terms),)
        if required == 2:
            verdicts += (secondary_verdicts(state, demand, terms, 0),)
        test = None if dedicated else self._capacity_test(named[0] if named else None, scope)
        search = self._search(Placement(state, demand, scope, terms, test, dedicated), verdicts)
        trials = tuple(_unconnected(state, demand, group) or search.group(group) for group in tried)
        return search.placement(trials, _choose(state, trials, any_policy=named is not None))

    def _is_dedicated(self, state: State, groups: tuple[int, ...]) -> bool:
        if groups not in self._dedicated:
            self._dedicated[groups] = is_dedicated(state.frame, set(groups))
        return self._dedicated[groups]

    def _capacity_test(self, group: int | None, scope: Mask) -> CapacityTest | None:
        """The test for the nodes of one named group, or for all."""
        if not self._context.options.capacity_checks:
            return None
        if group not in self._tests:
            self._tests[group] = CapacityTest(self._before, scope)
        return self._tests[group]


def _unconnected(state: State, demand: Demand, group: int) -> GroupTrial | None:
    """A trial that ends at once where the group lacks a network of the instance."""
    fault = network_fault(state.frame.cluster.groups[group], demand.instance)
    return GroupTrial(group, fault, state.frame.group == group) if fault else None


def refused(state: State, demand: Demand, fault: str, terms: Terms) -> Placement:
    """A placement that is not even tried."""
    everywhere = np.ones(state.frame.size, np.bool_)
    return Placement(state, demand, everywhere, terms, fault=fault)


def _choose(state: State, trials: tuple[GroupTrial, ...], *, any_policy: bool) -> GroupTrial | None:
    """By alloc_policy, then score; the last group by name wins ties (allocation 7)."""
    groups = state.frame.cluster.groups

    def rank(trial: GroupTrial) -> tuple[int, int, tuple[int, ...], float, int]:
        assert trial.best is not None
        policy = 0 if any_policy else ALLOC_POLICIES.index(groups[trial.group].alloc_policy)
        # A score has the price of suspect nodes in it.
        nodes = [node for node in trial.best.nodes if node >= 0 and trial.best.metric]
        suspects = int(state.frame.suspect[nodes].sum()) if nodes else 0
        return policy, suspects, trial.best.metric, trial.best.score, -trial.group

    usable = [
        trial
        for trial in trials
        if trial.best is not None and (any_policy or takes_instances(groups[trial.group]))
    ]
    return min(usable, key=rank, default=None)


class PlaceSearch:
    """The search for a place for one instance, group by group, on one state."""

    def __init__(self, start: Placement, verdicts: tuple[Verdicts, ...]) -> None:
        """``start``: what is to be placed, nothing tried yet; ``verdicts``: all nodes per role."""
        self._start, self._verdicts = start, verdicts
        self._state, self._demand, self._terms = start.state, start.demand, start.terms

    @cached_property
    def _scorer(self) -> Scorer:
        return Scorer(self._state, self._start.scope)

    def placement(self, trials: tuple[GroupTrial, ...], chosen: GroupTrial | None) -> Placement:
        """The result of all trials together."""
        return self._start._replace(trials=trials, chosen=chosen)

    def only_group(self, group: int, excluded: tuple[int, ...] = ()) -> Placement:
        """The result where the instance may only go to one group; see `group`."""
        trial = self.group(group, excluded)
        return self.placement((trial,), trial if trial.best else None)

    def group(self, group: int, excluded: tuple[int, ...] = ()) -> GroupTrial:
        """The best place in one group; ``excluded`` nodes are no candidates."""
        frame = self._state.frame
        members = frame.group == group
        members[list(excluded)] = False
        places = self._places(members, group)
        candidates = members & frame.usable
        if self._terms.restricted:
            candidates &= ~self._terms.restricted.failing
        passing = self._first_passing(places.best_first())
        return GroupTrial(group, "", members, self._verdicts, places, candidates, *passing)

    def _places(self, members: Mask, group: int) -> Places:
        if self._start.dedicated:
            return DedicatedPlaces(self._state, self._demand, self._verdicts, members, group)
        if len(self._verdicts) == 1:
            verdicts = self._verdicts[0]
            return SinglePlaces(self._scorer, self._demand, verdicts, members, self._terms)
        first, second = self._verdicts
        return PairPlaces(self._scorer, self._demand, (first, second), members, self._terms)

    def _first_passing(
        self, places: Iterator[RankedPlace]
    ) -> tuple[RankedPlace | None, State | None, int, PlaceFilter | None]:
        if self._start.test is None:
            place = next(places, None)
            if place is None:
                return None, None, 0, None
            return place, self._state.placed(self._demand, place.primary, place.secondary), 0, None
        passing = PlaceFilter(self._start.test, self._state, self._demand)
        for place in places:
            after = passing.passes(place)
            if after is not None:
                return place, after, passing.refused, passing
        return None, None, passing.refused, passing
