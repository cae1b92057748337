"""The figures of one node group laid out for trying thousands of moves at once.

`State` changes by copying and knows every rule with its sentence; a `Board` is changed in
place and only knows numbers.  It is made from a state, takes its formulas from there (what a
guest adds to a node, what a share of the score is) and is used to look for a plan; what it
finds is replayed on states before anybody gets to see it.

Candidates are judged in the values the score spreads over: one row per component, so that
adding a guest to a node is one addition.  All node indices here count the group's nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators import state as st
from ganeti_steward.allocators.board_figures import DERIVED, figures_of
from ganeti_steward.allocators.board_tags import Tags
from ganeti_steward.allocators.score import (
    LOCATION_WEIGHT,
    N1_WEIGHT,
    OFFLINE_PRIMARY_WEIGHT,
    OFFLINE_WEIGHT,
    RESERVED_MEM,
    RESERVED_TOTAL_WEIGHT,
    SPREADS,
    TAGS_WEIGHT,
    shares,
)

if TYPE_CHECKING:
    from ganeti_steward.allocators.state import Floats, Ints, Mask, Resident, State

#: How far numbers may differ by rounding alone.
_ALIKE: Final = 1e-13

#: How many of the largest reserves of a node are kept apart: an exchange changes two.
_TOP: Final = 3


class Board:
    """Who lives where in one group, and what that means for every node."""

    def __init__(self, state: State, nodes: Ints, residents: Sequence[Resident]) -> None:
        """``nodes``: the group's, by cluster index; ``residents``: those that may move.

        Both nodes of every resident must be among ``nodes``.
        """
        frame = state.frame
        self.state, self.nodes, self.residents = state, nodes, tuple(residents)
        self.version = 0
        """how often something was moved"""
        self.size = len(nodes)
        place = np.full(frame.size + 1, -1, np.int64)
        place[nodes] = np.arange(self.size)
        self.primary: Ints = place[[r.primary for r in residents]]
        self.secondary: Ints = place[[r.secondary for r in residents]]
        self.kind: Ints = frame.exclusive[nodes].astype(np.int64)
        self.usable: Mask = frame.usable[nodes]
        self.live: Mask = np.array([frame.cluster.nodes[i].live for i in nodes.tolist()])
        self._online = int(self.usable.sum())
        self.all_usable = self._online == self.size
        self.mixed = bool(self.kind.any())
        """whether nodes with dedicated spindles are among them"""
        self._read_frame(state)
        self.figures = figures_of(state, self.residents, self._rows_of_kinds(state))
        self._scale()
        self._merge_spreads()
        self.tags = Tags(state, self)
        self.reserved = self._dense_peers(state, place)
        self._read_nodes()

    # -- reading the state

    def _read_frame(self, state: State) -> None:
        frame, nodes = state.frame, self.nodes
        self._now = state.now[:, nodes].astype(np.float64)
        nothing = shares(frame, np.zeros((st.ROWS, self.size), np.int64), nodes)
        self.inverse: Floats = np.zeros_like(nothing)
        """component x node: what one unit of the guest's figure is worth there"""
        for row in self._additive():
            self.inverse = np.maximum(self.inverse, self._worth(state, row) - nothing)
        self.inverse[RESERVED_MEM] = 1.0 / frame.memory[nodes]
        self.values: Floats = shares(frame, state.now[:, nodes], nodes)
        self.weights: Floats = np.array([weight * len(names) for names, weight in SPREADS])
        self.share_limit: Floats = frame.spindle_limit[nodes]
        ratio = frame.vcpu_ratio[nodes]
        cpus = np.where(np.isinf(frame.cpus[nodes]), 0.0, frame.cpus[nodes])
        self.vcpu_limit: Floats = np.where(ratio < 0, np.inf, ratio * cpus)
        self.vcpu_limit[np.isinf(frame.cpus[nodes]) & (ratio >= 0)] = np.inf

    @staticmethod
    def _additive() -> list[int]:
        return [row for row in range(st.ROWS) if row not in DERIVED]

    def _worth(self, state: State, row: int) -> Floats:
        unit = np.zeros((st.ROWS, self.size), np.int64)
        unit[row] = 1
        return shares(state.frame, unit, self.nodes)

    def _rows_of_kinds(self, state: State) -> Floats:
        """kind x component x row: 1 where the component counts the row on such nodes."""
        counted = np.zeros((2, len(SPREADS), st.ROWS))
        nothing = shares(state.frame, np.zeros((st.ROWS, self.size), np.int64), self.nodes)
        for row in self._additive():
            worth = self._worth(state, row) - nothing
            for kind in (0, 1):
                counted[kind, :, row] = (worth[:, self.kind == kind] != 0).any(axis=1)
        return counted

    def _scale(self) -> None:
        """Figures in units of the components, so that those that count alike are alike."""
        unit = self.inverse.max(axis=1)
        unit[(unit == 0) | (np.arange(len(unit)) == RESERVED_MEM)] = 1.0
        self.inverse = self.inverse / unit[:, None]
        self.figures = self.figures._replace(
            as_primary=self.figures.as_primary * unit,
            as_secondary=self.figures.as_secondary * unit,
        )

    def _merge_spreads(self) -> None:
        """Components that are alike and stay so are counted once, with added weights."""
        figures, kept = self.figures, list[int]()
        weights = self.weights
        for row in range(len(SPREADS)):
            for known in kept:
                if RESERVED_MEM not in (known, row) and self._alike(known, row):
                    weights[known] += weights[row]
                    break
            else:
                kept.append(row)
        # What the reserve is worth does not follow from the guest alone; it is kept last.
        kept.remove(RESERVED_MEM)
        kept.append(RESERVED_MEM)
        self.weights, self.values = weights[kept], self.values[kept]
        self.inverse = self.inverse[kept]
        self.figures = figures._replace(
            as_primary=figures.as_primary[:, :, kept], as_secondary=figures.as_secondary[:, :, kept]
        )

    def _alike(self, one: int, other: int) -> bool:
        primary, secondary = self.figures.as_primary, self.figures.as_secondary
        return (
            np.allclose(self.values[one], self.values[other], rtol=_ALIKE, atol=_ALIKE)
            and np.allclose(self.inverse[one], self.inverse[other], rtol=_ALIKE, atol=0)
            and np.allclose(primary[:, :, one], primary[:, :, other], rtol=_ALIKE, atol=0)
            and np.allclose(secondary[:, :, one], secondary[:, :, other], rtol=_ALIKE, atol=0)
        )

    def _dense_peers(self, state: State, place: Ints) -> Floats:
        """secondary x primary: memory kept free."""
        size = state.frame.size
        secondary, primary = np.divmod(state.peers.key, size)
        inside = (place[secondary] >= 0) & (place[primary] >= 0)
        dense = np.zeros((self.size, self.size))
        dense[place[secondary[inside]], place[primary[inside]]] = state.peers.reserved[inside]
        return dense

    def _read_nodes(self) -> None:
        now = self._now
        self.free, self.fails = now[st.UNALLOCATED], now[st.FAILS] > 0
        self.disk_hard, self.disk_slack = now[st.DISK], np.zeros(self.size)
        self.share_slack, self.vcpu_slack = np.zeros(self.size), np.zeros(self.size)
        self.needed = now[st.RESERVED]
        self.free_all, self.vcpus = now[st.MEMORY_F], now[st.VCPUS]
        self.primaries, self.secondaries = now[st.PRIMARIES], now[st.SECONDARIES]
        self.clashes, self.location = now[st.CLASHES], now[st.LOCATION]
        self.own = np.zeros(self.size)
        """what each node adds to the score by itself, tags left out"""
        self.top = np.zeros((self.size, _TOP))
        self.top_of = np.full((self.size, _TOP), -1)
        self._refresh(range(self.size))

    # -- keeping the figures

    def _refresh(self, nodes: Sequence[int] | range) -> None:
        """Derive anew what depends on the figures of these nodes."""
        now, which = self._now, list(nodes)
        for node in which:
            self._read_top(node)
        at = np.array(which)
        self.disk_slack[at] = np.minimum(now[st.DISK, at], now[st.DISK_F, at])
        used = np.maximum(now[st.SPINDLE_USE, at], now[st.SPINDLE_USE_F, at])
        self.share_slack[at] = self.share_limit[at] - used
        self.vcpu_slack[at] = self.vcpu_limit[at] - np.maximum(
            now[st.VCPUS, at], now[st.VCPUS_F, at]
        )
        if self.mixed:
            self.share_slack[self.kind == 1] = np.inf
            spindles = np.minimum(now[st.SPINDLES], now[st.SPINDLES_F])
            self.spindle_slack = np.where(self.kind == 1, spindles, np.inf)
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
        both = primaries + secondaries
        online = N1_WEIGHT * (fails * both)
        online += RESERVED_TOTAL_WEIGHT * needed * self.inverse[-1, nodes]
        if self.all_usable:
            return online
        offline = OFFLINE_WEIGHT * both + OFFLINE_PRIMARY_WEIGHT * primaries
        amounts: Floats = np.where(self.usable[nodes], online, offline)
        return amounts

    def _read_top(self, node: int) -> None:
        """The largest reserves of a node and whom they are kept for."""
        row, number = self.reserved[node], min(_TOP, self.size)
        at = np.argpartition(row, self.size - number)[-number:] if self.size > _TOP else None
        at = np.argsort(-row) if at is None else at[np.argsort(-row[at])]
        self.top_of[node, :number], self.top[node, :number] = at, row[at]

    @property
    def score(self) -> float:
        """The group's score as it is, but for what pairs tags of several nodes."""
        if not self._online:
            return 0.0
        tags = TAGS_WEIGHT * self.clashes + LOCATION_WEIGHT * self.location
        return self.spread + float(self.own.sum() + tags @ self.usable) + self.tags.paired()

    @property
    def online(self) -> int:
        """How many usable nodes there are, at least 1."""
        return max(self._online, 1)

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

    def move(self, guest: int, primary: int, secondary: int) -> None:
        """Put a guest on other nodes; ``secondary`` is -1 without one."""
        old, kept = int(self.primary[guest]), int(self.secondary[guest])
        self._change(guest, old, kept, -1)
        self._change(guest, primary, secondary, 1)
        self.primary[guest], self.secondary[guest] = primary, secondary
        self.version += 1
        nodes = {node for node in (old, kept, primary, secondary) if node >= 0}
        now = self._now
        for node in nodes:
            now[st.RESERVED, node] = max(float(self.reserved[node].max()), 0.0)
            now[st.FAILS, node] = now[st.UNALLOCATED, node] <= now[st.RESERVED, node]
            self.fails[node] = bool(now[st.FAILS, node])
            self.values[-1, node] = now[st.RESERVED, node] * self.inverse[-1, node]
        self._refresh(sorted(nodes))

    def _change(self, guest: int, primary: int, secondary: int, sign: int) -> None:
        figures, now = self.figures, self._now
        kind = self.kind[primary]
        self.values[:, primary] += sign * figures.as_primary[kind, guest] * self.inverse[:, primary]
        now[st.UNALLOCATED, primary] -= sign * figures.use[guest]
        now[st.MEMORY_F, primary] -= sign * figures.memory[guest]
        now[st.VCPUS, primary] += sign * figures.vcpus[guest]
        now[st.VCPUS_F, primary] += sign * figures.vcpus[guest]
        now[st.PRIMARIES, primary] += sign
        self._store(guest, primary, sign)
        self.tags.change(guest, primary, secondary, sign)
        if secondary >= 0:
            kind = self.kind[secondary]
            self.values[:, secondary] += (
                sign * figures.as_secondary[kind, guest] * self.inverse[:, secondary]
            )
            now[st.SECONDARIES, secondary] += sign
            self.reserved[secondary, primary] += sign * figures.reserve[guest]
            self._store(guest, secondary, sign)

    def _store(self, guest: int, node: int, sign: int) -> None:
        figures, now = self.figures, self._now
        now[[st.DISK, st.DISK_F], node] -= sign * figures.disk[guest]
        if self.kind[node]:
            now[[st.SPINDLES, st.SPINDLES_F], node] -= sign * figures.spindles[guest]
        else:
            now[[st.SPINDLE_USE, st.SPINDLE_USE_F], node] += sign * figures.share[guest]
