"""Memory that secondaries keep free for primaries (N+1), by pair of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints
    from ganeti_steward.allocators.state.demand import Demand


class Peers(NamedTuple):
    """Memory by pair of secondary and primary, sorted by ``key = secondary * n + primary``."""

    size: int
    """n, the number of nodes"""
    key: Ints
    """pairs"""
    reserved: Ints
    """pairs: MiB kept free on the secondary for the primary"""
    running: Ints
    """pairs: MiB taken on the secondary when all drbd instances of the pair fail over"""

    def row(self, primary: int) -> Ints:
        """nodes: MiB each keeps free for one primary."""
        kept = np.zeros(self.size, np.int64)
        mine = self.key % self.size == primary
        kept[self.key[mine] // self.size] = self.reserved[mine]
        return kept

    def most(self, secondary: int | None = None) -> Ints:
        """nodes: the largest reserve of each as secondary (or of just one), at least 0 MiB."""
        if secondary is not None:
            first, last = np.searchsorted(
                self.key, (secondary * self.size, (secondary + 1) * self.size)
            )
            largest: Ints = np.maximum(self.reserved[first:last].max(initial=0), 0)
            return largest
        most = np.zeros(self.size, np.int64)
        np.maximum.at(most, self.key // self.size, self.reserved)
        return most

    def dense(self, nodes: Ints | None = None) -> Ints:
        """secondaries x primaries: MiB kept free; ``nodes``: only between these, in this order."""
        size = self.size if nodes is None else len(nodes)
        place = np.arange(self.size)
        if nodes is not None:
            place = np.full(self.size, -1, np.int64)
            place[nodes] = np.arange(size)
        secondary, primary = (place[part] for part in np.divmod(self.key, self.size))
        inside = (secondary >= 0) & (primary >= 0)
        dense = np.zeros((size, size), np.int64)
        dense[secondary[inside], primary[inside]] = self.reserved[inside]
        return dense

    def changed(self, secondary: int, primary: int, demand: Demand, sign: int) -> Peers:
        """With an instance of this pair added or removed."""
        key = secondary * self.size + primary
        at = int(np.searchsorted(self.key, key))
        if at < len(self.key) and self.key[at] == key:
            reserved, running = self.reserved.copy(), self.running.copy()
            reserved[at] += sign * demand.reserve
            running[at] += sign * (demand.use if demand.drbd else 0)
            return Peers(self.size, self.key, reserved, running)
        return Peers(
            self.size,
            np.insert(self.key, at, key),
            np.insert(self.reserved, at, sign * demand.reserve),
            np.insert(self.running, at, sign * (demand.use if demand.drbd else 0)),
        )
