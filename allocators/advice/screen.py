"""Whether a request would be answered on another state of its cluster, without reading it again.

Much faster than asking the engine, and at least as favourable: what passes here is still to be
tried by the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ganeti_steward.allocators.advice.case import Case, Trier
from ganeti_steward.allocators.moves.best_move import BestMoveSearch, MoveTask, resident_of
from ganeti_steward.allocators.moves.evacuation import evacuations, group_changes
from ganeti_steward.allocators.placement.one_place import PLACERS, template_of
from ganeti_steward.allocators.placement.placing import GroupTrial, PlaceSearch
from ganeti_steward.allocators.rules.move_rules import MoveRules
from ganeti_steward.allocators.score.plan_score import PlanScore
from ganeti_steward.allocators.score.ranked_places import RankedPlace
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.state import State
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.model.answer import Refusal
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import (
    Allocate,
    AllocateSecondary,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
)

#: What is checked, each at least as strict as the one before: the rules of each node, those of
#: pairs of nodes too, the capacity test too.
_NODES, _PAIRS, _TEST = range(3)


class Screen:
    """The request of one case on changed states of its cluster."""

    def __init__(self, case: Case, failed: Sequence[str], trier: Trier) -> None:
        """``failed``: the instances of the request that have no place."""
        self._case, self._failed = case, frozenset(failed)
        self.state = load(
            case.cluster, template_of(case.request, case.cluster), case.options.kvm_memory
        )
        """the cluster as it is"""
        self._context = trier.context(case)
        # The cheapest check that refuses the request as the engine does.
        checks = (one for one in (_NODES, _PAIRS) if not self._passes(self.state, one))
        self._check = next(checks, _TEST)

    @property
    def by_rules(self) -> bool:
        """Whether rules refuse the request, not the capacity test."""
        return self._check != _TEST

    def fits(self, state: State) -> bool:
        """Whether each failed instance has a place of its own on this state."""
        return self._passes(state, self._check)

    def _passes(self, state: State, check: int) -> bool:
        context = self._context if check == _TEST else _without_test(self._context)
        try:
            if isinstance(self._case.request, NodeEvacuate | ChangeGroup):
                return self._all_move(state, context, check)
            search = _NodesOnly if check == _NODES else PlaceSearch
            found = [PLACERS[type(item)](item, state, context, search) for item in self._items()]
        except PluginError:
            return False
        return all(not isinstance(one, Refusal) and one.chosen is not None for one in found)

    def _items(self) -> list[Allocate | Relocate | AllocateSecondary]:
        request = self._case.request
        if isinstance(request, Allocate | Relocate | AllocateSecondary):
            return [request]
        if not isinstance(request, MultiAllocate):
            return []
        return [
            item._replace(group_name=item.group_name or request.group_name)
            for item in request.items
            if item.instance.name in self._failed
        ]

    def _all_move(self, state: State, context: Context, check: int) -> bool:
        request = self._case.request
        if isinstance(request, NodeEvacuate):
            tasks = evacuations(request, state, context)
        elif isinstance(request, ChangeGroup):
            tasks = group_changes(request, state, context)
        search = BestMoveSearch(PlanScore())
        for task in tasks:
            if task.name not in self._failed:
                continue
            left = state.removed(resident_of(state, task, None))
            if task.fault or not _moves(left, task, search, check):
                return False
        return True


def _moves(left: State, task: MoveTask, search: BestMoveSearch, check: int) -> bool:
    """Whether an instance can be moved at all, ``left`` being without it."""
    if check != _NODES:
        return search.best(left, task) is not None
    rules = MoveRules(left, task.resident, task.terms, task.targets, task.extra_checks)
    for kind in (kind for stage in task.stages for kind in stage):
        verdicts = rules.check(kind)
        for group in () if verdicts.blocked else task.groups:
            members = left.frame.group == group
            if all((role.fits & members).any() for role in verdicts.roles):
                return True
    return False


class _NodesOnly(PlaceSearch):
    """Any nodes that the rules of single nodes allow, without scores."""

    def group(self, group: int, excluded: tuple[int, ...] = ()) -> GroupTrial:
        """Any place in one group."""
        members = self._state.frame.group == group
        members[list(excluded)] = False
        fitting = [np.flatnonzero(one.fits & members).tolist() for one in self._verdicts]
        best = None
        if all(fitting):
            primary, *others = fitting[0]
            secondary = -1
            if len(fitting) == 2:
                pairs = ((p, s) for p in (primary, *others) for s in fitting[1] if s != p)
                primary, secondary = next(pairs, (-1, -1))
            best = RankedPlace(0.0, primary, secondary) if primary >= 0 else None
        return GroupTrial(group, "", members, self._verdicts, best=best)


def _without_test(context: Context) -> Context:
    return context._replace(options=context.options._replace(capacity_checks=False))
