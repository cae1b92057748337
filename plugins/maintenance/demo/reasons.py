"""Why the allocator moves an instance of the demo where it goes."""

from __future__ import annotations

from collections.abc import Mapping

from ganeti_steward.allocators.moves.leave_node import Leaving, explain_leaving
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import MOVES, Job, nodes_after


def moved(job: Job, cluster: Cluster) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Instance, nodes before and nodes after a job; None for a job that moves nothing."""
    operations = [one for one in job if one["OP_ID"] in MOVES]
    if not operations:
        return None
    name = operations[0]["instance_name"]
    before = after = tuple(cluster.instance(name).nodes)
    for operation in operations:
        after = tuple(nodes_after(after, dict(operation)))
    return name, before, after


def reason(
    cluster: Cluster, node: str, instance: str, after: tuple[str, ...], avoided: Mapping[str, str]
) -> str:
    """One sentence; empty where the allocator's plan has other nodes for the instance.

    ``node``: the one that all instances leave; ``cluster``: at the time of the decision;
    ``avoided``: see `World.avoided_nodes`.
    """
    leaving = [one.name for one in cluster.instances if node in one.nodes]
    plan = Leaving(node, leaving, avoided, frozenset(), len(leaving))
    found = {one.instance: one for one in explain_leaving(plan, cluster, Context())}
    places = {place.nodes: place.score for one in found[instance].groups for place in one.places}
    if after not in places:
        return ""
    score = places.pop(after)
    other = min(places, key=lambda nodes: places[nodes], default=None)
    rest = f"{places[other]:.3f} on {'/'.join(other)}" if other else "no other place fits"
    return f"the cluster score is {score:.3f} there, {rest}{_not_used(avoided)}"


def _not_used(avoided: Mapping[str, str]) -> str:
    return "".join(f"; {node} is not used: {why}" for node, why in sorted(avoided.items()))
