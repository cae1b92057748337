"""The services of a model that tags ``steward:spread`` concern, and how many run in each place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.state.crowding import crowd_cost, full, in_places, one_more

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.spread import Places
    from ganeti_steward.allocators.state.state import State


class Crowds:
    """Numbers of instances by service and place, changed in place as instances move."""

    def __init__(self, state: State, nodes: Ints, demands: Sequence[Demand]) -> None:
        """``nodes``: those of the group; ``demands``: of the instances that may move."""
        counts = state.tag_counts.services
        self._keys = {at: demand.services for at, demand in enumerate(demands) if demand.services}
        keys = sorted({key for mine in self._keys.values() for key in mine})
        self._places = {
            at: places._replace(nodes=places.nodes[nodes])
            for at, places in enumerate(state.frame.spread)
        }
        everywhere = state.frame.spread
        self._numbers = {key: in_places(everywhere[key[0]], counts.get(key, {})) for key in keys}

    def cost(self) -> float:
        """What they cost, with all instances of their services that do not move."""
        return sum(crowd_cost(self._places[key[0]], found) for key, found in self._numbers.items())

    def change(self, instance: int, primary: int, sign: int) -> None:
        """Count an instance that comes to a node or goes."""
        for key in self._keys.get(instance, ()):
            self._numbers[key] = self._numbers[key] + sign * self._places[key[0]].nodes[primary]

    def added(self, instance: int, primary: int) -> Floats | None:
        """nodes: what it adds to the score there; None: nothing anywhere.

        ``primary``: where it is counted now.
        """
        parts = [one_more(*found) for found in self._others(instance, primary)]
        return np.sum(parts, axis=0) if parts else None

    def full(self, instance: int, primary: int) -> Mask | None:
        """nodes: where a hard rule forbids it; None: nowhere."""
        parts = [
            full(places, numbers, primary)
            for places, numbers in self._others(instance, primary)
            if places.rule.hard
        ]
        return np.any(parts, axis=0) if parts else None

    def _others(self, instance: int, primary: int) -> Iterator[tuple[Places, Ints]]:
        """Places and numbers of each of its services without itself."""
        for key in self._keys.get(instance, ()):
            places = self._places[key[0]]
            yield places, self._numbers[key] - places.nodes[primary]
