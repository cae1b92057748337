"""Exclusive storage: keep room for the instances that are hardest to place (allocation 6).

The metric of a place is how many future instances of each policy minimum it costs (those
with the largest disks first), then the free disk it leaves; the smallest wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.score.ranked_places import RankedPlace
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.quantity import MANY, times_with_rest

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Verdicts
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand, Frame
    from ganeti_steward.allocators.state.state import State
    from ganeti_steward.core.model.cluster import Spec

#: How many secondaries of each primary are remembered.
_KEPT: Final = 8


def is_dedicated(frame: Frame, groups: set[int]) -> bool:
    """Whether every node of these groups, offline ones included, has exclusive storage."""
    mine = np.isin(frame.group, list(groups))
    return bool(frame.exclusive[mine].all())


class DedicatedPlaces:
    """All legal places of one group, ordered by the metric."""

    def __init__(
        self,
        state: State,
        demand: Demand,
        verdicts: tuple[Verdicts, ...],
        members: Mask,
        group: int,
    ) -> None:
        self._state, self._demand = state, demand
        minmax = state.frame.cluster.groups[group].policy.minmax
        specs = sorted((pair.min for pair in minmax), key=lambda spec: -spec.disk)
        self._specs = specs
        nodes = [np.flatnonzero(role.fits & members) for role in verdicts]
        before = _room(state.frame, state.now, specs)
        losses = [
            np.vstack([before - _room(state.frame, role.after, specs), _left(state.frame, role)])
            for role in verdicts
        ]
        self._places: list[tuple[tuple[int, ...], int, int]] = []
        self.count = 0
        """how many there are"""
        if len(verdicts) == 1:
            for node in nodes[0].tolist():
                self._places.append((tuple(losses[0][:, node].tolist()), -node, 1))
            self.count = len(self._places)
        else:
            self._add_pairs(nodes, losses, before)
        late = state.frame.suspect
        if late.any():
            self._places.sort(key=lambda place: (_suspects(late, place), place))
        else:
            self._places.sort()

    def _add_pairs(self, nodes: list[Ints], losses: list[Ints], before: Ints) -> None:
        state = self._state
        second = nodes[1]
        for primary in nodes[0].tolist():
            kept = state.peers.row(primary)[second]
            lost = losses[1][:, second]
            fits = second != primary
            if kept.any():
                after = state.after_secondary(self._demand, kept, second)
                lost = lost.copy()
                lost[:-1] = before[:, second] - _room(state.frame, after, self._specs, second)
                fits &= ~quantity.newly_fails(
                    state.now[quantity.FAILS, second], after[quantity.FAILS]
                )
                if state.frame.reserves is not None:
                    fits &= ~state.frame.reserves.newly_fails(state.now, after, second)
            total = (losses[0][:, primary, None] + lost)[:, fits]
            mine = second[fits]
            self.count += len(mine)
            # No capacity test follows, so only the first few are ever used.
            order = np.lexsort((-mine, *total[::-1], state.frame.suspect[mine]))[:_KEPT]
            self._places += [
                (tuple(total[:, at].tolist()), -primary, -int(mine[at])) for at in order.tolist()
            ]

    def best_first(self) -> Iterator[RankedPlace]:
        """By the metric; among equals the last node (or pair) by name first."""
        for metric, primary, secondary in self._places:
            yield RankedPlace(0.0, -primary, -secondary, metric)


def _suspects(suspect: Mask, place: tuple[tuple[int, ...], int, int]) -> int:
    """How many nodes of a place are suspect."""
    _, primary, secondary = place
    return int(suspect[-primary]) + (secondary <= 0 and int(suspect[-secondary]))


def _left(frame: Frame, role: Verdicts) -> Ints:
    """nodes: MiB of disk left free; 0 where it is not reported."""
    return np.where(frame.lacks_disk, 0, role.after[quantity.DISK])


def _room(frame: Frame, now: Ints, specs: list[Spec], nodes: Ints | slice = slice(None)) -> Ints:
    """How many plain instances of each spec each node could still take, one by one."""
    return np.array([_times(frame, now, spec, nodes) for spec in specs], np.int64).reshape(
        len(specs), now.shape[1]
    )


def _times(frame: Frame, now: Ints, spec: Spec, nodes: Ints | slice) -> Ints:
    free = now[quantity.UNALLOCATED] - np.where(now[quantity.FAILS] > 0, 0, now[quantity.RESERVED])
    times = np.minimum(
        times_with_rest(free, spec.memory), times_with_rest(now[quantity.MEMORY_F], spec.memory)
    )
    for row in (quantity.DISK, quantity.DISK_F):
        times = np.minimum(times, times_with_rest(now[row], spec.disk))
    for row in (quantity.VCPUS, quantity.VCPUS_F):
        times = np.minimum(times, _under_ratio(frame, now[row], spec.vcpus, nodes))
    shared = now[quantity.SPINDLE_USE] > frame.spindle_limit[nodes]
    blocked = shared | (now[quantity.SPINDLES] < 0) | (now[quantity.SPINDLES_F] < 0)
    return np.where(blocked, 0, times)


def _under_ratio(frame: Frame, used: Ints, vcpus: int, nodes: Ints | slice) -> Ints:
    limit: Floats = frame.vcpu_ratio[nodes] * np.where(
        np.isinf(frame.cpus[nodes]), 0.0, frame.cpus[nodes]
    )
    if vcpus <= 0:
        return np.where((used <= limit) | (frame.vcpu_ratio[nodes] < 0), MANY, 0)
    times = np.floor((limit - used) / vcpus)
    return np.where(frame.vcpu_ratio[nodes] < 0, MANY, np.maximum(times, 0)).astype(np.int64)
