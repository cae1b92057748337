"""Instances whose tags do not go with those of their nodes (allocation 3.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.health.troubles import Item, Trouble
from ganeti_steward.allocators.state.crowding import crowded_places

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import Resident, State


def tag_conflicts(state: State, group: int) -> Iterator[Trouble]:
    """The conflicts in a node group; ``group``: its index."""
    residents = sorted(_residents(state, group), key=lambda one: one.demand.instance.name)
    pairs = [one for one in residents if one.secondary >= 0]
    yield Trouble("location", tuple(_shared_locations(state, pairs)))
    yield Trouble("desired-location", tuple(_elsewhere(state, residents)))
    yield Trouble("shared-location", tuple(_beside_others(state, residents)))
    yield Trouble("migration", tuple(_not_accepted(state, pairs)))
    if state.frame.spread:
        yield Trouble("spread", tuple(_crowded(state, residents)))
        yield Trouble("no-place", tuple(_without_place(state, group)))


def _residents(state: State, group: int) -> Iterator[Resident]:
    for residents in state.residents.values():
        for one in residents:
            if state.frame.group[one.primary] == group:
                yield one


def _locations(state: State, *nodes: int) -> list[str]:
    """The location tags that all of these nodes carry."""
    carried = state.frame.locations[list(nodes)].all(axis=0)
    return [state.frame.location_names[at] for at in np.flatnonzero(carried).tolist()]


def _shared_locations(state: State, pairs: Sequence[Resident]) -> Iterator[Item]:
    for one in pairs:
        if tags := _locations(state, one.primary, one.secondary):
            yield Item(one.demand.instance.name, detail=", ".join(tags))


def _elsewhere(state: State, residents: Sequence[Resident]) -> Iterator[Item]:
    for one in residents:
        missing = one.demand.desired_locations.difference(_locations(state, one.primary))
        if missing:
            (primary,) = state.frame.node_names((one.primary,))
            yield Item(one.demand.instance.name, primary, ", ".join(sorted(missing)))


def _beside_others(state: State, residents: Sequence[Resident]) -> Iterator[Item]:
    """Primaries with the same exclusion tag as another one in the same location."""
    places: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    online = [one for one in residents if state.frame.usable[one.primary]]
    for one in online:
        for place in _locations(state, one.primary):
            for tag in one.demand.exclusion:
                places[tag, place].append(one.demand.instance.name)
    details: defaultdict[str, list[str]] = defaultdict(list)
    for (tag, place), names in sorted(places.items()):
        for name in names if len(names) > 1 else ():
            details[name].append(f"{tag} in {place}")
    for name, found in sorted(details.items()):
        yield Item(name, detail=", ".join(found))


def _not_accepted(state: State, pairs: Sequence[Resident]) -> Iterator[Item]:
    for one in pairs:
        if not state.frame.accepts(one.primary)[one.secondary]:
            (secondary,) = state.frame.node_names((one.secondary,))
            yield Item(one.demand.instance.name, secondary)


def _crowded(state: State, residents: Sequence[Resident]) -> Iterator[Item]:
    """Primaries in a place with too many instances of their service."""
    details: defaultdict[str, list[str]] = defaultdict(list)
    for one in crowded_places(state):
        for resident in residents:
            serves = (one.rule, one.tag) in resident.demand.services
            if serves and resident.primary in one.nodes:
                details[resident.demand.instance.name].append(one.text)
    for name, found in sorted(details.items()):
        yield Item(name, detail="; ".join(found))


def _without_place(state: State, group: int) -> Iterator[Item]:
    """Nodes without a tag that a rule on places looks for."""
    prefixes = sorted({places.rule.prefix for places in state.frame.spread})
    for at in np.flatnonzero(state.frame.group == group).tolist():
        node = state.frame.cluster.nodes[at]
        missing = [one for one in prefixes if not any(tag.startswith(one) for tag in node.tags)]
        if missing and node.vm_capable:
            yield Item(node.name, detail=", ".join(f"{one}..." for one in missing))
