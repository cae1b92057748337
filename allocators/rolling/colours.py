"""Orders of the nodes of a graph whose first-fit colours are few.

Neighbours have different colours; here they are nodes that share an instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

Graph = Sequence[frozenset[int]]

#: So many times a node is given a colour, at most, when orders are tried.
_EFFORT: Final = 300_000
_TURNS: Final = 2_000


def clique(nodes: Sequence[int], graph: Graph) -> int:
    """The size of a set of nodes that are all neighbours: fewer colours are impossible."""
    found: set[int] = set()
    for node in sorted(nodes, key=lambda one: (-len(graph[one]), one)):
        if found <= graph[node]:
            found.add(node)
    return len(found)


def orders(nodes: Sequence[int], graph: Graph, rng: random.Random) -> Iterator[list[int]]:
    """A few orders; the last one is the best that was found by trying many."""
    first = [
        list(nodes),
        sorted(nodes, key=lambda one: (-len(graph[one]), one)),
        by_saturation(nodes, graph),
    ]
    yield from first
    best = min((first_fit(one, graph) for one in first), key=len)
    least = clique(nodes, graph)
    for turn in range(min(_TURNS, _EFFORT // max(1, len(nodes)))):
        if len(best) <= least:
            break
        found = first_fit(again(best, turn, rng), graph)
        best = found if len(found) <= len(best) else best
    yield [node for part in best for node in part]


def first_fit(order: Sequence[int], graph: Graph) -> list[list[int]]:
    """The nodes of each colour, when each gets the first that no neighbour has."""
    parts: list[list[int]] = []
    for node in order:
        for part in parts:
            if graph[node].isdisjoint(part):
                part.append(node)
                break
        else:
            parts.append([node])
    return parts


def by_saturation(nodes: Sequence[int], graph: Graph) -> list[int]:
    """DSATUR: next is the node to which most colours are closed."""
    wanted, order = set(nodes), list[int]()
    closed: dict[int, set[int]] = {node: set() for node in nodes}
    while wanted:
        node = max(wanted, key=lambda one: (len(closed[one]), len(graph[one]), -one))
        colour = next(c for c in range(len(nodes)) if c not in closed[node])
        for other in graph[node] & wanted:
            closed[other].add(colour)
        wanted.remove(node)
        order.append(node)
    return order


def again(parts: Sequence[Sequence[int]], turn: int, rng: random.Random) -> list[int]:
    """The nodes of one colour after the other, the colours in another order.

    First-fit in such an order never needs more colours than there are parts.
    """
    mixed = [sorted(part) for part in parts]
    if turn % 3 == 0:
        mixed.reverse()
    elif turn % 3 == 1:
        mixed.sort(key=len, reverse=turn % 2 == 0)
    else:
        rng.shuffle(mixed)
    for part in mixed:
        rng.shuffle(part)
    return [node for part in mixed for node in part]
