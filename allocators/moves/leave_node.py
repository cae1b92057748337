"""All instances leave one node: which moves can be made at the same time, and what cannot move.

Unlike ``node-evacuate`` it is about a known node, primaries and secondaries together: a drbd
instance that leaves its primary goes to two other nodes at once, in one job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.moves.answer import refusal
from ganeti_steward.allocators.moves.best_move import BestMoveSearch
from ganeti_steward.allocators.moves.node_evacuate import evacuation
from ganeti_steward.allocators.moves.planning import MovePlan, Planner
from ganeti_steward.allocators.moves.tried import try_moves
from ganeti_steward.allocators.rules.more_bans import MoreBans, unused_nodes
from ganeti_steward.allocators.rules.move_kinds import FAILOVER_STEP, job
from ganeti_steward.allocators.score.final_score import FinalScore
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.model.requests import EVAC_ALL, SECONDARY_ONLY

if TYPE_CHECKING:
    from ganeti_steward.allocators.moves.best_move import MoveChoice, MoveTask, Stages
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explanation
    from ganeti_steward.core.model.opcodes import Job


class Leaving(NamedTuple):
    """Which instances leave which node, and which other nodes are not used."""

    node: str
    """name; it is drained or offline"""
    instances: Sequence[str]
    """names; the node is primary or secondary of each"""
    avoided: Mapping[str, str]
    """node nothing may be moved to -> why"""
    reserved: frozenset[str]
    """nodes nothing may be moved to now, but later"""
    most: int
    """the most moves at the same time"""


class NodeMove(NamedTuple):
    """One instance that leaves the node."""

    instance: Instance
    nodes: frozenset[str]
    """names of all nodes the job uses"""
    job: Job


class NodeMoves(NamedTuple):
    """What can be done now; reasons are only given when that is nothing."""

    moves: tuple[NodeMove, ...] = ()
    """they share the node that is left and no other one"""
    blocked: tuple[tuple[str, str], ...] = ()
    """instances that fit only on nodes that are reserved now, each with a reason"""
    impossible: tuple[tuple[str, str], ...] = ()
    """instances that fit nowhere, each with a reason"""


def leave_node(leaving: Leaving, cluster: Cluster, context: Context) -> NodeMoves:
    """Moves that can be made at the same time; raises PluginError of a site rule.

    They are the first of a plan for all instances: none takes the place another one needs.
    """
    if not leaving.instances:
        return NodeMoves()
    state = load(cluster, None, context.options.kvm_memory)
    search = BestMoveSearch(FinalScore(state))
    tasks = _tasks(state, leaving, leaving.reserved, context)
    plan = Planner(state, tasks, search).plan()
    made = _Selection(state, tasks, plan, search, leaving).made()
    if made:
        return NodeMoves(tuple(_move(state, tasks[at], found) for at, found in made.items()))
    blocked, impossible = [], []
    for task, wider in zip(tasks, _tasks(state, leaving, frozenset(), context), strict=True):
        if leaving.reserved and not wider.fault and search.best(_without(state, wider), wider):
            blocked.append((task.name, "all nodes it fits on are used by other tasks"))
        else:
            impossible.append((task.name, _why(state, wider, leaving, search)))
    return NodeMoves((), tuple(blocked), tuple(impossible))


def explain_leaving(
    leaving: Leaving, cluster: Cluster, context: Context
) -> tuple[Explanation, ...]:
    """Why each instance goes where the plan of `leave_node` moves it, or nowhere.

    Raises PluginError of a site rule.
    """
    from ganeti_steward.allocators.moves.explain import explain_plan

    state = load(cluster, None, context.options.kvm_memory)
    search = BestMoveSearch(FinalScore(state))
    tasks = _tasks(state, leaving, leaving.reserved, context)
    return explain_plan(state, tasks, Planner(state, tasks, search).plan(), search)


# -- the instances as tasks of the planner


def _tasks(
    state: State, leaving: Leaving, reserved: frozenset[str], context: Context
) -> list[MoveTask]:
    cluster = state.frame.cluster
    rules = MoreBans(context.site_rules, tuple(unused_nodes(leaving.avoided, reserved, cluster)))
    own = context._replace(site_rules=rules)
    return [_task(state, name, leaving, own) for name in leaving.instances]


def _task(state: State, name: str, leaving: Leaving, context: Context) -> MoveTask:
    cluster, resident = state.frame.cluster, state.resident(name)
    left = cluster.node_index[leaving.node]
    mode = EVAC_ALL if resident.primary == left else SECONDARY_ONLY
    task = evacuation(state, resident, mode, frozenset({left}), context)
    secondary = cluster.nodes[resident.secondary].name if resident.demand.drbd else ""
    if mode == EVAC_ALL and secondary in leaving.avoided:
        # An instance does not run on a node under repair, not even on its way to another one.
        return task._replace(stages=_copying_first(task.stages))
    return task


def _copying_first(stages: Stages) -> Stages:
    """The kinds of move that do not begin with a failover to the secondary."""
    left = (tuple(k for k in stage if k.steps[0] != FAILOVER_STEP) for stage in stages)
    return tuple(stage for stage in left if stage)


# -- which of the planned moves are made first


class _Selection:
    """Moves that share no node but the one that is left."""

    def __init__(
        self,
        state: State,
        tasks: Sequence[MoveTask],
        plan: MovePlan,
        search: BestMoveSearch,
        leaving: Leaving,
    ) -> None:
        self._state, self._tasks, self._plan, self._search = state, tasks, plan.found, search
        self._leaving = leaving
        self._left = state.frame.cluster.node_index[leaving.node]
        self._made = MovePlan(state)
        self._used: set[int] = set()

    def made(self) -> dict[int, MoveChoice]:
        """Position of the task -> its move: as planned if that is free, else to other nodes."""
        for at, planned in self._plan.items():
            if len(self._made.found) == self._leaving.most:
                break
            left = self._made.without(at, self._tasks[at])
            if self._is_free(at, planned):
                if self._search.confirms(left, self._tasks[at], planned):
                    self._make(at, left, planned)
            elif (other := self._other(at, left)) and self._completes(at, left, other):
                self._make(at, left, other)
        return self._made.found

    def _make(self, at: int, left: State, found: MoveChoice) -> None:
        self._made.move(at, self._tasks[at], left, found)
        self._used |= self._nodes(at, found)

    def _nodes(self, at: int, found: MoveChoice) -> set[int]:
        return {*self._tasks[at].resident.nodes, *found.nodes} - {-1, self._left}

    def _is_free(self, at: int, found: MoveChoice) -> bool:
        return self._used.isdisjoint(self._nodes(at, found))

    def _other(self, at: int, left: State) -> MoveChoice | None:
        """The best move to nodes that are not used yet."""
        task = self._tasks[at]
        if not self._used.isdisjoint(task.resident.nodes):
            return None
        targets = task.targets.copy()
        targets[list(self._used)] = False
        return self._search.best(left, task._replace(targets=targets))

    def _completes(self, at: int, left: State, found: MoveChoice) -> bool:
        """Whether all others can still be moved as planned after this move."""
        trial = self._made.copy()
        trial.move(at, self._tasks[at], left, found)
        for other, planned in self._plan.items():
            if other not in trial.found:
                left = trial.without(other, self._tasks[other])
                if not self._search.confirms(left, self._tasks[other], planned):
                    return False
                trial.move(other, self._tasks[other], left, planned)
        return True


def _move(state: State, task: MoveTask, found: MoveChoice) -> NodeMove:
    instance = task.resident.demand.instance
    names = state.frame.node_names(found.nodes)
    nodes = frozenset({*instance.nodes, *names})
    return NodeMove(instance, nodes, job(instance, found.kind, names[0], names[-1]))


# -- why an instance fits nowhere


def _without(state: State, task: MoveTask) -> State:
    return state.removed(task.resident)


def _why(state: State, task: MoveTask, leaving: Leaving, search: BestMoveSearch) -> str:
    if task.fault:
        return task.fault
    reason = refusal(try_moves(state, task, None, search))
    nodes = task.resident.demand.instance.nodes
    secondary = nodes[1] if len(nodes) > 1 else ""
    if secondary != leaving.node and secondary in leaving.avoided:
        return f"its secondary {secondary} {leaving.avoided[secondary]}; {reason}"
    return reason
