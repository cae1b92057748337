"""Places that were answered a moment ago, for instances that Ganeti has not recorded yet.

Where many instances are created at once, Ganeti calls the allocator for each with a picture of the
cluster that lacks the others, or has them stopped: Ganeti records a new instance as stopped, and as
running only when its operating system is installed.  Each answer leaves a small file; until a
message has the instance running, or its time is over, it is counted on its nodes as if it were.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from ganeti_steward.core.errors import few, reason_of
from ganeti_steward.core.json_reader import Faults, Section
from ganeti_steward.core.model.cluster_reader import instance_of
from ganeti_steward.core.safe_files import UnsafeFile, make_directory, read_own

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Instance

_log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"(?P<time>\d{20})-\d+\.json")

#: Bytes of one file; a batch of 1000 instances has about 1 MB.
_LONGEST: Final = 2**24

#: Keys of a request's body that are keys of an instance, too.
_KEYS: Final = (
    *("memory", "vcpus", "spindle_use", "disk_space_total", "disks", "disk_template", "tags"),
    *("nics", "os", "hypervisor"),
)

#: Names that a note lists.
_NAMED: Final = 5


def keep(message: Mapping[str, Any], result: Any, folder: str, now: int, pid: int) -> None:
    """Keep the places of a good answer to ``allocate`` or ``multi-allocate``.

    ``now``: ns since the epoch.  A fault is logged.
    """
    request = message["request"]
    bodies = request["instances"] if request["type"] == "multi-allocate" else [request]
    placed = result[0] if request["type"] == "multi-allocate" else [[request["name"], result]]
    by_name = {body["name"]: body for body in bodies}
    content = {
        "cluster": message.get("cluster_name"),
        "instances": {
            name: {**{key: by_name[name].get(key) for key in _KEYS}, "nodes": nodes}
            for name, nodes in placed
        },
    }
    path = os.path.join(folder, f"{now:020d}-{pid}.json")
    try:
        make_directory(folder)
        with open(path + ".new", "xb", opener=_private) as file:
            file.write(orjson.dumps(content))
        os.rename(path + ".new", path)
    except OSError as err:
        _log.warning("the places of this answer are not counted: %s", f"{path}: {reason_of(err)}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def counted(message: dict[str, Any], folder: str, now: int, limit: float) -> dict[str, Any]:
    """The message with the places of the last ``limit`` seconds; itself where there are none.

    ``now``: ns since the epoch.  Files that are older, or from a clock that was ahead, are removed.
    """
    if not all(isinstance(message.get(key), dict) for key in ("nodes", "instances", "request")):
        return message  # its reader says what is wrong
    found = dict[str, Any]()
    for name in _recent(folder, now, limit):
        found.update(_placed(os.path.join(folder, name), message))
    return _with_placed(message, found) if found else message


def _recent(folder: str, now: int, limit: float) -> Iterator[str]:
    """The names of files that still count, the oldest first."""
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            known = _NAME.fullmatch(name.removesuffix(".new"))
            if known and 0 <= now - int(known["time"]) <= limit * 10**9:
                if not name.endswith(".new"):
                    yield name
            elif known:
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def _placed(path: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """The instances of a file that the message lacks or has stopped, without those requested again.

    Those that are stopped are as the message has them, but running.
    """
    try:
        content = orjson.loads(read_own(path, _LONGEST))
    except FileNotFoundError:
        return {}  # another call has removed it
    except (OSError, UnsafeFile, ValueError) as err:
        _log.warning("recent places are not counted: %s", err)
        return {}
    if content["cluster"] != message.get("cluster_name"):
        return {}
    placed: dict[str, Any] = content["instances"]
    recorded = message["instances"]
    if recorded.keys() >= placed.keys() and not any(_is_stopped(recorded[name]) for name in placed):
        # All of them run: whatever becomes of them now, it is in the messages.
        with suppress(OSError):
            os.unlink(path)
        return {}
    requested = _requested(message["request"])
    found = dict[str, Any]()
    for name in (one for one in placed if one not in requested):
        one = recorded.get(name, placed[name])
        waits = name not in recorded or _is_stopped(one)
        if waits and message["nodes"].keys() >= {*one["nodes"]}:
            found[name] = {**one, "admin_state": "up"} if name in recorded else one
    return found


def _is_stopped(instance: object) -> bool:
    """Whether an instance of the message is there and does not run, on nodes of the message."""
    return (
        isinstance(instance, dict)
        and instance.get("admin_state") == "down"
        and isinstance(instance.get("nodes"), list)
    )


def _requested(request: Mapping[str, Any]) -> set[object]:
    """The names of the new instances that a request is for."""
    bodies = request.get("instances")
    more = bodies if isinstance(bodies, list) else []
    return {one.get("name") for one in (request, *more) if isinstance(one, dict)}


def _with_placed(message: Mapping[str, Any], placed: Mapping[str, Any]) -> dict[str, Any]:
    """The message as if these instances were there already, and a note that says so."""
    nodes, recorded = dict(message["nodes"]), message["instances"]
    usual = str(message.get("volume_group") or "")
    for name, one in placed.items():
        instance = instance_of(Section(one, "instance", name, Faults()), name, usual)
        for role, node in enumerate(one["nodes"]):
            if isinstance(nodes[node], dict):
                # Disks that are recorded are in the node's own figures.
                disks = name not in recorded
                nodes[node] = _with_instance(nodes[node], instance, primary=not role, disks=disks)
    there = [name for name in placed if name not in recorded]
    running = [name for name in placed if name in recorded]
    notes = [
        f"counted as {what}: {few(names, _NAMED)}, placed a moment ago"
        for what, names in (("there", there), ("running", running))
        if names
    ]
    return {**message, "nodes": nodes, "instances": {**recorded, **placed}, "notes": notes}


def _with_instance(
    node: dict[str, Any], instance: Instance, *, primary: bool, disks: bool
) -> dict[str, Any]:
    """A node of the message with what an instance takes of its free figures."""
    local = disks and instance.local
    elsewhere = instance.elsewhere if disks else {}
    less = {
        "free_memory": instance.memory if primary else 0,
        "free_disk": instance.disk_space - sum(elsewhere.values()) if local else 0,
        "free_spindles": (instance.spindles or 0) if local else 0,
    }
    figures = {
        key: node[key] - size
        for key, size in less.items()
        if size and isinstance(node.get(key), int | float)
    }
    groups = {
        name: {**group, "free": group["free"] - elsewhere.get(name, 0)}
        for name, group in (node.get("volume_groups") or {}).items()
    }
    return {**node, **figures, **({"volume_groups": groups} if groups else {})}
