"""The instances that leave one node as tasks of the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.moves.node_evacuate import evacuation
from ganeti_steward.allocators.moves.thorough_planning import ThoroughPlanner
from ganeti_steward.allocators.rules.more_bans import MoreBans, unused_nodes
from ganeti_steward.allocators.rules.move_kinds import FAILOVER, FAILOVER_STEP
from ganeti_steward.allocators.score.redundancy import RedundancyScore
from ganeti_steward.core.model.requests import EVAC_ALL, SECONDARY_ONLY
from ganeti_steward.core.model.site_rules import ROLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti_steward.allocators.moves.best_move import BestMoveSearch, MoveTask, Stages
    from ganeti_steward.allocators.moves.leaving import Leaving
    from ganeti_steward.allocators.moves.planning import MovePlan
    from ganeti_steward.allocators.rules.candidates import Terms
    from ganeti_steward.allocators.state.arrays import Mask
    from ganeti_steward.allocators.state.state import Resident, State
    from ganeti_steward.core.model.cluster import Node
    from ganeti_steward.core.model.context import Context

#: What a node costs to which a move failed: more than anything else can differ by.
_FAILED: Final = 1e8


def live_nodes(state: State) -> Mask:
    """nodes: whether one is online, vm_capable and reports its figures."""
    nodes = state.frame.cluster.nodes
    return np.fromiter((node.live for node in nodes), np.bool_, len(nodes))


def leave_score(state: State, leaving: Leaving) -> RedundancyScore:
    """How plans are compared: the node that is left does not count as one that survives."""
    live = live_nodes(state)
    live[state.frame.cluster.node_index[leaving.node]] = False
    return RedundancyScore(state, live)


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
        task = task._replace(terms=_with_costs(task.terms, failed, state))
    if mode == SECONDARY_ONLY or not resident.demand.drbd:
        return task
    secondary = cluster.nodes[resident.secondary]
    if secondary.name in leaving.unused or not secondary.live:
        # An instance does not run on a node under repair, not even on its way to another one.
        return task._replace(stages=_copying_first(task.stages))
    if secondary.name in failed:
        return task._replace(stages=(*_copying_first(task.stages), *task.stages))
    return task


def _with_costs(terms: Terms, failed: frozenset[str], state: State) -> Terms:
    index = state.frame.cluster.node_index
    costs = {role: terms.costs[role].copy() for role in ROLES}
    for cost in costs.values():
        cost[[index[name] for name in failed if name in index]] += _FAILED
    return terms._replace(costs=costs)


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
