"""The best single move, again and again: the path that hbal takes (allocation 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.planning.progress import Progress
from ganeti_steward.allocators.rules import move_kinds
from ganeti_steward.allocators.score.tolerance import TOLERANCE

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import Placement
    from ganeti_steward.allocators.balancing.planning.group import GroupSearch
    from ganeti_steward.allocators.state.arrays import Floats, Ints

#: Gains that differ by less are the same number, computed in another order.
_SAME: Final = 1e-11

#: hbal's order: failing over is tried first, then these for each node.
_KINDS: Final = (
    move_kinds.REPLACE_SECONDARY,
    move_kinds.REPLACE_AND_FAILOVER,
    move_kinds.REPLACE_PRIMARY,
    move_kinds.FAILOVER_AND_REPLACE,
)


class BestMoves(NamedTuple):
    """Where the best single moves lead."""

    placement: Placement
    there: Placement
    """where hbal would stop"""
    order: tuple[int, ...]
    """the instance of each move, in order"""
    score: float
    """the group's score where hbal would stop"""
    value: float
    """that score with what site rules charge there"""
    copied: float
    """MiB that hbal would copy until there"""
    places: tuple[tuple[int, int], ...] = ()
    """where each move leads, in order; empty where that is not known"""


def best_moves(
    group: GroupSearch,
    limit: int | None,
    bound: float,
    *,
    as_hbal: bool = False,
    once: bool = False,
) -> BestMoves:
    """Follow the path from home; the model is left at its end.

    ``as_hbal``: leave instances without disks where they are, and make moves after which more
    instances are stuck.

    ``once``: move each instance at most once, and count gains alone; so the path is a plan.

    ``limit``: hbal's number of moves, and of instances that may move here; several moves of one
    instance become one job, so that more may be left.  ``bound``: no placement has a lower score.
    """
    return _Path(group, limit, bound, as_hbal=as_hbal, once=once).run()


class _Path:
    def __init__(
        self, group: GroupSearch, limit: int | None, bound: float, *, as_hbal: bool, once: bool
    ) -> None:
        self._once, self._factor = once, 1.0 if once else group.request.disk_factor
        self._group, self._limit, self._bound = group, limit, bound
        self._model, self._moves = group.model, group.moves
        self._progress = Progress(group) if group.test and not as_hbal else None
        self._banned: dict[int, set[tuple[int, int]]] = {}
        self._candidates = np.flatnonzero(~(as_hbal & group.diskless))

    def run(self) -> BestMoves:
        """Move until nothing gains enough."""
        model, group = self._model, self._group
        model.go(group.home)
        moves, places, copied = list[int](), list[tuple[int, int]](), 0.0
        stop: tuple[Placement, float, float, float] | None = None
        while (found := self._next()) is not None:
            instance, primary, secondary = found
            if len(moves) == self._limit:
                stop = (model.placement, model.score, group.valued(), copied)
            kind = move_kinds.kind_between(model.place(instance), (primary, secondary))
            copied += (kind.copies if kind else 0) * float(group.mib[instance])
            model.move(instance, primary, secondary)
            moves.append(instance)
            places.append((primary, secondary))
        end = (model.placement, model.score, group.valued(), copied)
        there, score, value, mib = stop or end
        return BestMoves(model.placement, there, tuple(moves), score, value, mib, tuple(places))

    def _next(self) -> tuple[int, int, int] | None:
        """The best move that is worth it and leaves nothing stuck."""
        if self._group.valued() <= self._bound + TOLERANCE:
            return None
        which, moved = self._candidates, self._group.moved(self._model.placement)
        if self._once:
            which = np.setdiff1d(which, np.flatnonzero(moved))
        if self._limit is not None:
            which = which if moved.sum() < self._limit else which[moved[which]]
        while len(which):
            gain, instance, place = self._best(which)
            request = self._group.request
            small = self._model.score <= request.min_gain_limit and gain < request.min_gain
            if gain <= TOLERANCE or small:
                return None
            if self._progress is None or self._progress.passes(instance, place):
                # What was refused in this state may pass in the next.
                self._banned.clear()
                return instance, *place
            self._banned.setdefault(instance, set()).add(place)
        return None

    def _best(self, which: Ints) -> tuple[float, int, tuple[int, int]]:
        """Gain, instance and place of the first of the best moves, in hbal's order."""
        best, instance, column = -np.inf, int(which[0]), 0
        for start in range(0, len(which), self._moves.block):
            some = which[start : start + self._moves.block]
            ranks = self._ranks(some)
            most = float(ranks.max())
            if most > best + _SAME:
                best = most
                row, column = divmod(int(np.argmax(ranks >= most - _SAME)), ranks.shape[1])
                instance = int(some[row])
        copies = column > 0 and self._model.secondary[instance] >= 0
        gain = best * self._factor if copies else best
        return gain, instance, self._place(instance, column)

    def _place(self, instance: int, column: int) -> tuple[int, int]:
        p, s = self._model.place(instance)
        if column == 0:
            return s, p
        target, kind = divmod(column - 1, len(_KINDS))
        return (target, -1) if s < 0 else _KINDS[kind].place(p, s, target)

    def _ranks(self, instances: Ints) -> Floats:
        """instance x (failing over, then each node with each kind of move): gains.

        Without a secondary the first kind stands for moving to the node.
        """
        size, kinds = self._model.size, len(_KINDS)
        ranks = np.full((len(instances), 1 + size * kinds), -np.inf)
        drbd = self._model.figures.drbd[instances]
        paired, single = np.flatnonzero(drbd), np.flatnonzero(~drbd)
        if len(paired):
            gains = self._moves.drbd_gains(instances[paired])
            ranks[paired, 0] = gains[move_kinds.DRBD_MOVES.index(move_kinds.FAILOVER)].max(axis=1)
            others = gains[[move_kinds.DRBD_MOVES.index(kind) for kind in _KINDS]]
            others = others / self._factor
            ranks[paired, 1:] = others.transpose(1, 2, 0).reshape(len(paired), -1)
        if len(single):
            ranks[single[:, None], 1 + kinds * np.arange(size)] = self._moves.single_gains(
                instances[single]
            )
        self._forbid(instances, ranks)
        return ranks

    def _forbid(self, instances: Ints, ranks: Floats) -> None:
        """Leave out what the capacity test has refused."""
        for row, instance in enumerate(instances.tolist()):
            banned = self._banned.get(instance)
            if banned:
                for column in range(ranks.shape[1]):
                    if self._place(instance, column) in banned:
                        ranks[row, column] = -np.inf
