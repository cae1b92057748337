"""Which of all exchanges are worth a closer look.

There are instances x instances of them.  The score's spreads are roots of sums over the nodes; for
a small change a root is as good as straight, and a straight sum over two nodes is a sum of
products of what the two instances take.  So all pairs are estimated by a few products of
matrices.  `Swaps` then evaluates the best of them exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.swaps import CROSSWISE, PRIMARIES, SECONDARIES
from ganeti_steward.allocators.score.score import RESERVED_TOTAL_WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ganeti_steward.allocators.balancing.group_model import GroupModel
    from ganeti_steward.allocators.state.arrays import Ints, Mask

    Rough = NDArray[np.float32]

#: Pairs estimated at once; their figures should stay in the processor's cache.
_BLOCK: Final = 1 << 16

#: An estimate needs no more digits than this has.
_ROUGH: Final = np.float32

_NOTHING: Final = 1e-18

#: A spread of next to nothing must not make everything else look like nothing.
_LEAST: Final = 1e-6


class Pairs(NamedTuple):
    """Exchanges of one kind."""

    kind: int
    """one of `swaps.SECONDARIES`, `PRIMARIES`, `CROSSWISE`"""
    instances: Ints
    """pairs: the one instance"""
    others: Ints
    """pairs: the other instance"""

    def only(self, which: Mask) -> Pairs:
        """Some of them."""
        return Pairs(self.kind, self.instances[which], self.others[which])


class _Slopes(NamedTuple):
    """Derivatives of the score for small changes, in the present state of the group model."""

    node: Rough
    """components x nodes: first derivative by the node's value"""
    bend: Rough
    """components x nodes: half the second derivative"""
    reserve: Rough
    """nodes: first derivative by the MiB of N+1 reserve"""
    bend_reserve: Rough
    """nodes: half the second derivative"""


