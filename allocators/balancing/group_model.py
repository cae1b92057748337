"""The figures of one node group, arranged for trying thousands of moves at once.

A `State` is replaced on each change and has every rule with its sentence; a `GroupModel` is
changed in place and has numbers only.  It is made from a state and takes its formulas from there
(what an instance adds to a node, what each node adds to the score).  The search for a plan uses
it; every plan found is repeated on states before it is answered.

The components of the score have one value per node (`components`), so that adding an instance to
a node is one addition.  All node indices here count the group's nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.balancing.components import components_of
from ganeti_steward.allocators.balancing.tags import Tags
from ganeti_steward.allocators.score.score import sum_components, tag_components
from ganeti_steward.allocators.state import quantity

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.state import Resident, State

#: Where instances are, one entry each: primaries, secondaries (-1 without one).
Placement = tuple["Ints", "Ints"]

#: How many of the largest reserves of a node are kept apart: an exchange changes two.
_TOP: Final = 3


class GroupModel:
    """The places of the instances of one group, and the figures of its nodes."""

    def __init__(self, state: State, nodes: Ints, residents: Sequence[Resident]) -> None:
        """``nodes``: the group's, by cluster index; ``residents``: those that may move.

        Both nodes of every resident must be among ``nodes``.
        """
        frame = state.frame
        self.nodes, self.residents = nodes, tuple(residents)
        self.size = len(nodes)
        place = np.full(frame.size + 1, -1, np.int64)
        place[nodes] = np.arange(self.size)
        self.primary: Ints = place[[r.primary for r in residents]]
        """instances: node of the group"""
        self.secondary: Ints = place[[r.secondary for r in residents]]
        """instances: node of the group; -1 without one"""
        self.kind: Ints = frame.exclusive[nodes].astype(np.int64)
        """nodes: 1 with dedicated spindles, else 0"""
        self.usable: Mask = frame.usable[nodes]
        self.takes: Mask = self.usable & ~frame.suspect[nodes]
        """nodes: whether balancing may move anything there"""
        self.live: Mask = np.array([frame.cluster.nodes[i].live for i in nodes.tolist()])
        self.all_usable = bool(self.usable.all())
        self.online = max(int(self.usable.sum()), 1)
        """number of usable nodes, at least 1"""
        self.mixed = bool(self.kind.any())
        """whether any node has dedicated spindles"""
        self.announced = any(r.demand.instance.forthcoming for r in self.residents)
        """whether any instance is only announced (forthcoming)"""
        self.values, self.weights, self.inverse, self.figures = components_of(
            state, nodes, self.residents
        )
        self.lacks_disk: Mask = frame.lacks_disk[nodes]
        """nodes: whether one does not report its disk"""
        self.lacks_pool: Mask = np.array(
            [frame.lacks_pool(name)[nodes] for name in frame.pools], np.bool_
        ).reshape(len(frame.pools), self.size)
        """pools x nodes: whether one certainly does not have the volume group"""
        self.pools_unknown: Mask = frame.pools_unknown[nodes]
        """nodes: whether nothing is known of the volume groups apart from the cluster's"""
        self.kept: Floats | None = None
        """rows x nodes: MiB in reserve; None where nothing is"""
        self.closed: Floats | None = None
        """nodes: MiB of memory that no new primary may take; None where nothing is in reserve"""
        if frame.reserves is not None:
            self.kept = frame.reserves.kept[:, nodes].astype(np.float64)
            self.closed = frame.reserves.closed[nodes].astype(np.float64)
        self._share_limit = frame.spindle_limit[nodes]
        self._vcpu_limit = frame.vcpu_limit[nodes]
        self.tags = Tags(state, nodes, self.usable, residents)
        self.reserved: Floats = state.peers.dense(nodes).astype(np.float64)
        """secondaries x primaries: MiB kept free"""
        self._read_nodes(state.now[:, nodes].astype(np.float64))

    # -- reading the state

    def _read_nodes(self, now: Floats) -> None:
        self._now = now
        """rows of `state` x nodes; changed in place by `move`"""
        # Views: a change of a row of ``_now`` is a change of these, and the other way round.
        self.free: Floats = now[quantity.UNALLOCATED]
        """nodes: MiB of unallocated memory"""
        self.needed: Floats = now[quantity.RESERVED]
        """nodes: MiB of N+1 reserve"""
        self.free_all: Floats = now[quantity.MEMORY_F]
        """nodes: MiB free with stopped and forthcoming instances counted"""
        self.disk_hard: Floats = now[quantity.DISK]
        """nodes: MiB of free disk"""
        self.pools_hard: Floats = now[quantity.ROWS :: 2]
        """pools x nodes: MiB free in each volume group apart from the cluster's"""
        self.pools_all: Floats = now[quantity.ROWS + 1 :: 2]
        """the same with forthcoming instances counted"""
        self.primaries: Floats = now[quantity.PRIMARIES]
        self.secondaries: Floats = now[quantity.SECONDARIES]
        self.clashes: Floats = now[quantity.CLASHES]
        self.location: Floats = now[quantity.LOCATION]
        # Copies: `_refresh` and `move` derive them again from the rows.
        self.fails: Mask = now[quantity.FAILS] > 0
        """nodes: whether N+1 fails"""
        self.disk_slack: Floats = np.zeros(self.size)
        """nodes: MiB of free disk with forthcoming instances counted"""
        self.share_slack: Floats = np.zeros(self.size)
        """nodes: free share of the common spindles; infinite with dedicated ones"""
        self.vcpu_slack: Floats = np.zeros(self.size)
        """nodes: free vcpus; infinite without a limit"""
        self.own: Floats = np.zeros(self.size)
        """nodes: the sum components of the score, weighted, without tags"""
        self.top: Floats = np.zeros((self.size, _TOP))
        """nodes x 3: the largest reserves, in MiB"""
        self.top_of: Ints = np.full((self.size, _TOP), -1)
        """nodes x 3: the primaries they are kept for"""
        self._refresh(range(self.size))

    def weigh(self, factor: float) -> None:
        """Let evenness count this much less in all figures from now on."""
        self.weights = self.weights * factor
        self._refresh(range(self.size))

    # -- keeping the figures

    def _refresh(self, nodes: Sequence[int] | range) -> None:
        """Recompute what depends on the figures of these nodes."""
        now, which = self._now, list(nodes)
        for node in which:
            self._read_top(node)
        at = np.array(which)
        self.disk_slack[at] = np.minimum(now[quantity.DISK, at], now[quantity.DISK_F, at])
        used = np.maximum(now[quantity.SPINDLE_USE, at], now[quantity.SPINDLE_USE_F, at])
        self.share_slack[at] = self._share_limit[at] - used
        self.vcpu_slack[at] = self._vcpu_limit[at] - np.maximum(
            now[quantity.VCPUS, at], now[quantity.VCPUS_F, at]
        )
        if self.mixed:
            self.share_slack[self.kind == 1] = np.inf
            dedicated, hard = self.kind == 1, now[quantity.SPINDLES]
            slack = np.minimum(hard, now[quantity.SPINDLES_F])
            self.spindle_hard = np.where(dedicated, hard, np.inf)
            self.spindle_slack = np.where(dedicated, slack, np.inf)
        share = self.usable / self.online
        self.centred: Floats = self.values - (self.values @ share)[:, None]
        self.variance: Floats = (self.centred * self.centred) @ share
        self.spread = float(self.weights @ np.sqrt(self.variance))
        self.own[which] = self.counted(
            at, self.primaries[at], self.secondaries[at], self.fails[at], self.needed[at]
        )

    def counted(
        self, nodes: Ints, primaries: Floats, secondaries: Floats, fails: Mask, needed: Floats
    ) -> Floats:
        """What nodes with these figures add to the score by themselves, tags left out."""
        share = needed * self.inverse[-1, nodes]
        usable = None if self.all_usable else self.usable[nodes]
        return sum_components(primaries, secondaries, fails, share, usable=usable)

    def _read_top(self, node: int) -> None:
        """The largest reserves of a node and whom they are kept for."""
        row, number = self.reserved[node], min(_TOP, self.size)
        at = np.argpartition(row, self.size - number)[-number:] if self.size > _TOP else None
        at = np.argsort(-row) if at is None else at[np.argsort(-row[at])]
        self.top_of[node, :number], self.top[node, :number] = at, row[at]

    @property
    def score(self) -> float:
        """The group's score as it is, but for what pairs tags of several nodes."""
        if not self.usable.any():
            return 0.0
        tags = tag_components(self.clashes, self.location)
        return self.spread + float(self.own.sum() + tags @ self.usable) + self.tags.paired()

    def reserve_without(self, node: Ints, primary: Ints, lost: Floats) -> Floats:
        """What nodes need free when they keep ``lost`` less for one primary."""
        left = self.reserved[node, primary] - lost
        first = self.top_of[node, 0] == primary
        rest = np.where(first, self.top[node, 1], self.top[node, 0])
        needed: Floats = np.maximum(np.maximum(left, rest), 0.0)
        return needed

    def reserve_changed(
        self, node: Ints, one: Ints, more: Floats, other: Ints, most: Floats
    ) -> Floats:
        """What nodes need free with more for two primaries (for one when they are the same)."""
        first = self.reserved[node, one] + more
        second = np.where(one == other, -np.inf, self.reserved[node, other] + most)
        tops, at = self.top[node], self.top_of[node]
        one, other = np.broadcast_arrays(one, other)
        if tops.ndim == 1:
            tops, at = tops[None], at[None]
        usual = (at != one[..., None]) & (at != other[..., None])
        rest = np.where(usual, tops, 0.0).max(axis=-1)
        needed: Floats = np.maximum(np.maximum(first, second), np.maximum(rest, 0.0))
        return needed

    # -- moving

    @property
    def placement(self) -> Placement:
        """Where all instances are."""
        return self.primary.copy(), self.secondary.copy()

    def go(self, placement: Placement) -> None:
        """Put all instances where they were in another moment."""
        primary, secondary = placement
        for at in np.flatnonzero((self.primary != primary) | (self.secondary != secondary)):
            self.move(int(at), int(primary[at]), int(secondary[at]))

    def place(self, instance: int) -> tuple[int, int]:
        """Where an instance is: primary, and secondary or -1."""
        return int(self.primary[instance]), int(self.secondary[instance])

    def move(self, instance: int, primary: int, secondary: int) -> None:
        """Put an instance on other nodes; ``secondary`` is -1 without one."""
        old, kept = self.place(instance)
        self._change(instance, old, kept, -1)
        self._change(instance, primary, secondary, 1)
        self.primary[instance], self.secondary[instance] = primary, secondary
        nodes = {node for node in (old, kept, primary, secondary) if node >= 0}
        now = self._now
        for node in nodes:
            if not self.figures.real[instance]:
                continue  # its nodes need not keep anything for it yet
            now[quantity.RESERVED, node] = max(float(self.reserved[node].max()), 0.0)
            now[quantity.FAILS, node] = quantity.n1_fails(now[:, node])
            self.fails[node] = bool(now[quantity.FAILS, node])
            self.values[-1, node] = now[quantity.RESERVED, node] * self.inverse[-1, node]
        self._refresh(sorted(nodes))

    def _change(self, instance: int, primary: int, secondary: int, sign: int) -> None:
        figures, now = self.figures, self._now
        kind, real = self.kind[primary], int(figures.real[instance])
        self.values[:, primary] += (
            sign * figures.as_primary[kind, instance] * self.inverse[:, primary]
        )
        now[quantity.UNALLOCATED, primary] -= sign * figures.use[instance]
        now[quantity.MEMORY_F, primary] -= sign * figures.memory[instance]
        now[quantity.VCPUS, primary] += sign * real * figures.vcpus[instance]
        now[quantity.VCPUS_F, primary] += sign * figures.vcpus[instance]
        now[quantity.PRIMARIES, primary] += sign * real
        self._store(instance, primary, sign)
        clashes, location = self.tags.change(instance, primary, secondary, sign)
        self.clashes[primary] += clashes
        self.location[primary] += location
        if secondary >= 0:
            kind = self.kind[secondary]
            self.values[:, secondary] += (
                sign * figures.as_secondary[kind, instance] * self.inverse[:, secondary]
            )
            now[quantity.SECONDARIES, secondary] += sign * real
            self.reserved[secondary, primary] += sign * figures.reserve[instance]
            self._store(instance, secondary, sign)

    def _store(self, instance: int, node: int, sign: int) -> None:
        figures, now = self.figures, self._now
        books = slice(0, 2) if figures.real[instance] else slice(1, 2)
        now[[quantity.DISK, quantity.DISK_F][books], node] -= sign * figures.disk[instance]
        for free in (self.pools_hard, self.pools_all)[books]:
            free[:, node] -= sign * figures.pools[:, instance]
        if self.kind[node]:
            # What is not known does not change: the node was read with it, and gets no other.
            if np.isfinite(figures.spindles[instance]):
                rows = [quantity.SPINDLES, quantity.SPINDLES_F][books]
                now[rows, node] -= sign * figures.spindles[instance]
        else:
            rows = [quantity.SPINDLE_USE, quantity.SPINDLE_USE_F][books]
            now[rows, node] += sign * figures.share[instance]
