"""The configuration of aggregates and reservations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from ganeti_steward.core.config import kinds
from ganeti_steward.core.json_reader import describe


def table_of(kind: kinds.ValueKind) -> kinds.ValueKind:
    """A section of the file that is one key of another: any names, each value of a kind."""

    def fault(value: Any) -> str:
        if not isinstance(value, dict):
            return f"a section is expected, found {describe(value)}"
        faults = ((name, kind.fault(item)) for name, item in value.items())
        return "; ".join(f"{kinds.shown(name)}: {fault}" for name, fault in faults if fault)

    return kinds.ValueKind(fault, f"table: name = {kind.text}")


#: Name -> a list of names or expressions.
_Lists = Mapping[str, Sequence[str]]

_LISTS: Final = table_of(kinds.REPEATED_NAMES)


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

#: What automatic requests may depend on.
ASK_KINDS: Final = ("os", "hypervisor", "template")


def _requests_fault(value: Any) -> str:
    if isinstance(value, list):
        return kinds.TEXTS.fault(value)
    if isinstance(value, str):
        return kinds.TEXT.fault(value)
    return f"an expression or a list of expressions is expected, found {describe(value)}"


_REQUESTS: Final = table_of(kinds.ValueKind(_requests_fault, "expression, or list of expressions"))


def _ask_fault(value: Any) -> str:
    if not isinstance(value, dict):
        return f"a section is expected, found {describe(value)}"
    for kind, rules in value.items():
        if kind not in ASK_KINDS:
            return f"{kind!a}: no such key (known: {', '.join(ASK_KINDS)})"
        if fault := _REQUESTS.fault(rules):
            return f"{kind}: {fault}"
    return ""


def _date_fault(value: Any) -> str:
    # A date in TOML needs no quotes; whether a text is one is checked by the plugin.
    if isinstance(value, str) or type(value).__name__ == "date":
        return ""
    return f"a date is expected, found {describe(value)}"


class Aggregates(NamedTuple):
    """[aggregates]: what the tags below ``steward:`` can declare, and how they are read.

    Tags and configuration are united.  Names and expressions are checked by the plugin.
    """

    default_forbidden_prefixes: Annotated[
        tuple[str, ...],
        kinds.REPEATED_NAMES,
        "Aggregates with such names accept only instances that request them.",
    ] = ()
    required_prefixes: Annotated[
        tuple[str, ...],
        kinds.REPEATED_NAMES,
        "An instance tag with such a prefix requests the aggregate of that name.",
    ] = ()
    unclaimable: Annotated[
        tuple[str, ...], kinds.REPEATED_NAMES, "Aggregates that no instance may request."
    ] = ()
    combine: Annotated[
        str,
        kinds.one_of("union", "placement"),
        "With union a node also has its group's aggregates; with placement the node alone, or "
        "its group alone, must have all that are requested.",
    ] = "union"
    on_evacuation: Annotated[
        str,
        kinds.one_of("strict", "prefer"),
        "If no node complies, strict makes an evacuation fail; prefer takes the best other node.",
    ] = "strict"
    groups: Annotated[_Lists, _LISTS, 'Aggregates of node groups: "rack1" = ["room1"].'] = _NOTHING
    """name or uuid of a node group -> its aggregates"""
    nodes: Annotated[_Lists, _LISTS, "Aggregates of nodes."] = _NOTHING
    units: Annotated[
        Mapping[str, _Lists], table_of(_LISTS), "Aggregates of units, one table for each node."
    ] = _NOTHING
    """node -> unit -> its aggregates"""
    pools: Annotated[_Lists, _LISTS, "Aggregates of storage pools."] = _NOTHING
    instances: Annotated[
        _Lists, _LISTS, 'Requests of instances: "web1" = ["!in:a,b", "member_of_primary=c"].'
    ] = _NOTHING
    """instance -> what it requests"""
    ask: Annotated[
        Mapping[str, Mapping[str, str | Sequence[str]]],
        kinds.ValueKind(
            _ask_fault, "table: `os`, `hypervisor` or `template` = table: pattern = expression"
        ),
        'Requests of all instances of an OS, hypervisor or disk template: os = {"windows-*" = '
        '"in:license:windows"}; the pattern "" is for unknown ones.',
    ] = _NOTHING
    """kind -> pattern of its value -> what is requested"""
    entitled_tags: Annotated[
        _Lists,
        _LISTS,
        'Aggregates that only instances with such a tag may request: "reservation:acme" = '
        '["owner:acme"]. A final * stands for the same text in both.',
    ] = _NOTHING
    entitled_instances: Annotated[
        _Lists, _LISTS, 'The same by instance names: "reservation:acme" = ["*.acme.example"].'
    ] = _NOTHING
    until: Annotated[
        Mapping[str, Any],
        table_of(kinds.ValueKind(_date_fault, "date")),
        'The last day of aggregates: "reservation:r1" = "2026-12-31". Only shown and warned about.',
    ] = _NOTHING