class PairFinder:
    """Estimates all exchanges of a model's instances."""

    def __init__(self, model: GroupModel) -> None:
        self._model = model
        figures = model.figures
        # Without exclusive storage all nodes are of one kind; with it the difference between
        # kinds is left to the exact look.
        self._primary = figures.as_primary[0, :, :-1].astype(_ROUGH)
        self._secondary = figures.as_secondary[0, :, :-1].astype(_ROUGH)
        self._disk = figures.disk.astype(_ROUGH)
        self._reserve = figures.reserve.astype(_ROUGH)

    def best(self, kind: int, number: int, instances: Ints, others: Ints) -> Pairs:
        """At most ``number`` of the most promising exchanges of ``instances`` with ``others``."""
        slopes = self._slopes()
        found = [self._some(kind, slopes, part, others) for part in self._parts(instances, others)]
        loss, first, second = (np.concatenate(column) for column in zip(*found, strict=True))
        if len(loss) > number:
            top = np.argpartition(loss, number)[:number]
            first, second = first[top], second[top]
        return Pairs(kind, first, second)

    @staticmethod
    def _parts(instances: Ints, others: Ints) -> list[Ints]:
        step = max(1, _BLOCK // max(len(others), 1))
        return [instances[start : start + step] for start in range(0, max(len(instances), 1), step)]

    def _some(
        self, kind: int, slopes: _Slopes, instances: Ints, others: Ints
    ) -> tuple[Rough, Ints, Ints]:
        """The exchanges that look like a gain: loss, instances, others."""
        if kind != CROSSWISE:
            # Each exchange is estimated once, from its first instance.
            others = others[others > instances[:1].min(initial=-1)]
        loss = self._loss(kind, slopes, instances, others)
        if kind != CROSSWISE:
            loss[instances[:, None] >= others] = np.inf
        row, column = np.nonzero(loss < 0)
        return loss[row, column], instances[row], others[column]

    def _slopes(self) -> _Slopes:
        model, n = self._model, self._model.online
        spread = np.maximum(np.sqrt(np.maximum(model.variance, 0.0)), _LEAST)
        weight = (model.weights / (2.0 * spread * n))[:, None] * model.usable
        node = 2.0 * weight * model.centred * model.inverse
        bend = weight * model.inverse * model.inverse
        total = RESERVED_TOTAL_WEIGHT * model.inverse[-1] * model.usable
        slopes = (node[:-1], bend[:-1], node[-1] + total, bend[-1])
        self._reserved = model.reserved.astype(_ROUGH)
        # What is next to nothing costs the processor more time than a number.
        return _Slopes(*(np.where(np.abs(s) < _NOTHING, 0.0, s).astype(_ROUGH) for s in slopes))

    def _loss(self, kind: int, slopes: _Slopes, instances: Ints, others: Ints) -> Rough:
        """instance x other: by how much the score would grow, about; infinite when not allowed."""
        model = self._model
        p, s = model.primary[instances][:, None], model.secondary[instances][:, None]
        q, u = model.primary[others], model.secondary[others]
        if kind == SECONDARIES:
            allowed = (s != u) & (u != p) & (s != q) & self._both_drbd(instances, others)
            loss = self._exchange(slopes, self._secondary, model.secondary, instances, others)
            loss += self._rebacked(slopes, instances, q, self._reserve[others])
            loss += self._rebacked(slopes, others, p.T[0], self._reserve[instances]).T
            allowed &= self._stored(model.secondary, instances, others)
        elif kind == PRIMARIES:
            allowed = (p != q) & (u != p) & (s != q)
            loss = self._exchange(slopes, self._primary, model.primary, instances, others)
            loss += self._reprimed(slopes, instances, q)
            loss += self._reprimed(slopes, others, p.T[0]).T
            allowed &= self._stored(model.primary, instances, others)
        else:
            allowed = (p != u) & (u != s) & (p != q) & self._both_drbd(instances, others)
            loss = self._crossed(slopes, instances, others)
            loss += self._reprimed(slopes, instances, u)
        return np.where(allowed, loss, np.inf)

    def _both_drbd(self, instances: Ints, others: Ints) -> Mask:
        drbd = self._model.figures.drbd
        both: Mask = drbd[instances][:, None] & drbd[others]
        return both

    def _stored(self, node_of: Ints, instances: Ints, others: Ints) -> Mask:
        """Whether either has room where the other was."""
        model, disk = self._model, self._disk
        room = model.disk_slack[node_of].astype(_ROUGH) + disk
        fits: Mask = (room[instances][:, None] > disk[others]) & (
            disk[instances][:, None] < room[others]
        )
        return fits

    def _exchange(
        self, slopes: _Slopes, figures: Rough, node_of: Ints, instances: Ints, others: Ints
    ) -> Rough:
        """Two instances take each other's node in one role."""
        mine, theirs = figures[instances], figures[others]
        loss = self._replaced(slopes, node_of[instances], mine, theirs)
        loss += self._replaced(slopes, node_of[others], theirs, mine).T
        return loss

    def _crossed(self, slopes: _Slopes, instances: Ints, others: Ints) -> Rough:
        """The instance's primary gets the other's secondary, and the other way round."""
        model = self._model
        mine, theirs = self._primary[instances], self._secondary[others]
        loss = self._replaced(slopes, model.primary[instances], mine, theirs)
        loss += self._replaced(slopes, model.secondary[others], theirs, mine).T
        return loss

    @staticmethod
    def _replaced(slopes: _Slopes, node: Ints, goes: Rough, comes: Rough) -> Rough:
        """goes x comes: on the node of what goes, what comes takes its place."""
        slope, bend = slopes.node[:, node].T, slopes.bend[:, node].T
        own = (goes * (bend * goes - slope)).sum(axis=1)
        loss: Rough = (slope - 2.0 * bend * goes) @ comes.T
        loss += bend @ (comes * comes).T
        loss += own[:, None]
        return loss

    def _reprimed(self, slopes: _Slopes, instances: Ints, primary: Ints) -> Rough:
        """instance x other: the instance's secondary backs it at another primary."""
        loss = self._rebacked(slopes, instances, primary, self._reserve[instances][:, None])
        return loss * self._model.figures.drbd[instances][:, None]

    def _rebacked(self, slopes: _Slopes, instances: Ints, primary: Ints, reserve: Rough) -> Rough:
        """instance x other: the secondary reserves this much for another primary."""
        model = self._model
        s, p = model.secondary[instances], model.primary[instances]
        without = model.reserve_without(s, p, model.figures.reserve[instances])
        needed = self._reserved[s[:, None], primary] + reserve
        np.maximum(needed, without.astype(_ROUGH)[:, None], out=needed)
        needed -= model.needed[s].astype(_ROUGH)[:, None]
        loss: Rough = needed * (
            slopes.reserve[s][:, None] + slopes.bend_reserve[s][:, None] * needed
        )
        return loss
