"""CPU load that node agents report, as the maintenance daemon keeps it on the master."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Annotated, Final

import orjson

from ganeti_steward.allocators.loads.load_reports import NoLoads, nodes_to_query, with_node_loads
from ganeti_steward.core import builtins
from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.json_reader import Range, quoted
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.records import NamedTuple
from ganeti_steward.core.safe_files import UnsafeFile, make_directory, read_own

#: Beside what is kept of volume groups; only commands read it.
KEPT: Final = os.path.join(os.path.dirname(builtins.KEPT_GROUPS), "loads.json")

#: Bytes of the file; that of 1000 nodes has about 0.1 MB.
_LONGEST: Final = 2**24

#: ns that a node's clock may be ahead of this one.
_AHEAD: Final = 60 * 10**9


class NodeLoad(NamedTuple):
    """How busy a node was, by its last report; None: not known."""

    at: int
    """when the averages end, ns since the epoch"""
    seconds: Annotated[int, Range(1, 86400)]
    """what the averages cover"""
    cpus: Annotated[int, Range(1, 2**16)]
    """CPUs that are online"""
    cpu: float | None = None
    """share of all CPUs, 0 to 1"""
    memory: float | None = None
    """share of the memory in use, 0 to 1"""
    disk: float | None = None
    """share of the time in which the busiest disk was busy, 0 to 1"""

    @property
    def is_possible(self) -> bool:
        """Whether all that is known is a share."""
        return all(one is None or 0 <= one <= 1 for one in (self.cpu, self.memory, self.disk))


class KeptLoads(NamedTuple):
    """What the file holds."""

    cluster: str
    """its name"""
    max_age: float
    """seconds for which figures of nodes are used"""
    nodes: Mapping[str, NodeLoad]
    """by name, those whose figures are known"""


def read_loads(path: str = KEPT) -> KeptLoads | None:
    """What is kept; None where nothing is.  Raises StewardError."""
    from ganeti_steward.core.typed_json import from_json

    try:
        kept = from_json(KeptLoads, orjson.loads(read_own(path, _LONGEST)))
        if all(load.is_possible for load in kept.nodes.values()):
            return kept
        raise ValueError("a share in it is not from 0 to 1")
    except FileNotFoundError:
        return None
    except UnsafeFile as err:
        raise StewardError(f"{path} cannot be used: {err.reason}") from None
    except (OSError, ValueError) as err:
        raise StewardError(f"{path} cannot be used: {reason_of(err)}") from None


def write_loads(kept: KeptLoads, path: str = KEPT) -> None:
    """Put it in the place of what was kept; raises StewardError."""
    from ganeti_steward.core.typed_json import to_json
    from ganeti_steward.core.whole_files import write_file

    try:
        make_directory(os.path.dirname(path))
    except OSError as err:
        raise StewardError(f"{path} cannot be written: {reason_of(err)}") from None
    write_file(path, orjson.dumps(to_json(KeptLoads, kept, ordered=True)))


def with_kept_loads(cluster: Cluster, path: str = KEPT, now: int | None = None) -> Cluster:
    """The cluster with the loads that are kept; raises NoLoads.

    ``now``: ns since the epoch; None: as the clock has it.
    """
    try:
        kept = read_loads(path)
    except StewardError as err:
        raise NoLoads(str(err)) from None
    if kept is None:
        raise NoLoads(f"there is no {path}; the maintenance daemon writes it on the master")
    if kept.cluster != cluster.name:
        raise NoLoads(f"{path} is of the cluster {quoted(kept.cluster)}")
    return with_agent_loads(
        cluster, kept.nodes, kept.max_age, time.time_ns() if now is None else now
    )


def with_agent_loads(
    cluster: Cluster, loads: Mapping[str, NodeLoad], max_age: float, now: int
) -> Cluster:
    """The cluster with the CPU load of each live node, shared by its instances by their CPUs.

    Raises NoLoads where that of one is not known, or older than ``max_age`` seconds at ``now``.
    """
    found = {}
    for name in nodes_to_query(cluster):
        load = loads.get(name)
        if load is None or load.cpu is None:
            raise NoLoads.of(name, "its agent has not reported its CPU load")
        if not -_AHEAD <= now - load.at <= max_age * 10**9:
            age = (now - load.at) / 10**9
            raise NoLoads.of(name, f"its report is {age:.0f} s old, at most {max_age:g} s count")
        found[name] = load.cpu * load.cpus
    return with_node_loads(cluster, found)
