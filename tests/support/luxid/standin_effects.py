"""What Ganeti's operations do to the rows of the stand-in for luxid, and how they fail.

Independent of the product's model on purpose, in Ganeti's words: the daemon reads these errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.plugins.simulation.jobs import JobFailed

if TYPE_CHECKING:
    from live import Ganeti

Row = dict[str, Any]


def _instance(ganeti: Ganeti, op: Row) -> Row:
    name = op["instance_name"]
    found = next((row for row in ganeti.instances if row["name"] == name), None)
    if found is None:
        raise JobFailed(f"Instance '{name}' not known", "unknown_entity")
    return found


def _node(ganeti: Ganeti, name: str) -> Row:
    found = next((row for row in ganeti.nodes if row["name"] == name), None)
    if found is None:
        raise JobFailed(f"Node '{name}' not known", "unknown_entity")
    return found


_MOVED: Final = {"OP_INSTANCE_MIGRATE": "migrated", "OP_INSTANCE_FAILOVER": "failed over"}


def _move(ganeti: Ganeti, op: Row) -> None:
    instance = _instance(ganeti, op)
    template, secondaries, target = (
        instance["disk_template"],
        instance["snodes"],
        op.get("target_node"),
    )
    if template in ("plain", "file"):
        text = f"Instance's disk layout '{template}' does not allow migrations"
        raise JobFailed(text, "wrong_state")
    if secondaries and target not in (None, *secondaries):
        text = (
            f"Instances with disk types {template} cannot be {_MOVED[op['OP_ID']]} to arbitrary "
            "nodes (neither an iallocator nor a target node can be passed)"
        )
        raise JobFailed(text, "wrong_input")
    if not secondaries and target is None:
        raise JobFailed("A target node is needed", "wrong_input")
    node = _node(ganeti, target or secondaries[0])
    _check_usable(node)
    if secondaries:
        instance["snodes"] = [instance["pnode"]]
    instance["pnode"] = node["name"]


def _check_usable(node: Row) -> None:
    name = node["name"]
    if node["offline"]:
        text = f"Can't get data from node {name}: Node is marked offline"
        raise JobFailed(text, "environment_error")
    if node["drained"]:
        raise JobFailed(f"Can't use drained node {name}", "wrong_state")


def _replace(ganeti: Ganeti, op: Row) -> None:
    instance = _instance(ganeti, op)
    node = _node(ganeti, op["remote_node"])
    for word, names in (
        ("the primary", [instance["pnode"]]),
        ("already the secondary", instance["snodes"]),
    ):
        if node["name"] in names:
            text = f"The specified node is {word} node of the instance"
            raise JobFailed(text, "wrong_input")
    _check_usable(node)
    instance["snodes"] = [node["name"]]


_FLAGS: Final = ("master_candidate", "drained", "offline")


def _set_params(ganeti: Ganeti, op: Row) -> list[list[str]]:
    node = _node(ganeti, op["node_name"])
    if node["master"]:
        text = "The master role can be changed only via master-failover"
        raise JobFailed(text, "wrong_input")
    leaves = node["master_candidate"] and bool(op.get("drained") or op.get("offline"))
    if leaves and not op.get("auto_promote") and _candidates(ganeti) <= _pool(ganeti):
        text = (
            "Not enough master candidates, please pass auto promote option to allow promotion "
            "(--auto-promote or RAPI auto_promote=True)"
        )
        raise JobFailed(text, "wrong_state")
    wanted = {flag: op[flag] for flag in _FLAGS if op.get(flag) is not None}
    if any(wanted.values()):
        wanted = dict.fromkeys(_FLAGS, False) | wanted
    changes = [[flag, str(new)] for flag, new in wanted.items() if node[flag] != new]
    node.update(wanted)
    _promote(ganeti)
    return changes


def _candidates(ganeti: Ganeti) -> int:
    return sum(row["master_candidate"] for row in ganeti.nodes)


def _pool(ganeti: Ganeti) -> int:
    usable = sum(not (row["offline"] or row["drained"]) for row in ganeti.nodes)
    return min(int(ganeti.info["candidate_pool_size"]), usable)


def _promote(ganeti: Ganeti) -> None:
    for row in ganeti.nodes:
        if _candidates(ganeti) < _pool(ganeti) and not (row["offline"] or row["drained"]):
            row["master_candidate"] = True


def _tags(ganeti: Ganeti, op: Row) -> list[str]:
    kind, name = op["kind"], op["name"]
    if kind == "cluster":
        holder = ganeti.info
    elif kind == "node":
        holder = _node(ganeti, name)
    else:
        rows = {"instance": ganeti.instances, "nodegroup": ganeti.groups}[kind]
        holder = next(row for row in rows if row["name"] == name)
    tags: list[str] = holder["tags"]
    return tags


def _set_tags(ganeti: Ganeti, op: Row) -> None:
    tags = _tags(ganeti, op)
    tags += [tag for tag in op["tags"] if tag not in tags]


def _remove_tags(ganeti: Ganeti, op: Row) -> None:
    tags = _tags(ganeti, op)
    if missing := [tag for tag in op["tags"] if tag not in tags]:
        names = ", ".join(f"'{tag}'" for tag in missing)
        raise JobFailed(f"Tag(s) {names} not found", "unknown_entity")
    tags[:] = [tag for tag in tags if tag not in op["tags"]]


def _nothing(ganeti: Ganeti, op: Row) -> None:
    pass


EFFECTS: Final[dict[str, Callable[[Ganeti, Row], Any]]] = {
    "OP_INSTANCE_MIGRATE": _move,
    "OP_INSTANCE_FAILOVER": _move,
    "OP_INSTANCE_REPLACE_DISKS": _replace,
    "OP_NODE_SET_PARAMS": _set_params,
    "OP_TAGS_SET": _set_tags,
    "OP_TAGS_DEL": _remove_tags,
    "OP_TEST_DELAY": _nothing,
    "OP_NODE_QUERY_STORAGE": lambda ganeti, op: ganeti.storage_rows(
        op["storage_type"], op["nodes"]
    ),
}
