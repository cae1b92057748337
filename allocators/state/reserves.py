"""How full nodes may be: reserves of nodes and node groups, and overcommitment of memory.

Reserves are tags below ``steward:reserve:`` of a node, its node group or the cluster, else the
section ``[reserve]`` of the configuration, which counts as tags that the cluster does not have.
The most specific place wins, for each key by itself.  The memory ratio is a tag
``steward:memory-ratio:`` of a node group or the cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.frame import Reserves
from ganeti_steward.allocators.state.sizes import parse_size
from ganeti_steward.core.config.kinds import ValueKind, shown, whole
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.needed import RATIO_PREFIX, RESERVE_PREFIX, ROOM_PREFIXES
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints
    from ganeti_steward.allocators.state.frame import Frame
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Cluster, Node

MEMORY: Final = "memory"
DISK: Final = "disk"
VOLUME_GROUP: Final = "volume-group:"
HOSTS: Final = "hosts"
RATIO: Final = "memory-ratio"

_RATIO: Final = re.compile(
    r"(?P<running>[0-9]{1,3}(\.[0-9]+)?)(:n1:(?P<failed>[0-9]{1,3}(\.[0-9]+)?))?", re.ASCII
)
#: The largest ratio.
_MOST: Final = 100

_SHARE: Final = re.compile(r"(?P<part>0(\.[0-9]+)?)|(?P<percent>[0-9]{1,2}(\.[0-9]+)?)%", re.ASCII)
_FORMS: Final = "an amount such as 4g, or a share such as 5% or 0.05, is expected"


class Amount(NamedTuple):
    """How much stays free: a size, or a share of the whole."""

    size: int = 0
    """MiB"""
    share: float = 0.0

    def of(self, whole: float) -> int:
        """MiB of a whole in MiB; rounded up."""
        return self.size + math.ceil(self.share * whole)


#: What one place says: key -> its value, of ``hosts`` a number of nodes, else an amount or ratio.
Values = Mapping[str, "Amount | int | Ratio"]


def parse_amount(text: str) -> Amount:
    """``4g``, ``5%`` or ``0.05``; a number below 1 is a share.  Raises StewardError."""
    share = _SHARE.fullmatch(text.strip())
    if share:
        part, percent = share["part"], share["percent"]
        return Amount(share=float(part) if part else float(percent) / 100)
    try:
        return Amount(parse_size(text))
    except StewardError:
        raise StewardError(f"{_FORMS}, found {quoted(text)}") from None


# -- the configuration


def _amount_fault(value: Any) -> str:
    if not isinstance(value, str):
        return f"{_FORMS}, found {describe(value)}"
    try:
        parse_amount(value or "0")
    except StewardError as err:
        return str(err)
    return ""


def _table_fault(value: Any) -> str:
    if not isinstance(value, dict):
        return f"a section is expected, found {describe(value)}"
    faults = ((name, _amount_fault(amount)) for name, amount in value.items())
    return "; ".join(f"{shown(name)}: {fault}" for name, fault in faults if fault)


_AMOUNT: Final = ValueKind(_amount_fault, "amount (`4g`), or share (`5%`)")


class Reserve(NamedTuple):
    """[reserve]: what stays free on each node when instances are placed or copied there.

    Tags of cluster, node groups and nodes override it.
    """

    memory: Annotated[
        str, _AMOUNT, "Memory to leave unallocated on each node; a share is of all its memory."
    ] = ""
    disk: Annotated[
        str,
        _AMOUNT,
        "Disk space to leave free in each volume group of each node.",
    ] = ""
    volume_groups: Annotated[
        Mapping[str, str],
        ValueKind(_table_fault, f"table: name = {_AMOUNT.text}"),
        'The same for some volume groups: { ssd = "20g" }.',
    ] = MappingProxyType({})
    hosts: Annotated[
        int,
        whole(0, 1000),
        "New instances leave as much memory of each node group unallocated as this many of its "
        "largest nodes have for instances.",
    ] = 0


def _tags_of(section: Reserve) -> Iterator[tuple[str, str]]:
    """Key and value of each tag that says the same."""
    amounts = {MEMORY: section.memory, DISK: section.disk}
    amounts |= {f"{VOLUME_GROUP}{name}": text for name, text in section.volume_groups.items()}
    yield from ((key, text) for key, text in amounts.items() if text)
    if section.hosts:
        yield HOSTS, str(section.hosts)


# -- tags


class Ratio(NamedTuple):
    """What instances may have of the memory for instances: 1 is all of it."""

    running: float
    failed: float
    """the same after the failure of a node"""


def _read_ratio(text: str) -> Ratio:
    """``1.5``, or ``1.5:n1:2``; raises StewardError."""
    found = _RATIO.fullmatch(text)
    if found:
        ratio = Ratio(float(found["running"]), float(found["failed"] or found["running"]))
        if 1 <= ratio.running <= ratio.failed <= _MOST:
            return ratio
    forms = f"a ratio from 1 to {_MOST} such as 1.5, or 1.5:n1:2 with a second one that is larger"
    raise StewardError(f"{forms}, is expected, found {quoted(text)}")


@lru_cache(maxsize=4096)
def _read_tag(tag: str, *, node: bool) -> tuple[str, Amount | int | Ratio]:
    """Key and value of a tag, ``node``: of a node; raises StewardError."""
    if tag.startswith(RATIO_PREFIX):
        if node:
            raise StewardError("memory ratios are for node groups and the cluster, not for a node")
        return RATIO, _read_ratio(tag.removeprefix(RATIO_PREFIX))
    key, _, text = tag.removeprefix(RESERVE_PREFIX).rpartition(":")
    if key == HOSTS and not node:
        if not (text.isascii() and text.isdigit() and len(text) < 5):
            raise StewardError(f"a whole number of nodes is expected, found {quoted(text)}")
        return key, int(text)
    if key in (MEMORY, DISK) or (key.startswith(VOLUME_GROUP) and key != VOLUME_GROUP):
        return key, parse_amount(text)
    if key == HOSTS:
        raise StewardError("hosts are kept free in node groups, not on a node")
    known = "memory:4g, disk:0.1, volume-group:NAME:20g" + ("" if node else ", hosts:1")
    raise StewardError(f"this is not a reserve (known behind {RESERVE_PREFIX}: {known})")


class TagFault(NamedTuple):
    """A tag that means nothing."""

    name: str
    """what it is on: ``node node1``, ``node group rack1`` or ``the cluster``"""
    tag: str
    text: str

    @property
    def sentence(self) -> str:
        """All of it."""
        return f"{self.name}: tag {self.tag!a} is ignored: {self.text}"


def _values(tags: Iterable[str], *, node: bool = False) -> dict[str, Any]:
    """What the tags of one place say; of several tags of a key the one that allows least."""
    found: dict[str, Any] = {}
    for tag in tags:
        if tag.startswith(ROOM_PREFIXES):
            try:
                key, value = _read_tag(tag, node=node)
            except StewardError:
                continue
            # All values of a key are of one type.
            stricter = min if key == RATIO else max
            found[key] = stricter(value, found.get(key, value))
    return found


def tag_faults(cluster: Cluster) -> list[TagFault]:
    """All tags of reserves, and of memory ratios, that cannot be read."""
    places = [("the cluster", cluster.tags, False)]
    places += [(f"node group {group.name}", group.tags, False) for group in cluster.groups]
    places += [(f"node {node.name}", node.tags, True) for node in cluster.nodes]
    faults = []
    for name, tags, node in places:
        for tag in tags:
            if tag.startswith(ROOM_PREFIXES):
                try:
                    _read_tag(tag, node=node)
                except StewardError as err:
                    faults.append(TagFault(name, tag, str(err)))
    return faults


def reserved(cluster: Cluster, section: Reserve | None) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster with the configured reserves as tags, and notes on tags that mean nothing."""
    notes = tuple(fault.sentence for fault in tag_faults(cluster))
    own = _values(cluster.tags)
    more = [
        f"{RESERVE_PREFIX}{key}:{text}"
        for key, text in (_tags_of(section) if section else ())
        if key not in own
    ]
    return (cluster.replace(tags=(*cluster.tags, *more)) if more else cluster), notes


