"""Whether the configuration of all nodes is that of this one: ``check-config --all-nodes``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.core.commands.node_files import NodeFile, other_nodes, read_everywhere
from ganeti_steward.core.ganeti.this_node import DATA
from ganeti_steward.core.units import counted

#: Keys that are named of each node.
_SHOWN: Final = 5
#: Characters of a value.
_LONGEST: Final = 60


def print_comparison(path: str, raw: bytes | None, data: str = DATA) -> bool:
    """Print a line for each node whose values differ; whether all could be read and agree.

    ``raw``: this node's file, None without one; ``data``: Ganeti's directory.  An offline node is
    named and does not count.  Raises StewardError.
    """
    nodes, same = other_nodes(data), 0
    for found in read_everywhere(path, nodes.online, data):
        fault = _fault(found, raw)
        same += not fault
        if fault:
            print(f"{found.node}: {fault}")
    for name in nodes.offline:
        print(f"{name}: not compared, the node is offline")
    print(f"The same configuration: {same} of {counted(len(nodes.online), 'other node')}.")
    if same < len(nodes.online):
        print(f"gnt-cluster copyfile {path} copies the file of this node to all others.")
    return same == len(nodes.online)


def _fault(found: NodeFile, raw: bytes | None) -> str:
    if found.fault:
        return f"not compared: {found.fault}"
    if found.content == raw:
        return ""
    if found.content is None:
        return "there is no such file"
    if raw is None:
        return "has a file, and this node has none"
    try:
        here, there = (_values(tomllib.loads(text.decode())) for text in (raw, found.content))
    except (ValueError, RecursionError):
        return "the file is another one, and one of the two is not valid TOML"
    keys = [key for key in sorted(here | there) if here.get(key) != there.get(key)]
    texts = [f"{key} is {_shown(there, key)}, here {_shown(here, key)}" for key in keys[:_SHOWN]]
    more = [f"and {len(keys) - _SHOWN} more"] if len(keys) > _SHOWN else []
    return "; ".join([*texts, *more])


def _values(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Every value with its whole path."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _values(value, f"{path}{key}.")
        else:
            found[f"{path}{key}"] = value
    return found


def _shown(values: Mapping[str, Any], key: str) -> str:
    if key not in values:
        return "not set"
    text = json.dumps(values[key], ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
