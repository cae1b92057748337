"""Changes of the score terms when instances move.

The score changes only by the terms of the changed nodes (allocation 5), so each part of a move
is computed node by node and the parts are added.

Index arrays are broadcast: ``g`` stands for instances, ``t`` for target nodes, and results have
their common shape, with one more axis in front where a line names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import GroupModel
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask


class Delta(NamedTuple):
    """Change of the score terms when nodes get new figures."""

    square: Floats
    """components x ...: change of the sum of squares"""
    shift: Floats
    """components x ...: change of the sum"""
    own: Floats
    """...: change of the sum components of the score, weighted"""

    def plus(self, other: Delta) -> Delta:
        """The sum of both; shapes are broadcast."""
        return Delta(self.square + other.square, self.shift + other.shift, self.own + other.own)

    def where(self, which: Mask) -> Delta:
        """The same, but 0 outside ``which``."""
        return Delta(self.square * which, self.shift * which, self.own * which)


class Deltas:
    """The parts of moves on a group model in its present state."""

    def __init__(self, model: GroupModel) -> None:
        self._model = model

    def delta(
        self,
        node: Ints,
        change: Floats,
        free: Floats,
        needed: Floats,
        primaries: int = 0,
        secondaries: int = 0,
        real: Mask | None = None,
    ) -> Delta:
        """Change of the score terms when nodes get new figures.

        ``change``: components but the last x ..., the change of the node's values; ``free`` and
        ``needed``: MiB of unallocated memory and of N+1 reserve then; ``primaries`` and
        ``secondaries``: change of their numbers; ``real``: whether the instance is more than
        announced (None: it is), only then the numbers and the N+1 flag change.
        """
        model = self._model
        count = model.counted(
            node,
            model.primaries[node] + primaries,
            model.secondaries[node] + secondaries,
            free <= needed,
            needed,
        )
        count = count - model.own[node]
        if real is not None:
            count = count * real
        reserve = (needed - model.needed[node]) * model.inverse[-1, node]
        shape = np.broadcast_shapes(change.shape[1:], count.shape)
        shift = np.empty((len(model.values), *shape))
        shift[:-1], shift[-1] = change, reserve
        centred = model.centred[:, node]
        if not model.all_usable:
            shift *= model.usable[node]
        return Delta(
            shift * (2.0 * centred.reshape(self._aligned(centred, shift)) + shift), shift, count
        )

    @staticmethod
    def _aligned(narrow: Floats, wide: Floats) -> tuple[int, ...]:
        """The shape in which a components x ... array broadcasts against one of more dimensions."""
        missing = wide.ndim - narrow.ndim
        return (narrow.shape[0], *[1] * missing, *narrow.shape[1:])

    def values_of(self, g: Ints, node: Ints, *, primary: bool) -> Floats:
        """components but the last x ...: what an instance adds to the values of a node."""
        model = self._model
        figures = model.figures.as_primary if primary else model.figures.as_secondary
        mine = figures[model.kind[node], g] if model.mixed else figures[0, g]
        inverse = model.inverse[:-1, node]
        change = np.moveaxis(mine[..., :-1], -1, 0)
        if inverse.ndim < change.ndim:
            inverse = inverse.reshape(self._aligned(inverse, change))
        return change * inverse

    def _real(self, g: Ints) -> Mask | None:
        """Which instances are more than announced; None when all are."""
        return self._model.figures.real[g] if self._model.announced else None

    def primary_at(self, g: Ints, t: Ints) -> Delta:
        """A node as new primary."""
        model = self._model
        free = model.free[t] - model.figures.use[g]
        change = self.values_of(g, t, primary=True)
        return self.delta(t, change, free, model.needed[t], 1, 0, self._real(g))

    def secondary_at(self, g: Ints, t: Ints, primary: Ints) -> Delta:
        """A node as new secondary of a primary."""
        model = self._model
        kept = model.reserved[t, primary] + model.figures.reserve[g]
        needed = np.maximum(model.needed[t], kept)
        change = self.values_of(g, t, primary=False)
        return self.delta(t, change, model.free[t], needed, 0, 1, self._real(g))

    def primary_left(self, g: Ints) -> Delta:
        """An instance's primary without it."""
        model, p = self._model, self._model.primary[g]
        free = model.free[p] + model.figures.use[g]
        change = -self.values_of(g, p, primary=True)
        return self.delta(p, change, free, model.needed[p], -1, 0, self._real(g))

    def secondary_left(self, g: Ints) -> Delta:
        """An instance's secondary without it."""
        model, s = self._model, self._model.secondary[g]
        needed = model.reserve_without(s, model.primary[g], model.figures.reserve[g])
        change = -self.values_of(g, s, primary=False)
        return self.delta(s, change, model.free[s], needed, 0, -1, self._real(g))

    def secondary_promoted(self, g: Ints) -> Delta:
        """An instance's secondary as its primary."""
        model, s = self._model, self._model.secondary[g]
        needed = model.reserve_without(s, model.primary[g], model.figures.reserve[g])
        free = model.free[s] - model.figures.use[g]
        change = self.values_of(g, s, primary=True) - self.values_of(g, s, primary=False)
        return self.delta(s, change, free, needed, 1, -1, self._real(g))

    def demoted(self, g: Ints, t: Ints) -> Delta:
        """An instance's primary as its secondary, the target being primary."""
        model, p = self._model, self._model.primary[g]
        kept = model.reserved[p, t] + model.figures.reserve[g]
        needed = np.maximum(model.needed[p], kept)
        free = model.free[p] + model.figures.use[g]
        change = self.values_of(g, p, primary=False) - self.values_of(g, p, primary=True)
        return self.delta(p, change, free, needed, -1, 1, self._real(g))

    def kept(self, g: Ints, t: Ints) -> Delta:
        """An instance's secondary staying so, the target being primary."""
        model, s, reserve = self._model, self._model.secondary[g], self._model.figures.reserve[g]
        without = model.reserve_without(s, model.primary[g], reserve)
        needed = np.maximum(without, model.reserved[s, t] + reserve)
        nothing = np.zeros((len(model.values) - 1, *[1] * needed.ndim))
        return self.delta(s, nothing, model.free[s], needed, real=self._real(g))

    def gain(self, delta: Delta) -> Floats:
        """How much lower the score becomes."""
        model, n = self._model, self._model.online
        variance = model.variance.reshape(-1, *[1] * (delta.square.ndim - 1))
        mean = delta.shift / n
        after = delta.square / n
        after += variance
        mean *= mean
        after -= mean
        np.maximum(after, 0.0, out=after)
        np.sqrt(after, out=after)
        spread = np.tensordot(model.weights, after, axes=1)
        gain: Floats = model.spread - spread - delta.own
        return gain
