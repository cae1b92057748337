"""What Ganeti does not send: further volume groups, which disks lie there, and suspect nodes.

The maintenance daemon keeps them in a file on the master: figures and suspicions of nodes from
their reports, and the places of disks from Ganeti's configuration.  A command reads the figures by
a job.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import orjson

from ganeti_steward.core import builtins
from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_reader import LIMIT, Range
from ganeti_steward.core.records import NamedTuple
from ganeti_steward.core.safe_files import UnsafeFile, make_directory, read_own

#: Bytes of the file; that of 1000 nodes with 100 groups each has about 4 MB.
_LONGEST: Final = 2**26

#: Seconds a node's clock may be ahead of this one.
_AHEAD: Final = 60

#: Total and free space of one group.
Space = tuple[Annotated[int, Range(0, LIMIT)], Annotated[int, Range(0, LIMIT)]]
"""MiB"""

#: Where one disk lies: its group, and that of its metadata; empty where there are none.
Place = tuple[str, str]


class NodeGroups(NamedTuple):
    """The volume groups of one node."""

    at: int
    """when the figures were read, s since the epoch"""
    groups: Mapping[str, Space]
    """name -> space; the cluster's own group included"""


class Suspicion(NamedTuple):
    """What a node reports to be wrong with it."""

    at: int
    """when it was reported, s since the epoch"""
    why: str
    """a predicate: ``reports suspect: ...``; empty: nothing is wrong"""


class KeptGroups(NamedTuple):
    """What the file holds."""

    cluster: str
    """its name"""
    volume_group: str
    """the cluster's own; empty where it has none"""
    max_age: float
    """seconds for which figures and suspicions of nodes are used"""
    nodes: Mapping[str, NodeGroups]
    """by name, those whose figures are known"""
    disks: Mapping[str, tuple[Place, ...]]
    """name of an instance -> its disks, where one lies outside of the cluster's own group"""
    metadata_group: str = ""
    """where the metadata of new drbd disks lie that name no group; empty: in the cluster's own"""
    suspects: Mapping[str, Suspicion] = {}
    """by name, the nodes with which something is wrong"""

    def current(self, node: str, now: float) -> NodeGroups | None:
        """The groups of a node; None where they are not known, or too old at ``now`` (s)."""
        found = self.nodes.get(node)
        return found if found and self._is_current(found.at, now) else None

    def suspected(self, now: float) -> dict[str, str]:
        """Name of a suspect node -> why; nothing is known of one whose report is too old."""
        found = self.suspects.items()
        return {name: one.why for name, one in found if self._is_current(one.at, now)}

    def _is_current(self, at: int, now: float) -> bool:
        return -_AHEAD <= now - at <= self.max_age


_log = logging.getLogger(__name__)


