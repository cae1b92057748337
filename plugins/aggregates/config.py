"""The configuration of aggregates and reservations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from ganeti_steward.core.config.kinds import NAMES, one_of, table_of

#: Name -> a list of names or expressions.
_Lists = Mapping[str, Sequence[str]]

_LISTS: Final = table_of(NAMES)
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Aggregates(NamedTuple):
    """[aggregates]: what the tags below ``steward:`` can declare, and how they are read.

    Tags and configuration are united.  Names and expressions are checked by the plugin.
    """

    default_forbidden_prefixes: Annotated[
        tuple[str, ...],
        NAMES,
        "Aggregates whose names begin so are closed to instances that do not request one.",
    ] = ()
    required_prefixes: Annotated[
        tuple[str, ...],
        NAMES,
        "A tag of an instance that begins with one of these requests the aggregate of that name.",
    ] = ()
    unclaimable: Annotated[tuple[str, ...], NAMES, "Aggregates that no instance may request."] = ()
    combine: Annotated[
        str,
        one_of("union", "placement"),
        "With union a node also has the aggregates of its group; with placement the node or its "
        "group must have all requested aggregates by itself.",
    ] = "union"
    on_evacuation: Annotated[
        str,
        one_of("strict", "prefer"),
        "Where no node complies: with strict an evacuation fails, with prefer it takes the best "
        "other node.",
    ] = "strict"
    groups: Annotated[
        _Lists, _LISTS, 'Node groups: a list of aggregates for each, "rack1" = ["room1"].'
    ] = _NOTHING
    """name or uuid of a node group -> its aggregates"""
    nodes: Annotated[_Lists, _LISTS, "The same for nodes."] = _NOTHING
    units: Annotated[
        Mapping[str, _Lists], table_of(_LISTS), "The same for units, one table for each node."
    ] = _NOTHING
    """node -> unit -> its aggregates"""
    pools: Annotated[_Lists, _LISTS, "The same for storage pools."] = _NOTHING
    instances: Annotated[
        _Lists, _LISTS, 'What instances request: "web1" = ["!in:a,b", "member_of_primary=c"].'
    ] = _NOTHING
    """instance -> what it requests"""
