"""Keeps for the allocators what Ganeti does not send: volume groups, disks there, suspect nodes.

Figures and suspicions of nodes come from their reports.  Where disks lie is read in Ganeti's
configuration on the master: no query of luxid's names the volume group of a disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from ganeti_steward.allocators.state.volume_groups import (
    KeptGroups,
    NodeGroups,
    Place,
    Suspicion,
    read_kept,
    write_kept,
)
from ganeti_steward.core import builtins
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.this_node import DATA
from ganeti_steward.core.process.supervisor import (
    Limits,
    result_of,
    run,
    supervisor_program,
    write_result,
)
from ganeti_steward.core.safe_files import read_regular
from ganeti_steward.core.service.disk_timeout import CallDisk, without_timeout
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.plugins.model.world import Reported, World

#: Ganeti's configuration, in its directory.
_FILE: Final = "config.data"

#: Bytes of it; that of 10,000 instances has about 50 MB.
_LONGEST: Final = 2**28

#: What the process that reads it may take.
_LIMITS: Final = Limits(30, 2**26)

#: Seconds between two readings of it, while jobs change it all the time.
_READ_EVERY: Final = 60

#: Templates whose disks are logical volumes; data and metadata of DRBD are two more of them.
_PLAIN: Final = "plain"
_DRBD: Final = "drbd"


class Places(NamedTuple):
    """What Ganeti's configuration says."""

    cluster: str
    """its name"""
    volume_group: str
    """the cluster's own; empty where it has none"""
    disks: Mapping[str, tuple[Place, ...]]
    """see `KeptGroups`"""
    metadata_group: str = ""
    """that of `KeptGroups`; a node group with a value of its own is not taken into account"""


def read_places(data: str = DATA) -> Places:
    """Read the configuration in Ganeti's directory; raises OSError, StewardError."""
    path = os.path.join(data, _FILE)
    try:
        return places(orjson.loads(read_regular(path, _LONGEST)))
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        fault = f"{type(err).__name__}: {err}"
        raise StewardError(f"{path} is not what Ganeti 3 writes ({fault})") from None


def places(configuration: Any) -> Places:
    """Where the disks lie by a parsed configuration; raises KeyError, TypeError and the like.

    A disk in another form, as another version of Ganeti may write it, has no known place.
    """
    cluster, disks = configuration["cluster"], configuration["disks"]
    usual = cluster.get("volume_group_name") or ""
    found = {
        instance.get("name") or uuid: tuple(_place(disks.get(one)) for one in instance["disks"])
        for uuid, instance in configuration["instances"].items()
    }
    elsewhere = {
        name: placed
        for name, placed in found.items()
        if any(group not in (usual, "") for place in placed for group in place)
    }
    metadata = ((cluster.get("diskparams") or {}).get(_DRBD) or {}).get("metavg") or usual
    return Places(cluster["cluster_name"], usual, elsewhere, "" if metadata == usual else metadata)


def _place(disk: Any) -> Place:
    try:
        if disk["dev_type"] == _PLAIN:
            return _group(disk), ""
        data, metadata = disk["children"] if disk["dev_type"] == _DRBD else ("", "")
        return _group(data), _group(metadata)
    except (IndexError, KeyError, TypeError, ValueError):
        return "", ""


def _group(volume: Any) -> str:
    """The volume group of a logical volume; empty for none."""
    return str(volume["logical_id"][0]) if volume else ""


class ReadPlaces(NamedTuple):
    """A worker that reads the configuration: a large one would hold up all threads."""

    data: str

    def __call__(self, output: int) -> None:
        """Write what it says."""
        write_result(lambda: orjson.dumps(to_json(Places, read_places(self.data))), output)


def read_apart(data: str) -> Places:
    """Read it in a process of its own; raises OSError, StewardError."""
    worker: Any = ReadPlaces(data)
    try:
        return from_json(
            Places, orjson.loads(result_of(run(worker, _LIMITS, start=supervisor_program)))
        )
    except ValueError as err:
        raise StewardError(f"{os.path.join(data, _FILE)} cannot be read: {err}") from None


def kept_before(path: str) -> KeptGroups | None:
    """What the file holds; None also for one that cannot be used, which is written again."""
    try:
        return read_kept(path)
    except StewardError:
        return None


