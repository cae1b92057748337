"""Which moves of other instances make room for a refused request: one, two or three.

An instance whose complete removal would not help is not looked at.  Of the others each legal
move is tried on the figures, the one that copies least first, and by the engine before it is
suggested.  A move that makes other instances stuck (allocation 8) is only suggested where no
other helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations, islice, permutations
from typing import Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.advice.case import (
    MOVES,
    Case,
    OtherMove,
    Suggestion,
    Trier,
    names_of,
    unplaced,
)
from ganeti_steward.allocators.advice.screen import Screen
from ganeti_steward.allocators.capacity.sizes import changed
from ganeti_steward.allocators.moves.best_move import BestMoveSearch, MoveChoice, MoveTask
from ganeti_steward.allocators.rules import move_kinds as kinds
from ganeti_steward.allocators.rules.candidates import Terms, suspects_last, terms_of
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.score.plan_score import PlanScore
from ganeti_steward.allocators.state.state import Resident, State
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.model.cluster import NOT_MIRRORED, Cluster, Instance
from ganeti_steward.core.model.requests import Balance

#: How many instances are looked at for so many moves: where rules refuse the request, and where
#: the capacity test does.
_LARGEST: Final = {2: (30, 6), 3: (12, 0)}
#: How many of the largest instances of a node are among them.
_OF_A_NODE: Final = 6
#: For how many sets of instances moves are looked for, and how many sequences of them are tried.
_SETS: Final = 10
_PLANS: Final = 20
#: How many of the legal moves of an instance are followed by moves of others.
_FOLLOWED: Final = 6


class _NextMove(NamedTuple):
    """A legal move, and the state after it."""

    instance: Instance
    choice: MoveChoice
    after: State

    @property
    def copied(self) -> int:
        """MiB of disk."""
        return self.choice.copies * self.instance.disk_space


def make_room(case: Case, trier: Trier) -> Suggestion | None:
    """The fewest moves of other instances, up to three, after which the request succeeds.

    A single move is the one that copies least; None where none were found.
    """
    failed = unplaced(trier.outcome(case), case.request)
    return _Search(case, trier, Screen(case, failed, trier)).found()


class _Search:
    def __init__(self, case: Case, trier: Trier, screen: Screen) -> None:
        self._case, self._trier, self._screen = case, trier, screen
        self._start = screen.state
        own = frozenset(names_of(case.request))
        self._movable = [
            one
            for one in case.cluster.instances
            if one.name not in own and one.template not in NOT_MIRRORED and not one.forthcoming
        ]
        self._moves = BestMoveSearch(PlanScore())
        everywhere = np.ones(self._start.frame.size, np.bool_)
        self._test = CapacityTest(self._start, everywhere) if case.options.capacity_checks else None
        self._rules = trier.context(case._replace(request=Balance(), only=None)).site_rules
        self._first_steps: dict[str, list[_NextMove]] = {}
        """instance -> its moves on the cluster as it is"""
        self._harmful: Suggestion | None = None
        """moves that help, and make others stuck"""

    def found(self) -> Suggestion | None:
        """The best moves found."""
        if not self._helps(self._movable):
            return None
        helping = [one for one in self._movable if self._helps((one,))]
        found = self._one(helping) or self._several(2) or self._several(3)
        return found or self._harmful

    def _helps(self, instances: Sequence[Instance]) -> bool:
        """Whether the request might succeed without these instances."""
        state = self._start
        for one in instances:
            state = state.removed(state.resident(one.name))
        return self._fits(state)

    def _fits(self, state: State) -> bool:
        return self._trier.goes_on() and self._screen.fits(state)

    def _one(self, helping: Sequence[Instance]) -> Suggestion | None:
        steps = [step for one in helping for step in self._steps(self._start, one)]
        steps.sort(key=lambda step: (step.copied, step.choice.score))
        return self._first_tried([step] for step in steps if self._fits(step.after))

    def _several(self, number: int) -> Suggestion | None:
        """So many moves of large instances."""
        most = _LARGEST[number][0 if self._screen.by_rules else 1]
        sets = (c for c in combinations(self._largest[:most], number) if self._helps(c))
        orders = (order for chosen in islice(sets, _SETS) for order in permutations(chosen))
        plans = (plan for order in orders for plan in self._sequences(self._start, order))
        return self._first_tried(islice(plans, _PLANS))

    @cached_property
    def _largest(self) -> list[Instance]:
        """Large instances of the nodes with the most room, the largest first."""
        nodes = [node for node in self._case.cluster.nodes if node.usable]
        memory = max((node.total_memory for node in nodes), default=0) or 1
        disk = max((node.total_disk for node in nodes), default=0) or 1

        def size(one: Instance) -> float:
            return max(one.memory / memory, one.disk_space * one.local / disk)

        largest = sorted(self._movable, key=size, reverse=True)
        roomy = sorted(nodes, key=lambda n: n.free_memory / memory + n.free_disk / disk)
        names = dict[str, None]()
        for node in reversed(roomy):
            own = (one.name for one in largest if node.name in one.nodes)
            names |= dict.fromkeys(islice(own, _OF_A_NODE))
        found = [self._case.cluster.instance(name) for name in names]
        return sorted(found[: _LARGEST[2][0]], key=size, reverse=True)

    def _sequences(self, state: State, order: Sequence[Instance]) -> Iterator[list[_NextMove]]:
        """Moves of these instances, one after the other, after which the request might succeed."""
        first, rest = order[0], order[1:]
        steps = self._steps(state, first)
        if not rest:
            yield from ([step] for step in steps if self._fits(step.after))
            return
        for step in steps[:_FOLLOWED]:
            left = step.after
            for one in rest:
                left = left.removed(left.resident(one.name))
            if self._fits(left):
                yield from ([step, *more] for more in self._sequences(step.after, rest))

    def _steps(self, state: State, instance: Instance) -> list[_NextMove]:
        """The legal moves of an instance on a state, those that copy less first."""
        if state is not self._start:
            return self._listed(state, instance)
        if instance.name not in self._first_steps:
            self._first_steps[instance.name] = self._listed(state, instance)
        return self._first_steps[instance.name]

    def _listed(self, state: State, instance: Instance) -> list[_NextMove]:
        if not self._trier.goes_on():
            return []
        resident = state.resident(instance.name)
        try:
            terms = suspects_last(state.frame, terms_of(state.frame, instance, self._rules))
        except PluginError:
            return []
        left, task = state.removed(resident), _task(state, resident, terms)
        return [
            _NextMove(instance, choice, left.placed(resident.demand, *choice.nodes))
            for choice in self._moves.alternatives(left, task, len(state.frame.cluster.nodes) ** 2)
        ]

    def _first_tried(self, plans: Iterable[Sequence[_NextMove]]) -> Suggestion | None:
        """The first plan that the engine confirms and that makes nothing stuck."""
        for steps in plans:
            if not self._trier.goes_on():
                return None
            suggestion = self._suggestion(steps)
            if not self._trier.succeeds(suggestion.case):
                continue
            stuck = self._stuck(steps)
            if not stuck:
                return suggestion
            if self._harmful is None:
                self._harmful = suggestion._replace(text=f"{suggestion.text}; but then {stuck}")
        return None

    def _stuck(self, steps: Sequence[_NextMove]) -> str:
        """An instance that the moves make stuck; empty where there is none."""
        if self._test is None:
            return ""
        nodes = {node for step in steps for node in step.choice.nodes if node >= 0}
        for step in steps:
            nodes |= {*self._start.resident(step.instance.name).nodes} - {-1}
        stuck = self._test.newly_stuck(steps[-1].after, tuple(sorted(nodes)))
        return f"{stuck[0].instance} could no longer leave {stuck[0].node}" if stuck else ""

    def _suggestion(self, steps: Sequence[_NextMove]) -> Suggestion:
        cluster, made = self._case.cluster, []
        for instance, choice, _ in steps:
            nodes = self._start.frame.node_names(choice.nodes)
            copied = choice.copies * instance.disk_space
            job = kinds.job(instance, choice.kind, nodes[0], nodes[-1])
            made.append(OtherMove(instance.name, instance.nodes, nodes, copied, job))
            cluster = moved(cluster, instance.name, nodes)
        changed = self._case._replace(cluster=cluster)
        return Suggestion(MOVES, _text(made), changed, tuple(made))


def _task(state: State, resident: Resident, terms: Terms) -> MoveTask:
    """All moves to at most one new node of the group."""
    group = int(state.frame.group[resident.primary])
    stage = kinds.DRBD_MOVES if resident.demand.drbd else (kinds.MOVE,)
    return MoveTask(resident, terms, (stage,), (group,), state.frame.group == group)


def _text(moves: Sequence[OtherMove]) -> str:
    parts = [
        f"{move.instance} moved from {'/'.join(move.before)} to {'/'.join(move.after)}"
        for move in moves
    ]
    copied = sum(move.copied for move in moves)
    amount = f"copies {copied / 1024:.1f} GiB" if copied else "copies nothing"
    return f"with {', then '.join(parts)} ({amount})"


def moved(cluster: Cluster, name: str, nodes: tuple[str, ...]) -> Cluster:
    """The cluster with an instance on other nodes, primary first, as its nodes will report it."""
    instance = cluster.instance(name)
    figures = {node.name: node for node in cluster.nodes}
    for sign, names in ((1, instance.nodes), (-1, nodes)):
        for role, node in enumerate(names):
            figures[node] = changed(figures[node], instance, sign, primary=role == 0)
    there = instance._replace(nodes=nodes)
    others = (there if other is instance else other for other in cluster.instances)
    return cluster.replace(figures.values(), others)
