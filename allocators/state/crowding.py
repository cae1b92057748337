"""How many instances of a service run in each place, and what one more would mean.

Only states with rules of `allocators.state.spread` have any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.state.spread import Places

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.spread import SpreadRule
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Node


def places_of(rule: SpreadRule, nodes: Sequence[Node]) -> Places:
    """The places of a rule."""
    carried = [
        {tag for tag in node.tags if tag.startswith(rule.prefix)} or {node.name} for node in nodes
    ]
    names = tuple(sorted(frozenset[str]().union(*carried)))
    marks = [[name in mine for name in names] for mine in carried]
    return Places(rule, names, np.array(marks, np.int64).reshape(len(nodes), len(names)))


#: What the first instance too many in a place adds to the score; the next one twice that, and so
#: on, so that the most crowded place is relieved first.
SPREAD_WEIGHT: Final = 2.0


def in_places(places: Places, by_node: Mapping[int, int]) -> Ints:
    """places: number of instances; ``by_node``: the same by node."""
    numbers = np.zeros(len(places.names), np.int64)
    for node, count in by_node.items():
        numbers += count * places.nodes[node]
    return numbers


def one_more(places: Places, numbers: Ints) -> Floats:
    """nodes: what one instance more on it adds to the score; ``numbers``: places."""
    over = np.maximum(numbers + 1 - places.rule.most, 0).astype(np.float64)
    added: Floats = SPREAD_WEIGHT * (places.nodes @ over)
    return added


def crowd_cost(places: Places, numbers: Ints) -> float:
    """What instances beyond the most in each place add to the score."""
    over = np.maximum(numbers - places.rule.most, 0)
    return SPREAD_WEIGHT * float((over * (over + 1) // 2).sum())


def full(places: Places, numbers: Ints, source: int = -1) -> Mask:
    """nodes: in a place that has the most instances already, or more.

    ``source``: the node that the instance leaves; within its places it changes nothing.
    """
    at_most = numbers >= places.rule.most
    if source >= 0:
        at_most = at_most & (places.nodes[source] == 0)
    mask: Mask = (places.nodes @ at_most) > 0
    return mask


def added_cost(state: State, demand: Demand) -> Floats | float:
    """nodes: what the instance as their primary adds to `total_cost`."""
    return sum(
        (one_more(places, numbers) for _, places, numbers in crowds(state, demand)), start=0.0
    )


def total_cost(state: State, nodes: Mask) -> float:
    """What crowded places add to the score, as far as these nodes have a part in it."""
    total = 0.0
    for (at, _), by_node in state.tag_counts.services.items():
        places = state.frame.spread[at]
        outside = {node: count for node, count in by_node.items() if not nodes[node]}
        total += crowd_cost(places, in_places(places, by_node))
        total -= crowd_cost(places, in_places(places, outside))
    return total


def crowds(state: State, demand: Demand) -> Iterator[tuple[str, Places, Ints]]:
    """(tag, places, number of instances in each) of the services of an instance."""
    for at, tag in demand.services:
        places = state.frame.spread[at]
        yield tag, places, in_places(places, state.tag_counts.services.get((at, tag), {}))


class Crowded(NamedTuple):
    """A place with more instances of a service than a rule allows."""

    rule: int
    """index of the rule in `Frame.spread`"""
    tag: str
    """of the service"""
    nodes: frozenset[int]
    """those in the place"""
    text: str
    """how many instances it has, and how many it may have"""


def crowded_places(state: State) -> Iterator[Crowded]:
    """All of them, by rule, service and place."""
    for (at, tag), by_node in sorted(state.tag_counts.services.items()):
        places = state.frame.spread[at]
        rule, numbers = places.rule, in_places(places, by_node)
        for place in np.flatnonzero(numbers > rule.most).tolist():
            text = f"{tag} has {numbers[place]} in {places.names[place]}, at most {rule.most}"
            nodes = frozenset(np.flatnonzero(places.nodes[:, place]).tolist())
            yield Crowded(at, tag, nodes, f"{text} (hard)" if rule.hard else text)