def read_kept(path: str = builtins.KEPT_GROUPS) -> KeptGroups | None:
    """What is kept; None where nothing is.  Raises StewardError."""
    try:
        return _kept(_content(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        raise StewardError(f"{path} cannot be used: {reason_of(err)}") from None


def write_kept(kept: KeptGroups, path: str = builtins.KEPT_GROUPS) -> None:
    """Put it in the place of what was kept; raises StewardError."""
    from ganeti_steward.core.typed_json import to_json
    from ganeti_steward.core.whole_files import write_file

    try:
        make_directory(os.path.dirname(path))
    except OSError as err:
        raise StewardError(f"{path} cannot be written: {reason_of(err)}") from None
    write_file(path, orjson.dumps(to_json(KeptGroups, kept, ordered=True)))


def _content(path: str) -> Any:
    """The JSON in the file; raises OSError and ValueError."""
    try:
        return orjson.loads(read_own(path, _LONGEST))
    except UnsafeFile as err:
        raise ValueError(err.reason) from None


def _kept(data: Any) -> KeptGroups:
    """Raises ValueError."""
    from ganeti_steward.core.typed_json import from_json

    return from_json(KeptGroups, data)


def completed(
    message: dict[str, Any], now: float, path: str = builtins.KEPT_GROUPS
) -> dict[str, Any]:
    """A parsed message with what is kept of its cluster; ``now``: s since the epoch.

    It is the same object where no node is suspect and all disks lie in the cluster's own group,
    those that the request names included.  What cannot be read is logged and counts as unknown.
    """
    try:
        data = _content(path)
        mine = _is_about(data, message)
        groups = mine and _concerns(data, message)
        kept = _kept(data) if groups or (mine and data.get("suspects")) else None
    except FileNotFoundError:
        return message
    except (OSError, ValueError) as err:
        _log.warning("volume groups and suspect nodes are not known: %s: %s", path, reason_of(err))
        return message
    if kept is None:
        return message
    suspects = kept.suspected(now)
    message = _completed(kept, message, now) if groups else message
    return _with_suspects(message, suspects) if suspects else message


def _with_suspects(message: dict[str, Any], suspects: Mapping[str, str]) -> dict[str, Any]:
    """The message with the nodes that are suspect; the same object where it has none of them."""
    nodes = message.get("nodes")
    if not isinstance(nodes, dict):
        return message
    noted = {
        name: {**nodes[name], "suspect": why}
        for name, why in suspects.items()
        if isinstance(nodes.get(name), dict)
    }
    return {**message, "nodes": nodes | noted} if noted else message


def _is_about(data: Any, message: Mapping[str, Any]) -> bool:
    """Whether it is about the cluster of the message; raises ValueError for what is not ours."""
    if not isinstance(data, dict) or not isinstance(data.get("cluster"), str):
        raise ValueError("it does not name its cluster")
    return bool(data["cluster"] == message.get("cluster_name"))


def _concerns(data: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Whether the message lacks something of volume groups.

    Most do not, so that little is read.
    """
    # What is read live is for options that name a group, too.
    live = "request" not in message
    return (
        live
        or bool(data.get("disks") or data.get("metadata_group"))
        or any(name != data.get("volume_group") for name in _named(message.get("request")))
    )


def _named(request: Any) -> Iterator[str]:
    """The volume groups that a request names for new disks."""
    for body in _objects([request, *_list(request, "instances")]):
        for disk in _objects(_list(body, "disks")):
            yield from (disk[key] for key in ("vg", "metavg") if isinstance(disk.get(key), str))


def _list(body: Any, key: str) -> list[Any]:
    """A member that is a list; empty for anything else, which the reader of messages refuses."""
    found = body.get(key) if isinstance(body, dict) else None
    return found if isinstance(found, list) else []


def _objects(values: list[Any]) -> Iterator[dict[str, Any]]:
    return (one for one in values if isinstance(one, dict))


def _completed(kept: KeptGroups, message: dict[str, Any], now: float) -> dict[str, Any]:
    more: dict[str, Any] = {"volume_group": kept.volume_group}
    nodes, instances = message.get("nodes"), message.get("instances")
    names = _concerned(kept, message["request"]) if "request" in message else None
    if isinstance(nodes, dict):
        found = {name: groups for name in nodes if (groups := kept.current(name, now))}
        more["nodes"] = nodes | {
            name: {**nodes[name], "volume_groups": _others(kept, groups, names)}
            for name, groups in found.items()
            if isinstance(nodes[name], dict)
        }
        if found:
            oldest = min(groups.at for groups in found.values())
            more["volume_groups_age"] = max(0, int(now) - oldest)
    if isinstance(instances, dict):
        more["instances"] = instances | {
            name: _placed(instances[name], places)
            for name, places in kept.disks.items()
            if name in instances
        }
    if kept.metadata_group and (request := message.get("request")):
        more["request"] = _with_metadata(request, kept.metadata_group)
        if batch := _list(request, "instances"):
            items = [_with_metadata(one, kept.metadata_group) for one in batch]
            more["request"] = {**more["request"], "instances": items}
    return {**message, **more}


def _with_metadata(body: Any, group: str) -> Any:
    """A new instance whose drbd disks name the group of their metadata, as Ganeti takes it."""
    disks = _list(body, "disks")
    if not disks or body.get("disk_template") != "drbd":
        return body
    named = [{"metavg": group, **disk} if isinstance(disk, dict) else disk for disk in disks]
    return {**body, "disks": named}


def _concerned(kept: KeptGroups, request: Any) -> set[str]:
    """The groups that a disk or the request needs; that of a node's system mostly is none.

    A live cluster has no request: what a command plans is not known yet.
    """
    used = {name for places in kept.disks.values() for place in places for name in place}
    return used | {*_named(request), kept.metadata_group}


def _others(
    kept: KeptGroups, node: NodeGroups, names: set[str] | None
) -> dict[str, dict[str, int]]:
    """Those other than the cluster's, as a message has them; ``names``: only these."""
    return {
        name: {"total": total, "free": free}
        for name, (total, free) in node.groups.items()
        if name != kept.volume_group and (names is None or name in names)
    }


def _placed(instance: Any, places: tuple[Place, ...]) -> Any:
    """An instance whose disks name their volume groups; those added since then do not."""
    disks = _list(instance, "disks")
    named = [
        {**disk, **{key: name for key, name in zip(("vg", "metavg"), place, strict=True) if name}}
        for disk, place in zip(disks, places, strict=False)
        if isinstance(disk, dict)
    ]
    if not named or len(named) != min(len(disks), len(places)):
        return instance
    return {**instance, "disks": [*named, *disks[len(named) :]]}