def kept_with(
    before: KeptGroups | None,
    found: Places,
    read: Mapping[str, NodeGroups],
    nodes: Collection[str],
    max_age: float,
    reported: Mapping[str, Suspicion] = MappingProxyType({}),
) -> KeptGroups:
    """Choose what the file keeps: the newest figures and suspicions of each node.

    ``read``: the further ones; ``nodes``: the names of those there are; ``max_age``: s;
    ``reported``: by name, those with which nothing is wrong included.
    """
    mine = before if before and before.cluster == found.cluster else None
    newest = _newest(nodes, mine.nodes if mine else {}, read)
    suspects = _newest(nodes, mine.suspects if mine else {}, reported)
    return KeptGroups(
        found.cluster,
        found.volume_group,
        max_age,
        newest,
        found.disks,
        found.metadata_group,
        {name: one for name, one in suspects.items() if one.why},
    )


_Dated = TypeVar("_Dated", NodeGroups, Suspicion)


def _newest(names: Iterable[str], *known: Mapping[str, _Dated]) -> dict[str, _Dated]:
    """What was found last, by name."""
    given = {name: [each[name] for each in known if name in each] for name in names}
    return {
        name: max(reversed(each), key=lambda one: one.at) for name, each in given.items() if each
    }


class GroupKeeper:
    """Writes the file after a round, where that says more than the file."""

    def __init__(
        self,
        max_age: Callable[[], float],
        call_disk: CallDisk = without_timeout,
        *,
        data: str = DATA,
        path: str = builtins.KEPT_GROUPS,
        read: Callable[[str], Places] = read_apart,
    ) -> None:
        """``max_age``: see `KeptGroups`; ``call_disk``: reads and writes files.

        ``data``: Ganeti's directory; ``read``: reads the configuration there.
        """
        self._max_age, self._call_disk = max_age, call_disk
        self._data, self._path, self._read = data, path, read
        self._seen: tuple[int, int, int] | None = None
        """which file was read last"""
        self._read_at = 0
        """when, ns since the epoch"""
        self._places: Places | None = None

    def __call__(self, world: World) -> None:
        """Keep what is known by now; raises OSError, StewardError."""
        found = self._current_places(world.now)
        if found is None:
            return
        before = self._call_disk(partial(kept_before, self._path))
        nodes, age = world.cluster.node_index, self._max_age()
        now = kept_with(before, found, dict(_reported(world)), nodes, age, suspicions(world))
        if _is_due(before, now):
            self._call_disk(partial(write_kept, now, self._path))

    def _current_places(self, now: int) -> Places | None:
        """By the configuration of now, or of a minute ago; None where there is none.

        ``now``: ns since the epoch.
        """
        try:
            status = self._call_disk(partial(os.stat, os.path.join(self._data, _FILE)))
        except FileNotFoundError:
            return None
        seen = (status.st_ino, status.st_size, status.st_mtime_ns)
        if seen != self._seen and abs(now - self._read_at) >= _READ_EVERY * 10**9:
            self._places = self._read(self._data)
            self._seen, self._read_at = seen, now
        return self._places


def _reported(world: World) -> Iterator[tuple[str, NodeGroups]]:
    """The names of nodes, and their groups by their last reports."""
    for uuid, seen in world.observations.items():
        node = world.nodes.get(uuid)
        if node and isinstance(seen, Reported) and seen.volume_groups is not None:
            yield node.name, NodeGroups(seen.at // 10**9, seen.volume_groups)


def suspicions(world: World) -> dict[str, Suspicion]:
    """What is wrong with each node that has reported, by name: suspect, or something worse."""
    return {
        world.nodes[uuid].name: Suspicion(seen.at // 10**9, seen.suspicion)
        for uuid, seen in world.observations.items()
        if isinstance(seen, Reported) and uuid in world.nodes
    }


def _is_due(before: KeptGroups | None, now: KeptGroups) -> bool:
    """Whether allocators would know more by writing it: newer figures alone are not urgent."""
    if before is None:
        groups = {name for node in now.nodes.values() for name in node.groups}
        elsewhere = now.disks or now.metadata_group or groups - {now.volume_group}
        return bool(now.suspects or (now.volume_group and elsewhere))
    if _undated(before) != _undated(now):
        return True
    ages = [now.nodes[name].at - old.at for name, old in before.nodes.items()]
    ages += [now.suspects[name].at - old.at for name, old in before.suspects.items()]
    return any(age > now.max_age / 3 for age in ages)


def _undated(kept: KeptGroups) -> KeptGroups:
    """The same without times."""
    return kept._replace(
        nodes={name: one._replace(at=0) for name, one in kept.nodes.items()},
        suspects={name: one._replace(at=0) for name, one in kept.suspects.items()},
    )
