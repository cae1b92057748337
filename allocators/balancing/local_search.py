"""Looking for a better placement on a model: single moves first, then exchanges.

Both descend greedily: the best change known is made, then the next.  What an instance could
gain is only recomputed when it comes to the top of the list; most gains shrink as the
group gets more even, so those below need no look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from ganeti_steward.allocators.balancing.swaps import PairFinder, Pairs, Swaps
from ganeti_steward.allocators.score.tolerance import TOLERANCE

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.group_model import Placement
    from ganeti_steward.allocators.balancing.single_moves import Best, SingleMoves
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask

#: How much of a gain the largest disk costs when the next move is chosen.
_SMALLER: Final = 0.01

#: Exchanges estimated at once; what counts is the memory it takes ...
_ESTIMATED: Final = 1_000_000
#: ... and how many of them are evaluated exactly.
_JUDGED: Final = 256
#: After so many that no order makes legal, others of the same look are not tried.
_MISSES: Final = 16


class Tested(Protocol):
    """What tests each move before it is made, and makes it in a state of its own."""

    def passes(self, instance: int, place: tuple[int, int]) -> bool:
        """Whether an instance may go to a place of the group; if so, it is there."""

    def mark(self) -> Any:
        """This moment, for `back`."""

    def back(self, mark: Any) -> None:
        """Forget what was done since then."""


class LocalSearch:
    """One search on one model, which it changes."""

    def __init__(
        self,
        moves: SingleMoves,
        home: Placement,
        least: float,
        limit: int | None = None,
        locked: Mask | None = None,
        progress: Tested | None = None,
    ) -> None:
        """``home``: where the instances are before any move; ``least``: what a change must gain;
        ``limit``: how many instances may live elsewhere than at home in the end; ``locked``:
        instances that stay where they are now; ``progress``: refuses what leaves an instance
        stuck, and is where the model is.

        With a limit no more is copied for exchanges than for the moves before them: who
        limits a plan wants it cheap.
        """
        model = moves.model
        self._moves, self._model = moves, model
        self._limit, self._least = limit, max(least, TOLERANCE)
        self._swaps, self._finder = Swaps(moves), PairFinder(model)
        self._home, self._progress = home, progress
        everyone = np.arange(len(model.residents))
        self._everyone = everyone
        self._free = np.ones(len(everyone), np.bool_) if locked is None else ~locked
        disk = model.figures.all_disk
        self._ease = 1.0 - _SMALLER * disk / max(float(disk.max(initial=0)), 1.0)
        self._budget = np.inf

    @property
    def moved(self) -> Mask:
        """Which instances live elsewhere than at the start."""
        primary, secondary = self._home
        moved: Mask = (self._model.primary != primary) | (self._model.secondary != secondary)
        return moved

    def run(self) -> None:
        """Descend until neither a move nor an exchange lowers the score."""
        while True:
            self.descend()
            if self._limit is not None:
                self._budget = self.copied()
            if not self._exchange_all():
                return

    def copied(self) -> float:
        """MiB to be copied to get here from the start."""
        model = self._model
        return float(self._copied(self._everyone, model.primary, model.secondary).sum())

    def _copied(self, instances: Ints, primary: Ints, secondary: Ints) -> Floats:
        """MiB to be copied for these instances to live there."""
        first, second = (home[instances] for home in self._home)
        copies = ((primary != first) & (primary != second)).astype(np.int64)
        copies += (secondary != first) & (secondary != second)
        figures = self._model.figures
        copied: Floats = copies * figures.all_disk[instances] * figures.drbd[instances]
        return copied

    def _movable(self) -> Mask:
        """Which instances may be moved under the limit."""
        moved = self.moved
        if self._limit is None or moved.sum() < self._limit:
            return self._free
        return moved & self._free

    # -- single moves

    def descend(self) -> int:
        """Move single instances while that lowers the score; how many moves were made."""
        made = 0
        while True:
            known = np.full(len(self._everyone), -np.inf)
            which = self._everyone[self._movable()]
            if not len(which):
                return made
            known[which] = self._ranked(which, self._moves.best(which))
            found = self._descend(known)
            made += found
            if not found:
                return made

    def _descend(self, known: Floats) -> int:
        """Follow the list of known gains down to nothing."""
        made, width = 0, max(4, self._moves.block // 8)
        while True:
            known[~self._movable()] = -np.inf
            top = np.argpartition(-known, min(width, len(known)) - 1)[:width]
            top = top[known[top] > self._least]
            if not len(top):
                return made
            found = self._moves.best(top)
            rank = self._ranked(top, found)
            known[top] = rank
            at = int(rank.argmax())
            if rank[at] <= self._least or known.max() > rank[at]:
                continue
            instance, place = int(top[at]), (int(found.primary[at]), int(found.secondary[at]))
            if not self._passes((instance, place)):
                known[instance] = -np.inf
                continue
            self._model.move(instance, *place)
            made += 1

    def _passes(self, *moves: tuple[int, tuple[int, int]]) -> bool:
        """Whether these moves, one after the other, leave nothing newly stuck."""
        if self._progress is None:
            return True
        mark = self._progress.mark()
        if all(self._progress.passes(*move) for move in moves):
            return True
        self._progress.back(mark)
        return False

    def _ranked(self, instances: Ints, best: Best) -> Floats:
        """Gains in the order in which they are taken: of two alike the smaller disk first."""
        ranked: Floats = best.rank * self._ease[instances]
        return ranked

    # -- exchanges

    def _exchange_all(self) -> int:
        """Exchange instances while that lowers the score; how many exchanges were made."""
        made = 0
        while True:
            found = sum(self._exhaust(kind) for kind in self._swaps.kinds())
            made += found
            if not found:
                return made

    def _exhaust(self, kind: int) -> int:
        """Exchanges of one kind until a whole turn through the instances finds none."""
        made = start = idle = 0
        while True:
            partners = self._partners()
            step = max(1, _ESTIMATED // max(len(partners), 1))
            start = 0 if start >= len(partners) else start
            instances = partners[start : start + step]
            found = self._exchange(kind, instances, partners)
            made += found
            idle = 0 if found else idle + len(instances)
            if not found:
                start += step
            if idle >= len(partners):
                return made

    def _partners(self) -> Ints:
        """Who may take part; two more must still be allowed to move, else only the moved."""
        moved = self.moved
        if self._limit is None or moved.sum() + 2 <= self._limit:
            return np.flatnonzero(self._free)
        return np.flatnonzero(moved & self._free)

    def _exchange(self, kind: int, instances: Ints, partners: Ints) -> int:
        """Make the exchanges of one kind that look best now; how many were made."""
        pairs = self._finder.best(kind, _JUDGED, instances, partners)
        made = 0
        while len(pairs.instances):
            gains = self._swaps.gains(*pairs)
            found = self._make(pairs, gains)
            made += found
            pairs = pairs.only(gains > self._least)
            if not found:
                break
        return made

    def _make(self, pairs: Pairs, gains: Floats) -> int:
        """Make the best of these exchanges, on each node at most one."""
        made, missed, touched = 0, 0, set[int]()
        for at in np.argsort(-gains).tolist():
            if gains[at] <= self._least or missed >= _MISSES:
                break
            instance, other = int(pairs.instances[at]), int(pairs.others[at])
            nodes = self._nodes_of(instance) | self._nodes_of(other)
            # What was made meanwhile has changed what is known of these nodes.
            if nodes & touched:
                continue
            if self._try(pairs.kind, instance, other):
                made += 1
                touched |= nodes
            else:
                missed += 1
        return made

    def _nodes_of(self, instance: int) -> set[int]:
        return {*self._model.place(instance)} - {-1}

    def _try(self, kind: int, instance: int, other: int) -> bool:
        """Make an exchange if one can go before the other and it is still worth it."""
        mine, others = self._swaps.places(kind, instance, other)
        order = ((instance, mine), (other, others))
        if not self._affordable(order):
            return False
        return any(self._in_turn(*pair) for pair in (order, order[::-1]))

    def _affordable(self, order: tuple[tuple[int, tuple[int, int]], ...]) -> bool:
        """Whether the exchange stays within the limits."""
        if self._limit is None:
            return True
        model = self._model
        instances = np.array([instance for instance, _ in order])
        primary, secondary = np.array([place for _, place in order]).T
        home = self._home[0][instances], self._home[1][instances]
        away = (primary != home[0]) | (secondary != home[1])
        moved = self.moved
        if moved.sum() - moved[instances].sum() + away.sum() > self._limit:
            return False
        now = self._copied(instances, model.primary[instances], model.secondary[instances]).sum()
        then = self._copied(instances, primary, secondary).sum()
        return bool(self.copied() - now + then <= self._budget)

    def _in_turn(
        self, first: tuple[int, tuple[int, int]], second: tuple[int, tuple[int, int]]
    ) -> bool:
        """Move one instance, then the other; nothing is done where a rule or the gain forbids."""
        model, legality, preferences = self._model, self._moves.legality, self._moves.preferences
        (one, there), (other, then) = first, second
        score = model.score
        score -= preferences.site_cost(one, *there) + preferences.site_cost(other, *then)
        if not legality.legal_to(one, *there):
            return False
        back = model.place(one)
        model.move(one, *there)
        if legality.legal_to(other, *then):
            home = model.place(other)
            model.move(other, *then)
            if model.score < score - self._least and self._passes(first, second):
                return True
            model.move(other, *home)
        model.move(one, *back)
        return False
