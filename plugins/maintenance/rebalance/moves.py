"""Scores of node groups, and the first moves of a plan that makes one more even."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.allocators.balancing.planning.balance import balance
from ganeti_steward.allocators.jobs.job_sets import Step, job_sets, steps
from ganeti_steward.allocators.loads import load_reports
from ganeti_steward.allocators.loads.agent_loads import with_agent_loads
from ganeti_steward.allocators.loads.mond import query
from ganeti_steward.allocators.rules.more_bans import MoreBans, unused_nodes
from ganeti_steward.allocators.score.cluster_score import state_after
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.requests import Balance
from ganeti_steward.plugins.maintenance import config
from ganeti_steward.plugins.maintenance.edges.loads import reported_loads
from ganeti_steward.plugins.maintenance.rebalance.by_load import (
    imbalance,
    on_busy_nodes,
    with_one_load,
)
from ganeti_steward.plugins.maintenance.rebalance.remaining import Remaining, copied_gib
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import World

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Mask

#: The step of a task that moves an instance.
BALANCE: Final = "balance"

_MIB_PER_GIB: Final = 1024

#: What a move must lower the score by where the imbalance of load decides.
_LEAST_GAIN: Final = 0.01


class FoundMoves(NamedTuple):
    """What can be done for a group now."""

    tasks: tuple[Task, ...]
    text: str
    """how much of the plan that is, and why not more"""
    waits: bool = False
    """whether there are moves that have to wait"""


class Groups:
    """The node groups of one world."""

    def __init__(self, world: World, context: Context, settings: config.Rebalance) -> None:
        self._world, self._context, self._settings = world, context, settings
        self._state = load(world.cluster, None, context.options.kvm_memory)
        self._numbers = {group.uuid: at for at, group in enumerate(world.cluster.groups)}
        self._copied = copied_gib(world)

    def score(self, group: str) -> float | None:
        """The score of a group (by uuid); None where it has no nodes."""
        members = self._members(group)
        return Scorer(self._state, members).score if members.any() else None

    def imbalance(self, group: str) -> float:
        """How uneven the load of a group is (by uuid)."""
        return imbalance(self._state, self._members(group))

    def _members(self, group: str) -> Mask:
        members: Mask = self._state.frame.group == self._numbers.get(group, -1)
        return members

    def moves(self, group: str, left_out: Remaining) -> FoundMoves:
        """The first moves of a plan that can be made at the same time; raises PluginError."""
        cluster = self._world.cluster
        request = self._request(group, left_out)
        if self._settings.by_load:
            busy = on_busy_nodes(self._state, self._members(group))
            request = request._replace(select=busy, min_gain=_LEAST_GAIN)
        ceiling = self._settings.copy_per_hour * _MIB_PER_GIB or math.inf
        planned = self._planned(request, left_out)
        if planned and steps(cluster, planned[:1])[0].copied > ceiling:
            # It would wait for ever: one move after the other copies less at a time.
            large = {one.name for one in cluster.instances if one.disk_space > ceiling}
            single = request._replace(max_moves=1, exclude=request.exclude | large)
            planned = self._planned(single, left_out)
        if not planned:
            return FoundMoves((), self._nothing)
        first = job_sets(cluster, planned)[0]
        return self._tasks(group, steps(cluster, planned), first)

    @property
    def _nothing(self) -> str:
        if self._settings.by_load:
            return f"no move lowers the imbalance by {100 * self._settings.load_margin:g} %"
        return f"no move gains {self._settings.min_gain:g}"

    def _planned(self, request: Balance, left_out: Remaining) -> Sequence[Job]:
        cluster = self._world.cluster
        bans = unused_nodes(left_out.nodes, frozenset(), cluster)
        rules = MoreBans(self._context.site_rules, tuple(bans))
        outcome = balance(request, cluster, self._context._replace(site_rules=rules))
        assert isinstance(outcome, Answer)
        result: Any = outcome.result
        jobs: Sequence[Job] = result[2]
        return jobs

    def _request(self, group: str, left_out: Remaining) -> Balance:
        settings, cluster = self._settings, self._world.cluster
        on_left_out = {
            one.name for one in cluster.instances if left_out.nodes.keys() & set(one.nodes)
        }
        return Balance(
            groups=(group,),
            evacuate=settings.evac_mode,
            disk_moves=settings.disk_moves,
            exclude=frozenset(on_left_out.union(left_out.instances)),
            min_gain=settings.min_gain,
            min_gain_limit=math.inf,
            min_gain_per_gib=settings.min_gain_per_gib,
        )

    def _tasks(self, group: str, planned: Sequence[Step], first: Sequence[Job]) -> FoundMoves:
        cluster, settings = self._world.cluster, self._settings
        before, uneven = self.score(group) or 0.0, self.imbalance(group)
        tasks = list[Task]()
        placed = list[tuple[Any, tuple[str, ...]]]()
        number = len(planned)
        for step, job in zip(planned, first, strict=False):
            if len(tasks) == settings.moves_at_once:
                break
            moved = [*placed, (cluster.instance(step.instance), step.after)]
            state = state_after(self._state, moved)
            then = imbalance(state, self._members(group))
            if settings.by_load and then > uneven * (1 - settings.load_margin):
                continue
            gib = step.copied / _MIB_PER_GIB
            if settings.copy_per_hour and self._copied + gib > settings.copy_per_hour + 1e-9:
                reason = (
                    f"{_gib(self._copied)} were copied within the last hour or are being copied, "
                    f"{step.instance} needs {_gib(gib)}, at most "
                    f"{_gib(settings.copy_per_hour)} are copied in an hour"
                )
                text = f"{len(tasks)} of {counted(number, 'planned move')} now: {reason}"
                return FoundMoves(tuple(tasks), text, waits=True)
            self._copied += gib
            placed = moved
            after = Scorer(state, self._members(group)).score
            task = _task(step, job, (before, after))
            if settings.by_load:
                text = f"{task.reason}, imbalance of load {uneven:.2f} to {then:.2f}"
                task = task._replace(reason=text)
            tasks.append(task)
            before, uneven = after, then
        if settings.by_load and not tasks:
            return FoundMoves((), self._nothing)
        text = f"{len(tasks)} of {counted(number, 'planned move')} now"
        return FoundMoves(tuple(tasks), text)


def _task(step: Step, job: Job, scores: tuple[float, float]) -> Task:
    copies = f", {_gib(step.copied / _MIB_PER_GIB)} to be copied" if step.copied else ""
    reason = (
        f"move {step.instance} from {','.join(step.before)} to {','.join(step.after)} "
        f"({step.how}{copies}): score {scores[0]:.3f} to {scores[1]:.3f}"
    )
    nodes = frozenset((*step.before, *step.after, *_on_the_way(job)))
    return Task(BALANCE, nodes, frozenset({step.instance}), reason, (job,), subject=step.instance)


def _on_the_way(job: Job) -> list[str]:
    """Nodes that only one operation in the middle of the job names."""
    named = [one.get(key) for one in job for key in ("remote_node", "target_node")]
    return [name for name in named if name]


def _gib(gib: float) -> str:
    return f"{gib:.1f} GiB"


#: Value of ``load-data`` -> the collector of the monitoring daemon.
_COLLECTORS: Final = {
    config.NODE_LOAD: load_reports.NODE_COLLECTOR,
    config.XEN_LOAD: load_reports.XEN_COLLECTOR,
}

#: Ganeti's word for an instance that runs where it should.
_RUNNING: Final = "running"


def with_load_reports(world: World, settings: config.Rebalance) -> World:
    """The world with the reports of the monitoring daemons, which are queried now."""
    if settings.load_data not in _COLLECTORS:
        return world
    nodes, collector = load_reports.nodes_to_query(world.cluster), _COLLECTORS[settings.load_data]
    try:
        reports = query(nodes, collector, settings.load_time_limit)
    except load_reports.NoLoads as err:
        return world._replace(load_fault=str(err))
    return world._replace(load_reports=reports)


def loaded(world: World, settings: config.Rebalance) -> Cluster:
    """The cluster with the measured load, where it counts; raises NoLoads."""
    if settings.load_data == config.NO_LOAD:
        return world.cluster
    if settings.load_data == config.AGENT_LOAD:
        # Each observation is fresh.
        found = with_agent_loads(world.cluster, reported_loads(world), math.inf, world.now)
        return with_one_load(found) if settings.by_load else found
    if world.load_fault:
        raise load_reports.NoLoads(world.load_fault)
    collector = _COLLECTORS[settings.load_data]
    reports = dict(world.load_reports)
    missing = [name for name in load_reports.nodes_to_query(world.cluster) if name not in reports]
    if missing:
        raise load_reports.NoLoads.of(missing[0], "its load was not read")
    if collector == load_reports.XEN_COLLECTOR:
        reports = _completed(world, reports)
    return load_reports.with_reports(world.cluster, reports, collector)


def _completed(world: World, reports: Mapping[str, Any]) -> dict[str, Any]:
    """The reports of Xen instances with what was moved, or is down, since they were measured.

    An instance has the load that another node still reports of it.  One that does not run has
    none, such as an instance whose node has failed.  Of one that runs and is reported by no node
    nothing is known: it is left out, and `with_reports` raises.
    """
    data: dict[str, dict[str, Any]] = {
        name: dict(report["data"]) if _has_loads(report) else {} for name, report in reports.items()
    }
    known = {name: load for loads in data.values() for name, load in loads.items()}
    for instance in world.cluster.instances:
        primary, name = instance.nodes[0], instance.name
        if primary in data and name not in data[primary]:
            if name in known:
                data[primary][name] = known[name]
            elif instance.status not in ("", _RUNNING):
                data[primary][name] = 0.0
    return {
        name: {**report, "data": data[name]} if _has_loads(report) else report
        for name, report in reports.items()
    }


def _has_loads(report: Any) -> bool:
    """Whether it has loads of instances; others have an error, or are none of this collector."""
    return (
        isinstance(report, dict)
        and isinstance(report.get("data"), dict)
        and not isinstance(report["data"].get("error"), str)
    )
