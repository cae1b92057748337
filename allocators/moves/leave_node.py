"""All instances leave one node: which moves can be made at the same time, and what cannot move.

Unlike ``node-evacuate`` it is about a known node, primaries and secondaries together: a drbd
instance that leaves its primary goes to two other nodes at once, in one job.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ganeti_steward.allocators.moves import best_move
from ganeti_steward.allocators.moves.leave_reasons import LeaveReasons
from ganeti_steward.allocators.moves.leave_tasks import (
    Leaving,
    NodeMove,
    NodeMoves,
    has_third_node,
    leave_plan,
    leave_score,
    leave_tasks,
    live_nodes,
    urgency,
    urgent_first,
    without_copy,
)
from ganeti_steward.allocators.moves.planning import MovePlan, Planner
from ganeti_steward.allocators.rules.move_kinds import FAILOVER, job
from ganeti_steward.allocators.score.redundancy import Redundancy, redundancy
from ganeti_steward.allocators.state.load import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Set

    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explanation


__all__ = [
    "Leaving",
    "NodeMove",
    "NodeMoves",
    "explain_leaving",
    "leave_node",
    "redundancy_without",
]


def leave_node(leaving: Leaving, cluster: Cluster, context: Context) -> NodeMoves:
    """Moves that can be made at the same time; raises PluginError of a site rule.

    They are the first of a plan for all instances: none takes the place another one needs.
    """
    if not leaving.instances:
        return NodeMoves()
    return _NodePlan(leaving, load(cluster, None, context.options.kvm_memory), context).moves()


def redundancy_without(node: str, cluster: Cluster, context: Context) -> Redundancy:
    """What the group of a node does not survive, copies on the node not counted."""
    leaving = Leaving(node, (), {}, frozenset(), 1)
    return _NodePlan(leaving, load(cluster, None, context.options.kvm_memory), context).without()


def explain_leaving(
    leaving: Leaving, cluster: Cluster, context: Context
) -> tuple[Explanation, ...]:
    """Why each instance goes where the plan of `leave_node` moves it, or nowhere.

    Raises PluginError of a site rule.
    """
    from ganeti_steward.allocators.moves.explain import explain_plan

    state = load(cluster, None, context.options.kvm_memory)
    score = leave_score(state, leaving)
    search = best_move.BestMoveSearch(score)
    tasks = leave_tasks(state, urgent_first(state, leaving), context)
    return explain_plan(state, tasks, leave_plan(state, tasks, search, score), search)


class _NodePlan:
    """The plan for all instances of one node."""

    def __init__(self, leaving: Leaving, state: State, context: Context) -> None:
        self._leaving, self._start = urgent_first(state, leaving), state
        self._left = state.frame.cluster.node_index[leaving.node]
        self._score = leave_score(state, leaving)
        self._search = best_move.BestMoveSearch(self._score)
        self._context = context
        self._tasks = leave_tasks(state, self._leaving, context)

    def moves(self) -> NodeMoves:
        """What can be done now."""
        plan = leave_plan(self._start, self._tasks, self._search, self._score)
        rest = [at for at in range(len(self._tasks)) if at not in plan.found]
        waiting = [at for at in rest if self._fits_later(plan.state, at)]
        fallback = self._fallback(plan.state, [at for at in rest if at not in waiting])
        answer = NodeMoves(
            copies_impossible=frozenset(self._without_third_node()),
            before=self._redundancy(self._start, left_counts=True),
            after=self._redundancy(fallback.state, left_counts=False),
        )
        for state, part in ((self._start, plan), (plan.state, fallback)):
            made = self._selected(state, part)
            if made:
                moves = tuple(self._move(at, one) for at, one in made.items())
                later = tuple(self._tasks[at].name for at in part.found if at not in made)
                return answer._replace(moves=moves, later=later)
        return self._with_reasons(answer, fallback.state, {*plan.found, *fallback.found})

    def without(self) -> Redundancy:
        """The redundancy now, copies on the node not counted."""
        return self._redundancy(self._start, left_counts=False)

    # -- the plan

    @cached_property
    def _later(self) -> list[best_move.MoveTask]:
        """The instances as they may leave when what others do now has ended."""
        return leave_tasks(self._start, self._leaving.later, self._context)

    def _fits_later(self, state: State, at: int, *, kept: bool = False) -> bool:
        """Whether it only fits later; ``kept``: as primary only."""
        task = self._later[at]
        if not (self._leaving.reserved or self._leaving.passing) or task.fault:
            return False
        left = state.removed(best_move.resident_of(state, task, None))
        return self._search.best(left, without_copy(task) if kept else task) is not None

    def _fallback(self, state: State, stranded: list[int]) -> MovePlan:
        """Moves of those that leave as primary only; positions are those of all tasks."""
        kept = [at for at in stranded if self._may_keep(self._tasks[at])]
        tasks = [without_copy(self._tasks[at]) for at in kept]
        plan = Planner(state, tasks, self._search).plan() if tasks else MovePlan(state)
        plan.found = {kept[at]: found for at, found in plan.found.items()}
        return plan

    def _may_keep(self, task: best_move.MoveTask) -> bool:
        """Whether an instance may leave as primary only; the rules are not looked at."""
        resident = task.resident
        name = self._start.frame.cluster.nodes[resident.secondary].name
        drbd = resident.demand.drbd and resident.primary == self._left
        allowed = self._leaving.may_keep_copies and name not in self._leaving.later.avoided
        return drbd and allowed and not task.fault

    def _selected(self, state: State, plan: MovePlan) -> dict[int, best_move.MoveChoice]:
        index = self._start.frame.cluster.node_index
        reserved = {index[name] for name in self._leaving.reserved if name in index}
        tasks = [
            without_copy(t) if self._keeps(at, plan) else t for at, t in enumerate(self._tasks)
        ]
        # The plan is legal in its order; `Selection` sees to it that it is in this one, too.
        urgent = sorted(plan.found, key=lambda at: -self._urgency(at))
        wanted = {at: plan.found[at] for at in urgent}
        lost = self._score.lost(plan.state)
        selection = Selection(
            state,
            tasks,
            wanted,
            self._search,
            self._left,
            reserved - {self._left},
            lambda then: self._score.lost(then) <= lost,
        )
        return selection.made(self._leaving.most)

    def _urgency(self, at: int) -> int:
        return urgency(self._start, self._tasks[at].resident, self._leaving)

    @staticmethod
    def _keeps(at: int, plan: MovePlan) -> bool:
        return at in plan.found and plan.found[at].kind is FAILOVER

    def _move(self, at: int, found: best_move.MoveChoice) -> NodeMove:
        instance = self._tasks[at].resident.demand.instance
        names = self._start.frame.node_names(found.nodes)
        nodes = frozenset({*instance.nodes, *names})
        made = job(instance, found.kind, names[0], names[-1])
        return NodeMove(instance, nodes, made, keeps_copy=found.kind is FAILOVER)

    # -- what the group would not survive

    def _without_third_node(self) -> Iterator[str]:
        for task in self._tasks:
            drbd = task.resident.demand.drbd
            if drbd and not has_third_node(self._start, task, self._leaving):
                yield task.name

    def _redundancy(self, state: State, *, left_counts: bool) -> Redundancy:
        frame = state.frame
        live = live_nodes(state)
        live[self._left] &= left_counts
        scope = frame.group == frame.group[self._left]
        return redundancy(state, scope, live)

    # -- why the others stay

    def _with_reasons(self, answer: NodeMoves, state: State, planned: Set[int]) -> NodeMoves:
        """``state``: after all planned moves; ``planned``: positions of the tasks."""
        reasons = LeaveReasons(state, self._leaving, self._search)
        blocked, impossible, stays = [], [], []
        for at, task in enumerate(self._tasks):
            later = self._later[at]
            if at in planned:
                blocked.append((task.name, reasons.in_use(task)))
            elif self._fits_later(state, at) or self._leaves_later(state, at):
                blocked.append((task.name, reasons.now(task)))
            elif self._has_other_copy(task):
                stays.append((task.name, reasons.copy(later)))
            else:
                impossible.append((task.name, reasons.never(later)))
        return answer._replace(
            blocked=tuple(blocked), impossible=tuple(impossible), stays=tuple(stays)
        )

    def _leaves_later(self, state: State, at: int) -> bool:
        return self._may_keep(self._tasks[at]) and self._fits_later(state, at, kept=True)

    def _has_other_copy(self, task: best_move.MoveTask) -> bool:
        """Whether the node is its secondary, and its primary holds a good copy."""
        home = task.resident
        primary = self._start.frame.cluster.nodes[home.primary]
        return home.demand.drbd and home.secondary == self._left and primary.live


class Selection:
    """Moves that share no node but the one that is left."""

    def __init__(
        self,
        state: State,
        tasks: Sequence[best_move.MoveTask],
        plan: Mapping[int, best_move.MoveChoice],
        search: best_move.BestMoveSearch,
        left: int,
        reserved: Set[int],
        good: Callable[[State], bool],
    ) -> None:
        """``plan``: position of the task -> its move; ``left``: the node that is left, by index;
        ``reserved``: nodes that are in use; ``good``: whether a state after all moves is as good
        as that of the plan.
        """
        self._tasks, self._plan, self._search, self._left = tasks, plan, search, left
        self._good = good
        self._made = MovePlan(state)
        self._used = set(reserved)

    def made(self, most: int) -> dict[int, best_move.MoveChoice]:
        """Position of the task -> its move: as planned if that is free, else to other nodes.

        ``most``: so many at most.
        """
        for at, planned in self._plan.items():
            if len(self._made.found) == most:
                break
            left = self._made.without(at, self._tasks[at])
            if self._used.isdisjoint(self._nodes(at, planned)):
                if self._search.confirms(left, self._tasks[at], planned):
                    self._make(at, left, planned)
            elif (other := self._other(at, left)) and self._completes(at, left, other):
                self._make(at, left, other)
        return self._made.found

    def _make(self, at: int, left: State, found: best_move.MoveChoice) -> None:
        self._made.move(at, self._tasks[at], left, found)
        self._used |= self._nodes(at, found)

    def _nodes(self, at: int, found: best_move.MoveChoice) -> set[int]:
        return {*self._tasks[at].resident.nodes, *found.nodes} - {-1, self._left}

    def _other(self, at: int, left: State) -> best_move.MoveChoice | None:
        """The best move to nodes that are not used yet."""
        task = self._tasks[at]
        if not self._used.isdisjoint(task.resident.nodes):
            return None
        targets = task.targets.copy()
        targets[list(self._used)] = False
        return self._search.best(left, task._replace(targets=targets))

    def _completes(self, at: int, left: State, found: best_move.MoveChoice) -> bool:
        """Whether all others can still be moved as planned after this move, and nothing is lost."""
        trial = self._made.copy()
        trial.move(at, self._tasks[at], left, found)
        for other, planned in self._plan.items():
            if other not in trial.found:
                left = trial.without(other, self._tasks[other])
                if not self._search.confirms(left, self._tasks[other], planned):
                    return False
                trial.move(other, self._tasks[other], left, planned)
        return self._good(trial.state)
