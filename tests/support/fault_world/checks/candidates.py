"""The nodes that have a copy of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fault_world.ganeti import Ganeti

Row = Mapping[str, Any]


class Pool(NamedTuple):
    """The candidates, as a daemon could see them when it read the cluster."""

    candidates: frozenset[str]
    """names of those in service, the master included"""
    capable: frozenset[str]
    """names of all nodes in service that are candidates or could be"""
    nodes: frozenset[str]
    """names of all nodes"""

    def enough_without(self, lost: frozenset[str], size: int) -> bool:
        """Whether two have it once these nodes are out; ``size``: candidates that there may be."""
        kept = self.candidates - lost
        after = len(kept) + min(len(self.capable - lost - kept), max(0, size - len(kept)))
        others = self.nodes - lost - kept
        return not others or after >= min(2, len(self.candidates), size)


def pool(ganeti: Ganeti) -> Pool:
    """The candidates now."""
    serving = [row for row in ganeti.nodes if not (row["offline"] or row["drained"])]
    candidates = frozenset(
        row["name"] for row in serving if row["master_candidate"] or row["master"]
    )
    capable = frozenset(row["name"] for row in serving if row["master_capable"])
    names = frozenset(row["name"] for row in ganeti.nodes)
    return Pool(candidates, candidates | capable, names)
