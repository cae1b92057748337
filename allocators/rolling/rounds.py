"""The fewest rounds: all nodes of a round are away together.

Nodes that share an instance are never in one round, so this is the colouring of a graph with
further conditions.  Several orders are tried first-fit; then the rounds of the best one are
taken again in other orders, which cannot make them more where a part of a legal round is legal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.rolling.away import Away
from ganeti_steward.allocators.rolling.colours import Graph, again, clique, orders
from ganeti_steward.allocators.rolling.obstacles import NodeObstacle

if TYPE_CHECKING:
    import random

    from ganeti_steward.allocators.rolling.fleet import Fleet

#: Nodes that are tried in rounds, and orders that are tried, at most.
EFFORT: Final = 25_000
_ORDERS: Final = 60


class RoundLimits(NamedTuple):
    """What a round may be."""

    at_once: int = 0
    """nodes that may be away at the same time; 0: any number"""
    keep_n1: bool = False
    """whether the nodes that stay must not newly fail N+1"""


class FoundRounds(NamedTuple):
    """Rounds, and the nodes that are in none."""

    rounds: tuple[Away, ...]
    """the largest first"""
    impossible: tuple[NodeObstacle, ...]


class _Search:
    """Counts the effort of one search."""

    def __init__(self, fleet: Fleet, limits: RoundLimits) -> None:
        self._none, self._limits = Away.none(fleet), limits
        self.partners = fleet.partners
        self.effort = 0

    def alone(self, node: int) -> Away | NodeObstacle:
        return self._none.with_node(node, keep_n1=self._limits.keep_n1)

    def first_fit(self, order: Iterable[int]) -> list[Away]:
        """Each node in the first round that takes it; raises PluginError."""
        rounds: list[Away] = []
        for node in order:
            for at, one in enumerate(rounds):
                if (found := self._with(one, node)) is not None:
                    rounds[at] = found
                    break
            else:
                alone = self.alone(node)
                assert isinstance(alone, Away)
                rounds.append(alone)
        return rounds

    def _with(self, one: Away, node: int) -> Away | None:
        if self._limits.at_once and len(one.nodes) >= self._limits.at_once:
            return None
        if not self.partners[node].isdisjoint(one.nodes):
            return None
        self.effort += 1
        found = one.with_node(node, keep_n1=self._limits.keep_n1)
        return found if isinstance(found, Away) else None


def find_rounds(
    fleet: Fleet,
    nodes: Sequence[int],
    limits: RoundLimits,
    rng: random.Random,
    effort: int = EFFORT,
) -> FoundRounds:
    """As few rounds as are found; raises PluginError.

    ``nodes``: indices of those that are to be away once; ``rng``: for the orders that are tried;
    ``effort``: at most so many times a node is tried in a round once a few orders are tried.
    """
    search = _Search(fleet, limits)
    alone = {node: search.alone(node) for node in nodes}
    impossible = [one for one in alone.values() if isinstance(one, NodeObstacle)]
    possible = [node for node, one in alone.items() if isinstance(one, Away)]
    least = _least(possible, fleet.partners, limits.at_once)
    best: list[Away] | None = None
    for order in orders(possible, fleet.partners, rng):
        found = search.first_fit(order)
        if best is None or len(found) < len(best):
            best = found
    assert best is not None
    for turn in range(_ORDERS):
        if len(best) <= least or search.effort > effort:
            break
        found = search.first_fit(again([[*one.nodes] for one in best], turn, rng))
        best = found if len(found) <= len(best) else best
    best.sort(key=lambda one: (-len(one.nodes), min(one.nodes)))
    return FoundRounds(tuple(best), tuple(impossible))


def _least(nodes: Sequence[int], graph: Graph, at_once: int) -> int:
    """Fewer rounds than these are impossible."""
    return max(clique(nodes, graph), ceil(len(nodes) / at_once) if at_once else 0)
