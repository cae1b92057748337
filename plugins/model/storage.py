"""The storage of a node, and which physical volumes a report names as failing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.model.finding import PHYSICAL_VOLUMES

#: The states of one side of an instance's disks; of several disks the worst one counts.
GOOD: Final = "good"
DEGRADED: Final = "degraded"
UNKNOWN: Final = "unknown"
FAULTY: Final = "faulty"


class PhysicalVolume(NamedTuple):
    """A physical volume, as ``gnt-node list-storage`` shows it."""

    name: str
    """a device, or `MISSING`"""
    free: float
    """MiB"""
    allocatable: bool
    """whether new logical volumes may be made on it"""


class LogicalVolume(NamedTuple):
    """A logical volume, or a part of it."""

    name: str
    """``group/volume``"""
    on: str
    """name of the physical volume"""
    instance: str
    """name of the instance it belongs to; empty for none"""


class NodeStorage(NamedTuple):
    """What LVM has on one node, and the state of the instances' disks there."""

    group: str = ""
    """the volume group of the cluster"""
    physical: tuple[PhysicalVolume, ...] = ()
    logical: tuple[LogicalVolume, ...] = ()
    sides: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """name of an instance of the node -> name of a node -> state of its disks there: good,
    degraded, unknown or faulty"""
    fault: str = ""
    """why nothing of this is known; empty when it is"""


def failing_volumes(original: bytes) -> tuple[str, ...]:
    """The physical volumes a diagnose object names as failing, sorted.

    They count only in an object that requests no repair command: the command comes first, and
    what is left afterwards is another object.
    """
    found: dict[str, Any] = load_json(original)
    return () if found.get("command") else tuple(sorted(set(_named(found.get("details")))))


def _named(details: Any) -> Iterator[str]:
    """Those in details like ``[{"source":.., "details": {"physical_volumes": [..]}}]``."""
    entries = details if isinstance(details, list) else [details]
    for entry in entries:
        inner = entry.get("details", entry) if isinstance(entry, dict) else None
        names = inner.get(PHYSICAL_VOLUMES) if isinstance(inner, dict) else None
        if isinstance(names, list):
            yield from (name for name in names if isinstance(name, str))
