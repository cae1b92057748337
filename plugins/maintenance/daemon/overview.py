"""How full the nodes are in a round, and will be when its moves are done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from ganeti_steward.core.drawing.amounts import Overview
from ganeti_steward.core.ganeti.job_sets import steps
from ganeti_steward.core.maintenance.incident import Submission
from ganeti_steward.core.maintenance.routine import RoutineJob
from ganeti_steward.core.maintenance.task import Task
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.opcodes import MOVES, Operation
from ganeti_steward.plugins.maintenance.daemon.parts import Round

#: Instance -> the nodes it is being moved to, primary first.
Moves = Mapping[str, tuple[str, ...]]


def moves_under_way(before: Moves, outcome: Round) -> Moves:
    """The moves of jobs that have not ended, and in observe mode those that would be submitted.

    ``before``: those of the round before.

    The job queue does not say where a job moves its instance, so it is remembered from the round
    that submitted it.
    """
    if outcome.world is None:
        return before
    observed = outcome.decision.observed if outcome.decision else ()
    tasks = [*(one.task for one in outcome.started), *(one.task for one in outcome.routine)]
    moves = {**before, **_targets(outcome.world.cluster, [*tasks, *observed])}
    open_tasks = (task for one in outcome.incidents.values() for task in one.open)
    open_jobs = (job for job in outcome.world.routine if job.open)
    busy = {
        name
        for task in chain[Submission | RoutineJob | Task](open_tasks, open_jobs, tasks, observed)
        for name in task.instances
    }
    return {name: nodes for name, nodes in moves.items() if name in busy}


def _targets(cluster: Cluster, tasks: Iterable[Task]) -> Moves:
    jobs = [[one for one in job if _is_move(one, cluster)] for task in tasks for job in task.jobs]
    return {step.instance: step.after for step in steps(cluster, jobs)}


def _is_move(operation: Operation, cluster: Cluster) -> bool:
    """Whether it moves a known instance, and not to a node that an allocator has yet to find."""
    kind = operation["OP_ID"]
    if kind not in MOVES or operation["instance_name"] not in cluster.instance_index:
        return False
    return not MOVES[kind].copies or "remote_node" in operation


def overview_of(world: World, moves: Moves) -> Overview:
    """Each group and node now, and when these moves are done."""
    # They import the engine, which a daemon without work does without until the first round.
    from ganeti_steward.allocators.overview.filled import overview, with_placed
    from ganeti_steward.allocators.state.load import load
    from ganeti_steward.core.iallocator.placed import Placed

    cluster = world.cluster
    now = load(cluster, None, 0)
    placed = [
        Placed(cluster.instance(name), nodes)
        for name, nodes in moves.items()
        if name in cluster.instance_index and {*nodes} <= {*cluster.node_index}
    ]
    return overview(now, with_placed(now, placed))
