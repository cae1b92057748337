"""Pairs of nodes whose tags do not go together: location and migration tags (allocation 3.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ganeti_steward.allocators.health.troubles import Item, Trouble

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import Resident, State


def tag_conflicts(state: State, group: int) -> Iterator[Trouble]:
    """The conflicts between primaries and secondaries of a node group; ``group``: its index."""
    pairs = sorted(_pairs(state, group), key=lambda one: one.demand.instance.name)
    yield Trouble("location", tuple(_shared_locations(state, pairs)))
    yield Trouble("migration", tuple(_not_accepted(state, pairs)))


def _pairs(state: State, group: int) -> Iterator[Resident]:
    for residents in state.residents.values():
        for one in residents:
            if one.secondary >= 0 and state.frame.group[one.primary] == group:
                yield one


def _shared_locations(state: State, pairs: list[Resident]) -> Iterator[Item]:
    locations, names = state.frame.locations, state.frame.location_names
    for one in pairs:
        shared = locations[one.primary] & locations[one.secondary]
        if shared.any():
            tags = [name for name, both in zip(names, shared.tolist(), strict=True) if both]
            yield Item(one.demand.instance.name, detail=", ".join(tags))


def _not_accepted(state: State, pairs: list[Resident]) -> Iterator[Item]:
    for one in pairs:
        if not state.frame.accepts(one.primary)[one.secondary]:
            (secondary,) = state.frame.node_names((one.secondary,))
            yield Item(one.demand.instance.name, secondary)
