"""Exchanges: two instances take each other's node in one role.

Single moves end where every node has its share of instances; exchanges keep the numbers and
even out the sizes.  Many pairs of instances are evaluated at once, as two arrays of one length:

* secondaries: (p, s) and (q, u) become (p, u) and (q, s)
* primaries: (p, s) and (q, u) become (q, s) and (p, u)
* crosswise: (p, s) and (q, u) become (u, s) and (q, p)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.score.score import RESERVED_TOTAL_WEIGHT
from ganeti_steward.allocators.state import quantity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ganeti_steward.allocators.balancing.group_model import GroupModel
    from ganeti_steward.allocators.balancing.single_moves import SingleMoves
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask

    Rough = NDArray[np.float32]


SECONDARIES, PRIMARIES, CROSSWISE = range(3)


class Swaps:
    """Legality and gains of exchanges on a group model in its present state."""

    def __init__(self, moves: SingleMoves) -> None:
        self._request, self._model = moves.request, moves.model
        self._deltas, self._costs = moves.deltas, moves.preferences.costs

    def gains(self, kind: int, instances: Ints, others: Ints) -> Floats:
        """pairs: how much lower the score becomes; minus infinite where a rule forbids it.

        An estimate where both carry exclusion tags: these are checked one by one.
        """
        gains = (self._secondaries, self._primaries, self._crosswise)[kind](instances, others)
        if self._model.announced:
            # Announced instances are moved one by one only: their figures count elsewhere.
            real = self._model.figures.real
            gains = np.where(real[instances] & real[others], gains, -np.inf)
        return gains

    def kinds(self) -> list[int]:
        """The kinds that are allowed at all."""
        request = self._request
        kinds = [SECONDARIES] if request.disk_moves else []
        if request.instance_moves and not request.restricted_migration:
            kinds += [PRIMARIES, CROSSWISE] if request.disk_moves else [PRIMARIES]
        return kinds

    def places(
        self, kind: int, instance: int, other: int
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the two are to live then: the instance, the other."""
        model = self._model
        (p, s), (q, u) = model.place(instance), model.place(other)
        if kind == SECONDARIES:
            return (p, u), (q, s)
        if kind == PRIMARIES:
            return (q, s), (p, u)
        return (u, s), (q, p)

    # -- the three kinds

    def _secondaries(self, instances: Ints, others: Ints) -> Floats:
        model, figures = self._model, self._model.figures
        (p, s, r), (q, u, reserve) = self._homes(instances), self._homes(others)
        legal = figures.drbd[instances] & figures.drbd[others] & (s != u) & (u != p) & (s != q)
        legal &= model.takes[s] & model.takes[u]
        same = q == p
        at_s = model.reserve_changed(s, p, -r + same * reserve, q, reserve)
        at_u = model.reserve_changed(u, q, -reserve + same * r, p, r)
        legal &= self._stored(s, others, instances) & self._stored(u, instances, others)
        legal &= self._backs(s, reserve, model.free[s], at_s, new=True)
        legal &= self._backs(u, r, model.free[u], at_u, new=True)
        change_s = self._second(s, others) - self._second(s, instances)
        change_u = self._second(u, instances) - self._second(u, others)
        total = self._deltas.delta(s, change_s, model.free[s], at_s)
        total = total.plus(self._deltas.delta(u, change_u, model.free[u], at_u))
        costs = self._costs(instances, p, u) + self._costs(others, q, s)
        return np.where(legal, self._deltas.gain(total) - costs, -np.inf)

    def _primaries(self, instances: Ints, others: Ints) -> Floats:
        model, figures = self._model, self._model.figures
        (p, s, r), (q, u, reserve) = self._homes(instances), self._homes(others)
        less = figures.use[instances] - figures.use[others]
        first, second = figures.drbd[instances], figures.drbd[others]
        legal = (p != q) & model.takes[p] & model.takes[q] & (q != s) & (u != p)
        if not self._request.disk_moves:
            legal &= ~first & ~second
        free_p, free_q = model.free[p] + less, model.free[q] - less
        legal &= self._stored(p, others, instances) & self._stored(q, instances, others)
        legal &= self._carries(p, others, instances, free_p)
        legal &= self._carries(q, instances, others, free_q)
        change_p = self._first(p, others) - self._first(p, instances)
        change_q = self._first(q, instances) - self._first(q, others)
        total = self._deltas.delta(p, change_p, free_p, model.needed[p])
        total = total.plus(self._deltas.delta(q, change_q, free_q, model.needed[q]))
        nothing = np.zeros((len(model.values) - 1, len(q)))
        joint = first & second & (u == s)
        # A node that is secondary of both is looked at once, with what both change.
        moved = r - joint * reserve
        at_s = model.reserve_changed(s, p, -moved, q, moved)
        total = total.plus(self._deltas.delta(s, nothing, model.free[s], at_s).where(first))
        legal &= ~first | self._backs(s, r, model.free[s], at_s)
        at_u = model.reserve_changed(u, q, -reserve, p, reserve)
        alone = second & ~joint
        total = total.plus(self._deltas.delta(u, nothing, model.free[u], at_u).where(alone))
        legal &= ~alone | self._backs(u, reserve, model.free[u], at_u)
        costs = self._costs(instances, q, s) + self._costs(others, p, u)
        return np.where(legal, self._deltas.gain(total) - costs, -np.inf)

    def _crosswise(self, instances: Ints, others: Ints) -> Floats:
        model, figures = self._model, self._model.figures
        (p, s, r), (q, u, reserve) = self._homes(instances), self._homes(others)
        use = figures.use[instances]
        legal = figures.drbd[instances] & figures.drbd[others] & (p != u) & (u != s) & (p != q)
        legal &= model.takes[p] & model.takes[u]
        free_p, free_u = model.free[p] + use, model.free[u] - use
        at_p = model.reserve_changed(p, q, reserve, q, reserve)
        at_u = model.reserve_changed(u, q, -reserve, q, -reserve)
        at_s = model.reserve_changed(s, p, -r, u, r)
        legal &= self._stored(p, others, instances) & self._stored(u, instances, others)
        legal &= self._carries(u, instances, None, free_u, at_u)
        legal &= self._backs(p, reserve, free_p, at_p, new=True)
        legal &= self._backs(s, r, model.free[s], at_s)
        change_p = self._second(p, others) - self._first(p, instances)
        change_u = self._first(u, instances) - self._second(u, others)
        nothing = np.zeros((len(model.values) - 1, len(q)))
        total = self._deltas.delta(p, change_p, free_p, at_p, -1, 1)
        total = total.plus(self._deltas.delta(u, change_u, free_u, at_u, 1, -1))
        total = total.plus(self._deltas.delta(s, nothing, model.free[s], at_s))
        costs = self._costs(instances, u, s) + self._costs(others, q, p)
        return np.where(legal, self._deltas.gain(total) - costs, -np.inf)

    def _homes(self, instances: Ints) -> tuple[Ints, Ints, Floats]:
        """Primary, secondary, and the MiB the secondary keeps free."""
        model = self._model
        return (
            model.primary[instances],
            model.secondary[instances],
            model.figures.reserve[instances],
        )

    # -- rules

    def _stored(self, node: Ints, comes: Ints, goes: Ints) -> Mask:
        """Whether there is disk for one instance when the other has gone."""
        model, figures = self._model, self._model.figures
        kept = self._kept(quantity.DISK, node)
        fits = model.disk_slack[node] + figures.disk[goes] - kept > figures.disk[comes]
        for pool, sizes in enumerate(figures.pools):
            room = np.where(model.pools_unknown[node], 0.0, model.pools_all[pool, node])
            room = room - self._kept(quantity.pool_rows(pool)[0], node)
            fits &= (room + sizes[goes] > sizes[comes]) | (sizes[comes] == 0)
        fits &= figures.share[comes] <= model.share_slack[node] + figures.share[goes]
        if model.mixed:
            fits &= figures.spindles[comes] <= model.spindle_slack[node] + figures.spindles[goes]
        legal: Mask = fits | ~figures.local[comes]
        return legal

    def _kept(self, row: int, node: Ints) -> Floats | float:
        """MiB in reserve of a quantity."""
        kept = self._model.kept
        return 0.0 if kept is None else kept[row, node]

    def _backs(
        self, node: Ints, reserve: Floats, free: Floats, needed: Floats, *, new: bool = False
    ) -> Mask:
        """Whether a node can be secondary with these figures; ``new``: it gets the copy now."""
        model = self._model
        kept = self._kept(quantity.UNALLOCATED, node) if new else 0.0
        backs: Mask = (reserve < free - kept) & (reserve < model.free_all[node] - kept)
        backs &= model.fails[node] | (free > needed)
        return backs

    def _carries(
        self,
        node: Ints,
        comes: Ints,
        goes: Ints | None,
        free: Floats,
        needed: Floats | None = None,
    ) -> Mask:
        """Whether a node can be primary with these figures."""
        model, figures = self._model, self._model.figures
        vcpus, memory = (0.0, 0.0) if goes is None else (figures.vcpus[goes], figures.memory[goes])
        need = model.needed[node] if needed is None else needed
        kept = 0.0 if model.closed is None else model.closed[node]
        carries: Mask = (free > kept) & (model.fails[node] | (free > need))
        carries &= figures.vcpus[comes] <= model.vcpu_slack[node] + vcpus
        carries &= figures.memory[comes] < model.free_all[node] + memory - kept
        return carries

    # -- what changes

    def _first(self, node: Ints, instances: Ints) -> Floats:
        return self._deltas.values_of(instances, node, primary=True)

    def _second(self, node: Ints, instances: Ints) -> Floats:
        return self._deltas.values_of(instances, node, primary=False)


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
        self._sizes = np.vstack([figures.disk, figures.pools]).astype(_ROUGH)
        """the cluster's volume group, then the others x instances: MiB"""
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
        model = self._model
        slack = np.vstack([model.disk_slack, model.pools_all])
        if model.kept is not None:
            slack -= model.kept[[quantity.DISK, *range(quantity.ROWS, len(model.kept), 2)]]
        fits: Mask = np.ones((len(instances), len(others)), np.bool_)
        for pool, (free, disk) in enumerate(zip(slack, self._sizes, strict=True)):
            room = free[node_of].astype(_ROUGH) + disk
            # Apart from the cluster's, nodes need no volume group that the instance does not use.
            needless = (disk == 0) & (pool > 0)
            fits &= (room[instances][:, None] > disk[others]) | needless[others]
            fits &= (disk[instances][:, None] < room[others]) | needless[instances][:, None]
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
