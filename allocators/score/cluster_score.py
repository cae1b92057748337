"""The score of the whole cluster after an answer of any allocator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state.load import load

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster, Instance


def score_after(
    cluster: Cluster,
    placed: Iterable[tuple[Instance, Sequence[str]]],
    template: str | None,
    kvm_memory: int,
) -> float:
    """The score with these instances on these nodes (primary first), all others as they are.

    ``template`` and ``kvm_memory`` are those of `load`.
    """
    state = state_after(load(cluster, template, kvm_memory), placed)
    return Scorer(state, np.ones(state.frame.size, np.bool_)).score


def state_after(state: State, placed: Iterable[tuple[Instance, Sequence[str]]]) -> State:
    """The state with these instances on these nodes (primary first), all others as they are."""
    cluster, placed = state.frame.cluster, list(placed)
    # All leave before the first arrives, so that the order does not matter.
    for instance, _ in placed:
        if instance.name in cluster.instance_index:
            state = state.removed(state.resident(instance.name))
    for instance, nodes in placed:
        demand = state.frame.tag_rules.demand(instance._replace(nodes=()))
        primary, *rest = (cluster.node_index[node] for node in nodes)
        state = state.placed(demand, primary, *rest)
    return state
