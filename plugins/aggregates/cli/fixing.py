"""A plan that moves misplaced instances where they would be placed today: no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.allocators.balancing.planning.plan_balance import plan_balance
from ganeti_steward.allocators.jobs.job_sets import Step, steps
from ganeti_steward.core.model.cluster import NOT_MIRRORED
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance
from ganeti_steward.core.model.site_rules import ROLES
from ganeti_steward.plugins.aggregates.cli.reading import TaggedCluster, listed
from ganeti_steward.plugins.aggregates.cli.standing import Misplaced, misplaced
from ganeti_steward.plugins.aggregates.evaluator import Evaluator
from ganeti_steward.plugins.aggregates.requirements import read_requirements

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.opcodes import Job


class Left(NamedTuple):
    """An instance that stays misplaced."""

    instance: str
    text: str
    """why, and what can be done"""


class FixPlan(NamedTuple):
    """What is done about misplaced instances."""

    jobs: tuple[Job, ...]
    """in the order in which they must be run"""
    moves: tuple[Step, ...]
    left: tuple[Left, ...]
    info: str
    """of the allocator"""


def fix(tagged: TaggedCluster, options: Options, names: Collection[str] | None = None) -> FixPlan:
    """The plan, for these instances or all; raises StewardError when there is no answer.

    Only misplaced instances are moved, and only within their node groups, by the allocators
    configured for balancing.
    """
    cluster = tagged.cluster
    wrong = _by_instance(tagged, names)
    stuck = {name: text for name in wrong if (text := _immovable(tagged, cluster.instance(name)))}
    movable = frozenset(wrong) - frozenset(stuck)
    jobs: list[Job] = []
    info = ""
    if movable:
        groups = {
            cluster.nodes[cluster.node_index[one.node]].group for n in movable for one in wrong[n]
        }
        request = Balance(groups=tuple(sorted(groups)), select=movable, fix=True)
        plan = plan_balance(request, cluster, tagged.config, options)
        jobs, info = plan.jobs, plan.info
    moves = steps(cluster, jobs)
    after = tagged.with_cluster(_moved(cluster, moves))
    still = _by_instance(after, movable)
    left = [Left(name, text) for name, text in stuck.items()]
    left += [Left(name, _why(after, cluster.instance(name), still[name])) for name in still]
    return FixPlan(tuple(jobs), tuple(moves), tuple(sorted(left)), info)


def _by_instance(
    tagged: TaggedCluster, names: Collection[str] | None
) -> dict[str, list[Misplaced]]:
    found: dict[str, list[Misplaced]] = {}
    for one in misplaced(tagged):
        if names is None or one.instance in names:
            found.setdefault(one.instance, []).append(one)
    return found


def _moved(cluster: Cluster, moves: Sequence[Step]) -> Cluster:
    nodes = {move.instance: move.after for move in moves}
    return cluster.replace(
        instances=(one._replace(nodes=nodes.get(one.name, one.nodes)) for one in cluster.instances)
    )


def _immovable(tagged: TaggedCluster, instance: Instance) -> str:
    """Why balancing never moves an instance; empty when it may."""
    faults = read_requirements(tagged.rules, instance).faults
    if faults:
        return faults[0].sentence
    if instance.template in NOT_MIRRORED:
        node = _nearest(tagged.cluster, instance, _allowed(tagged, instance, ROLES[0]))
        return (
            f"its disks exist only on {instance.nodes[0]}; move it by hand: gnt-instance move -n "
            f"{node} {instance.name}"
        )
    if not instance.auto_balance:
        return (
            "its parameter auto_balance is off; to let it move: gnt-instance modify -B "
            f"auto_balance=yes {instance.name}"
        )
    return ""


def _nearest(cluster: Cluster, instance: Instance, allowed: Sequence[str]) -> str:
    """One of the nodes, of the group the instance is in if there is one."""
    nodes = {name: cluster.nodes[cluster.node_index[name]] for name in allowed}
    home = cluster.nodes[cluster.node_index[instance.nodes[0]]].group
    same = [name for name, node in nodes.items() if node.group == home]
    return next(iter((*same, *allowed)), "NODE")


def _why(tagged: TaggedCluster, instance: Instance, wrong: Sequence[Misplaced]) -> str:
    """Why no move was found, and what else there is."""
    cluster, one = tagged.cluster, wrong[0]
    home = cluster.nodes[cluster.node_index[one.node]].group
    allowed = _allowed(tagged, instance, one.role)
    groups = {cluster.nodes[cluster.node_index[name]].group for name in allowed}
    name = cluster.groups[cluster.group_index[home]].name
    if home in groups:
        here = [n for n in allowed if cluster.nodes[cluster.node_index[n]].group == home]
        return (
            f"no move within group {name} reaches a node that complies as {one.role}: "
            f"{listed(here, every=False)}"
        )
    others = sorted(cluster.groups[cluster.group_index[uuid]].name for uuid in groups)
    if not others:
        return f"no usable node of the cluster complies as {one.role}"
    return (
        f"no usable node of group {name} complies as {one.role}; another group: gnt-instance "
        f"change-group --to {others[0]} {instance.name}"
    )


def _allowed(tagged: TaggedCluster, instance: Instance, role: str) -> list[str]:
    """The usable nodes an instance would be placed on in a role."""
    evaluator = Evaluator(tagged.rules, tagged.cluster)
    requirements = read_requirements(tagged.rules, instance).requirements
    return [
        node.name
        for node in tagged.cluster.nodes
        if node.usable and evaluator.node(requirements, instance.template, node, role) is None
    ]


def data_of(plan: FixPlan) -> Iterator[tuple[str, object]]:
    """The plan for JSON; disk in MiB."""
    yield "moves", [move._asdict() for move in plan.moves]
    yield "left", [one._asdict() for one in plan.left]