# -- figures


def host_room(state: State) -> Ints:
    """node groups: MiB that new instances may still take; without end where none is kept."""
    frame, reserves = state.frame, state.frame.reserves
    assert reserves is not None
    free = np.where(frame.usable, state.now[quantity.UNALLOCATED], 0)
    unallocated = np.bincount(frame.group, free, len(reserves.hosts)).astype(np.int64)
    kept = np.array(reserves.hosts) > 0
    return np.where(kept, unallocated - reserves.host_memory, quantity.UNKNOWN)


def read_reserves(frame: Frame, room: Ints) -> Reserves:
    """The reserves of a cluster; ``room``: nodes: MiB of memory for instances, used or not."""
    cluster, nodes = frame.cluster, frame.cluster.nodes
    whole = _values(cluster.tags)
    groups = [_values(group.tags) for group in cluster.groups]
    kept = np.zeros((len(frame.wholes), frame.size), np.int64)
    for at, node in enumerate(nodes):
        places = (_values(node.tags, node=True), groups[frame.group[at]], whole)
        kept[[quantity.UNALLOCATED, quantity.MEMORY_F], at] = _kept(
            places, node.total_memory, MEMORY
        )
        usual = [f"{VOLUME_GROUP}{cluster.volume_group}"] if cluster.volume_group else []
        kept[[quantity.DISK, quantity.DISK_F], at] = _kept(places, node.total_disk, *usual, DISK)
        for pool, name in enumerate(frame.pools):
            size = _pool_size(node, name)
            rows = [*quantity.pool_rows(pool)]
            kept[rows, at] = _kept(places, size, f"{VOLUME_GROUP}{name}", DISK)
    ratios = [_first((own, whole), RATIO) or Ratio(1.0, 1.0) for own in groups]
    each = np.array(ratios).reshape(len(groups), 2)[frame.group] if groups else np.ones((0, 2))
    room = np.maximum(room, 0)
    beyond = np.floor((each[:, 1] - 1) * room).astype(np.int64)
    for_n1 = beyond - np.floor((each[:, 0] - 1) * room).astype(np.int64)
    hosts = tuple(int(_first((own, whole), HOSTS) or 0) for own in groups)
    host_memory = np.zeros(len(groups), np.int64)
    for group, number in enumerate(hosts):
        mine = np.sort((room + beyond)[frame.usable & (frame.group == group)])[::-1]
        host_memory[group] = mine[:number].sum()
    return Reserves(kept, hosts, host_memory, beyond, for_n1)


def _pool_size(node: Node, name: str) -> int:
    group = (node.volume_groups or {}).get(name)
    return group.total if group else 0


def _first(places: Iterable[Values], *keys: str) -> Any:
    """The value at the most specific place that has one of the keys, the first key first."""
    return next((place[key] for place in places for key in keys if key in place), None)


def _kept(places: Iterable[Values], whole: float, *keys: str) -> int:
    amount = _first(places, *keys)
    return amount.of(whole) if amount else 0
