"""The instances that leave one node as tasks of the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.moves.evacuation import evacuation
from ganeti_steward.allocators.moves.planning import MovePlan, Planner
from ganeti_steward.allocators.rules.candidates import used_last
from ganeti_steward.allocators.rules.more_bans import MoreBans, unused_nodes
from ganeti_steward.allocators.rules.move_kinds import FAILOVER, FAILOVER_STEP
from ganeti_steward.allocators.score.redundancy import Redundancy, RedundancyScore
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.core.model.requests import EVAC_ALL, SECONDARY_ONLY

if TYPE_CHECKING:
    from ganeti_steward.allocators.moves.best_move import BestMoveSearch, MoveTask, Stages
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.cluster import Instance, Node
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.opcodes import Job


#: Names of instances, each with the reason why it is not moved.
Reasons = tuple[tuple[str, str], ...]


class Leaving(NamedTuple):
    """Which instances leave which node, and which other nodes are not used."""

    node: str
    """name; it is drained or offline"""
    instances: Sequence[str]
    """names; the node is primary or secondary of each"""
    avoided: Mapping[str, str]
    """node nothing may be moved to -> why"""
    reserved: frozenset[str]
    """nodes that other tasks use: nothing may be moved to or from them now, but later"""
    most: int
    """the most moves at the same time"""
    last: Mapping[str, frozenset[str]] = MappingProxyType({})
    """instance -> names of nodes to which its move failed: used only where no other fits"""
    passing: frozenset[str] = frozenset()
    """nodes nothing may be moved to for a short time, for another reason than a task; they may be
    among ``avoided``, too"""
    excluded: frozenset[str] = frozenset()
    """nodes among ``avoided`` that nothing may ever be moved to"""
    may_keep_copies: bool = True
    """whether a drbd instance may leave as primary only where its copy has no other place"""

    @property
    def unused(self) -> frozenset[str]:
        """Names of all nodes nothing may be moved to now."""
        return self.reserved.union(self.avoided, self.passing)

    @property
    def later(self) -> Leaving:
        """The same when what others do now has ended."""
        avoided = {node: why for node, why in self.avoided.items() if node not in self.passing}
        return self._replace(avoided=avoided, reserved=frozenset(), passing=frozenset())


class NodeMove(NamedTuple):
    """One instance that leaves the node."""

    instance: Instance
    nodes: frozenset[str]
    """names of all nodes the job uses"""
    job: Job
    keeps_copy: bool = False
    """whether the node stays its secondary, because no other node can take a copy"""


class NodeMoves(NamedTuple):
    """What can be done now; reasons for instances are only given when that is nothing."""

    moves: tuple[NodeMove, ...] = ()
    """they share the node that is left and no other one; those that keep copies on it only when
    no other move can be made"""
    later: tuple[str, ...] = ()
    """instances of the plan that do not move yet: ``most`` others do, or nodes are in use"""
    blocked: Reasons = ()
    """instances that fit only on nodes that are reserved now or not used for a short time"""
    impossible: Reasons = ()
    """instances that fit nowhere"""
    stays: Reasons = ()
    """drbd instances that run elsewhere and whose copy on the node fits nowhere else"""
    copies_impossible: frozenset[str] = frozenset()
    """names of all drbd instances on the node for whose copy the group has no third node that is
    vm_capable and neither offline nor excluded; also given when there are moves"""
    before: Redundancy = Redundancy()
    """of the node's group now; the copies on the node count while it is not offline"""
    after: Redundancy = Redundancy()
    """of the node's group after all moves that are planned, the node itself not counted"""


#: Ways looked at, times the nodes of the cluster.
_REARRANGING: Final = 20000

#: Places of one instance that are tried with each number of copies.
_ALTERNATIVES: Final = 12


class ThoroughPlanner(Planner):
    """Also tries places that are worse for one instance and better for another one."""

    def __init__(
        self,
        start: State,
        tasks: Sequence[MoveTask],
        search: BestMoveSearch,
        good_enough: Callable[[MovePlan], bool],
    ) -> None:
        """``good_enough``: whether no better plan than this one needs to be looked for."""
        super().__init__(start, tasks, search)
        self._good_enough = good_enough

    def plan(self) -> MovePlan:
        """The best plan found."""
        best = super().plan()
        self._allow(_REARRANGING)
        while not self._good_enough(best):
            better = next((one for one in self._rearranged(best) if self._gains(best, one)), None)
            if better is None:
                break
            best = better
        return best

    def _gains(self, plan: MovePlan, other: MovePlan) -> bool:
        *before, score = self._rank(plan)
        return self._rank(other) < (*before, score - TOLERANCE)

    def _rearranged(self, plan: MovePlan) -> Iterator[MovePlan]:
        """One instance to one of several places, then another one to its best place."""
        for first, second in permutations(self._movable, 2):
            if self._spent:
                return
            others = [at for at in plan.found if at not in (first, second)]
            rest = self._in_order(others, plan.found)
            left = rest.without(first, self._tasks[first])
            places = self._search.alternatives(left, self._tasks[first], _ALTERNATIVES, every=True)
            for place in places:
                if self._spent:
                    return
                trial = rest.copy()
                trial.move(first, self._tasks[first], left, place)
                state = trial.without(second, self._tasks[second])
                found = self._search.best(state, self._tasks[second])
                if found is not None:
                    trial.move(second, self._tasks[second], state, found)
                yield trial


