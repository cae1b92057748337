"""A job of a repair that no record knows: its record was deleted, or is an older one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

#: Parameters of operations that name nodes or instances: one name, or a list of them.
_NODES: Final = (
    "node_name", "nodes", "target_node", "remote_node", "pnode", "snode", "src_node"
)  # fmt: skip
_INSTANCES: Final = ("instance_name", "instances")


class OrphanJob(NamedTuple):
    """What it uses is reserved until it has ended."""

    number: int
    """Ganeti's number of it; 0 while luxid is taking it"""
    incident: str
    """uuid of the incident it was submitted for"""
    submission: str
    """id of the submission it belongs to"""
    nodes: tuple[str, ...]
    """names of the nodes its operations name, sorted"""
    instances: tuple[str, ...]
    """names of the instances its operations name, sorted"""


def named_nodes(operations: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names of the nodes that operations have as parameters, sorted."""
    tagged = [one.get("name") for one in operations if one.get("kind") == "node"]
    return _sorted([*_named(operations, _NODES), *tagged])


def named_instances(operations: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names of the instances that operations have as parameters, sorted."""
    tagged = [one.get("name") for one in operations if one.get("kind") == "instance"]
    return _sorted([*_named(operations, _INSTANCES), *tagged])


def _named(operations: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[Any]:
    values = [one.get(key) for one in operations for key in keys]
    lists = (value if isinstance(value, list) else [value] for value in values)
    return [name for each in lists for name in each]


def _sorted(names: Sequence[Any]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name and isinstance(name, str)}))