def live_nodes(state: State) -> Mask:
    """nodes: whether one is online, vm_capable and reports its figures."""
    nodes = state.frame.cluster.nodes
    return np.fromiter((node.live for node in nodes), np.bool_, len(nodes))


def leave_score(state: State, leaving: Leaving) -> RedundancyScore:
    """How plans are compared: the node that is left does not count as one that survives."""
    live = live_nodes(state)
    live[state.frame.cluster.node_index[leaving.node]] = False
    return RedundancyScore(live)


def leave_tasks(state: State, leaving: Leaving, context: Context) -> list[MoveTask]:
    """How each instance may leave the node, in the order of the request."""
    cluster = state.frame.cluster
    bans = unused_nodes(leaving.avoided, leaving.reserved, cluster, leaving.passing)
    own = context._replace(site_rules=MoreBans(context.site_rules, tuple(bans)))
    return [_task(state, state.resident(name), leaving, own) for name in leaving.instances]


def leave_plan(
    state: State, tasks: Sequence[MoveTask], search: BestMoveSearch, score: RedundancyScore
) -> MovePlan:
    """The plan for all tasks; what leaves no instance and no redundancy behind is good enough."""
    movable = sum(not task.fault for task in tasks)
    lost = score.lost(state)

    def good_enough(plan: MovePlan) -> bool:
        return len(plan.found) == movable and score.lost(plan.state) <= lost

    return ThoroughPlanner(state, tasks, search, good_enough).plan()


def urgent_first(state: State, leaving: Leaving) -> Leaving:
    """The same request, with the most urgent instances first, else in the order given."""
    by_urgency = sorted(
        leaving.instances, key=lambda name: -urgency(state, state.resident(name), leaving)
    )
    return leaving._replace(instances=by_urgency)


def urgency(state: State, resident: Resident, leaving: Leaving) -> int:
    """2: a drbd instance has its only good copy on the node; 1: its other node is ill, too."""
    if not resident.demand.drbd:
        return 0
    nodes = (state.frame.cluster.nodes[at] for at in resident.nodes)
    (other,) = (node for node in nodes if node.name != leaving.node)
    return 2 if not other.live else int(other.name in leaving.avoided)


def _task(state: State, resident: Resident, leaving: Leaving, context: Context) -> MoveTask:
    cluster = state.frame.cluster
    left = cluster.node_index[leaving.node]
    mode = EVAC_ALL if resident.primary == left else SECONDARY_ONLY
    task = evacuation(state, resident, mode, frozenset({left}), context)
    failed = leaving.last.get(task.name, frozenset())
    if failed:
        nodes = np.fromiter((node.name in failed for node in cluster.nodes), np.bool_)
        terms = used_last(state.frame, task.terms, nodes, "a move to it failed")
        task = task._replace(terms=terms)
    if mode == SECONDARY_ONLY or not resident.demand.drbd:
        return task
    secondary = cluster.nodes[resident.secondary]
    if secondary.name in leaving.unused or not secondary.live:
        # An instance does not run on a node under repair, not even on its way to another one.
        return task._replace(stages=_copying_first(task.stages))
    if secondary.name in failed:
        return task._replace(stages=(*_copying_first(task.stages), *task.stages))
    return task


def _copying_first(stages: Stages) -> Stages:
    """The kinds of move that do not begin with a failover to the secondary."""
    left = (tuple(k for k in stage if k.steps[0] != FAILOVER_STEP) for stage in stages)
    return tuple(stage for stage in left if stage)


def without_copy(task: MoveTask) -> MoveTask:
    """The same instance as it leaves as primary only, its copy staying on the node."""
    return task._replace(stages=((FAILOVER,),))


def third_nodes(state: State, task: MoveTask) -> list[Node]:
    """The nodes of an instance's group that it is not on."""
    frame, home = state.frame, task.resident
    return [
        node
        for at, node in enumerate(frame.cluster.nodes)
        if frame.group[at] == frame.group[home.primary] and at not in home.nodes
    ]


def has_third_node(state: State, task: MoveTask, leaving: Leaving) -> bool:
    """Whether the group has another node that could ever take a copy of a drbd instance."""
    return any(
        node.vm_capable and not node.offline and node.name not in leaving.excluded
        for node in third_nodes(state, task)
    )
