"""A plan for one node group: several searches, and the best of their plans that keeps the rules.

The path of the best single moves, which hbal takes, is the floor: a plan ends no worse, and the
jobs that lead to hbal's final score copy no more than hbal does, as far as any plan found can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.local_search import LocalSearch
from ganeti_steward.allocators.balancing.planning.best_moves import BestMoves, best_moves
from ganeti_steward.allocators.balancing.planning.jobs import Limits, Planned, carry_out
from ganeti_steward.allocators.balancing.planning.progress import Progress
from ganeti_steward.allocators.score.tolerance import TOLERANCE
from ganeti_steward.core.model.requests import MIN_GAIN_PER_GIB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from ganeti_steward.allocators.balancing.group_model import Placement
    from ganeti_steward.allocators.balancing.planning.group import GroupSearch
    from ganeti_steward.allocators.state.arrays import Mask


#: The number of random moves of one disturbance.
_KICK: Final = (2, 6)


def iterate(
    group: GroupSearch,
    rng: Random,
    kicks: int,
    locked: Mask | None = None,
    progress: Progress | None = None,
) -> None:
    """Improve the model's placement, by the score and the price of copies.

    ``kicks``: how many disturbances are tried; ``locked``: instances that stay where they are;
    ``progress``: see `LocalSearch`.
    """
    model = group.model
    search = LocalSearch(group.moves, group.home, TOLERANCE, locked=locked, progress=progress)
    search.run()
    best, value = model.placement, group.priced()
    mark = progress.mark() if progress else None
    free = np.arange(len(group.residents)) if locked is None else np.flatnonzero(~locked)
    if not len(free):
        return
    for _ in range(kicks):
        for _ in range(rng.randint(*_KICK)):
            random_move(group, rng, int(rng.choice(free)), progress)
        search.run()
        found = group.priced()
        if found < value - TOLERANCE:
            best, value = model.placement, found
            mark = progress.mark() if progress else None
        else:
            model.go(best)
            if progress and mark:
                progress.back(mark)


def random_move(group: GroupSearch, rng: Random, instance: int, progress: Progress | None) -> None:
    """Move an instance by any legal move, if there is one."""
    model, one = group.model, np.array([instance])
    p, s = model.place(instance)
    if s < 0:
        legal = np.isfinite(group.moves.single_gains(one))[0]
        places = [(int(target), -1) for target in np.flatnonzero(legal)]
    else:
        gains = group.moves.drbd_gains(one)[:, 0]
        places = [
            group.moves.place_of(int(kind), p, s, int(target))
            for kind, target in zip(*np.nonzero(np.isfinite(gains)), strict=True)
        ]
    if not places:
        return
    place = rng.choice(places)
    if progress is None or progress.passes(instance, place):
        model.move(instance, *place)


Jobs = tuple[Planned, ...]

#: Instances x nodes up to which search has no end of its own, and up to which hbal's path is
#: followed exactly: some seconds of CPU time, where hbal takes minutes.
_SMALL: Final = 4_000
_FOLLOWED: Final = 20_000
#: Disturbances of a search without limits: the least, the most, and instances x nodes for each
#: one more.
_KICKS: Final = (6, 100, 10)
#: On large groups: what a single move must gain.
_LEAST: Final = 1e-4
#: The price of copies while searching without limits, as a share of hbal's final score for all
#: that hbal copies: of placements about as good the cheap ones are found.
_SHARE: Final = 0.1
#: How often a search is repeated without the instances that cannot get to their place.
_ROUNDS: Final = 3


class _Value(NamedTuple):
    """What makes one plan better than another, the most important first; smaller is better."""

    worse_than_hbal: float
    copies_more: bool
    """than hbal, where its path is legal"""
    cost: float


class GroupPlanner:
    """The searches for one group under the limits of a request."""

    def __init__(self, group: GroupSearch, start: float, bound: float, limits: Limits) -> None:
        """``start``: the group's score now; ``bound``: no placement has a lower one."""
        request = group.request
        self._group, self._bound, self._limits = group, bound, limits
        self._start, self._site = start, group.moves.preferences.site_total()
        self._default = request.min_gain_per_gib is None
        self._per_gib = MIN_GAIN_PER_GIB if self._default else request.min_gain_per_gib or 0.0
        self._refused = False
        self._is_small = group.size <= _SMALL
        self._endless = (
            request.min_gain == 0 and self._per_gib == 0 and limits == Limits() and self._is_small
        )
        self._jobs_limit = None if limits.jobs == np.inf else int(limits.jobs)

    @property
    def refused(self) -> bool:
        """Whether the capacity test kept a plan from something."""
        return self._refused

    def plan(self, rng: Random) -> Jobs:
        """The jobs of the best plan found."""
        if not self._group.residents or self._jobs_limit == 0:
            return ()
        follows = self._group.size <= _FOLLOWED
        self._path = self._best_moves(as_hbal=True) if follows else self._descent()
        self._best: Jobs = ()
        self._copies_count = self._is_legal(self._path)
        if not self._path.order and self._default:
            self._without_copies()
            return self._best
        self._offer_path(self._path)
        if not self._keeps_floor or (self._group.diskless.any() and self._is_small):
            self._offer_path(self._best_moves(as_hbal=False) if follows else self._descent())
        if follows and not self._is_small:
            self._offer(self._descent().placement)
        if self._is_small:
            once = self._best_moves(as_hbal=False, once=True)
            self._offer(once.placement, once.order, rounds=1)
        if self._endless:
            self._search_on(rng)
        else:
            self._improve()
        if self._refused:
            self._keep_clear(rng)
        return self._best

    # -- searches

    def _best_moves(self, *, as_hbal: bool, once: bool = False) -> BestMoves:
        group = self._group
        if not self._default:
            group.set_price(self._per_gib)
        group.moves.legality.as_hbal = as_hbal
        path = best_moves(group, self._jobs_limit, self._bound, as_hbal=as_hbal, once=once)
        group.moves.legality.as_hbal = False
        return path

    def _descent(self) -> BestMoves:
        """Single moves of many instances at once: where large groups get to quickly."""
        group = self._group
        if not self._default:
            group.set_price(self._per_gib)
        group.model.go(group.home)
        LocalSearch(group.moves, group.home, _LEAST, self._jobs_limit).descend()
        there = group.model.placement
        moved = tuple(np.flatnonzero(group.moved(there)).tolist())
        score, value = group.model.score, group.valued()
        return BestMoves(there, there, moved, score, value, group.copied(there))

    def _without_copies(self) -> None:
        """hbal would do nothing: nothing is copied either."""
        group = self._group
        group.model.go(group.home)
        moves = group.moves_of(group.request._replace(disk_moves=False))
        LocalSearch(moves, group.home, self._least, self._jobs_limit).run()
        self._offer(group.model.placement)

    @property
    def _least(self) -> float:
        return max(self._group.request.min_gain, TOLERANCE)

    def _improve(self) -> None:
        """Go on from the best single moves with exchanges, as far as these are worth it."""
        group = self._group
        self._go_to_end()
        group.set_price(self._per_gib, group.model.placement if self._default else None)
        self._descend(None)
        self._offer(group.model.placement)
        first = self._first()
        self._go_to_end()
        self._descend(self._locked(first))
        self._offer(group.model.placement, first)

    def _keep_clear(self, rng: Random) -> None:
        """Go on from the best plan; every move is tested for what it leaves stuck."""
        group, progress = self._group, Progress(self._group)
        for one in self._best:
            progress.take(one.instance, one.after, one.place)
        self._go_to_end()
        if self._endless:
            group.set_price(0.0)
            iterate(group, rng, self._kicks, None, progress)
        else:
            group.set_price(self._per_gib, group.model.placement if self._default else None)
            moves, home = group.moves, group.home
            LocalSearch(moves, home, self._least, self._jobs_limit, None, progress).run()
        self._offer(group.model.placement)
        self._offer(group.model.placement, progress.order)

    def _descend(self, locked: Mask | None) -> None:
        moves, home = self._group.moves, self._group.home
        LocalSearch(moves, home, self._least, self._jobs_limit, locked).run()

    def _search_on(self, rng: Random) -> None:
        """Search on and on; first for a cheap way, then for the best end of that way."""
        group = self._group
        gib = max(self._path.copied / 1024, 1.0)
        group.set_price(_SHARE * self._path.score / gib)
        self._go_to_end()
        iterate(group, rng, self._kicks)
        self._offer(group.model.placement)
        first = self._first()
        self._go_to_end()
        group.set_price(0.0)
        iterate(group, rng, self._kicks, self._locked(first))
        self._offer(group.model.placement, first)

    def _is_legal(self, path: BestMoves) -> bool:
        """Whether a path keeps to the rules as it is, as far as its moves are known."""
        group, progress = self._group, Progress(self._group)
        group.model.go(group.home)
        for instance, place in zip(path.order, path.places, strict=False):
            legal = group.moves.legality.legal_to(instance, *place)
            passes = progress.passes(instance, place)
            self._refused = self._refused or not passes
            if not legal or not passes:
                return False
            group.model.move(instance, *place)
        return True

    @property
    def _kicks(self) -> int:
        return min(_KICKS[0] + self._group.size // _KICKS[2], _KICKS[1])

    # -- plans

    def _offer_path(self, path: BestMoves) -> None:
        """The best single moves, in the order of their gains by what they copy and in their own."""
        order = path.order
        for first in ((), tuple(dict.fromkeys(order)), tuple(dict.fromkeys(order[::-1]))[::-1]):
            self._offer(path.there, first, rounds=1)
            if self._keeps_floor:
                break
        self._offer_parts(path)
        if path.there is not path.placement:
            self._offer(path.placement, self._first(), rounds=1)

    def _offer_parts(self, path: BestMoves) -> None:
        """The longest first part of the moves that one job for each instance carries out.

        Where a longer part cannot be reached, a shorter one mostly can: halving finds the end.
        """
        group, reached, beyond = self._group, 0, len(path.places) + self._keeps_floor
        while beyond - reached > 1 and not self._keeps_floor:
            middle = (reached + beyond) // 2
            group.model.go(group.home)
            for instance, place in zip(path.order[:middle], path.places, strict=False):
                group.model.move(instance, *place)
            first = tuple(dict.fromkeys(path.order[:middle]))
            whole = self._offer(group.model.placement, first, rounds=1)
            reached, beyond = (middle, beyond) if whole else (reached, middle)

    @property
    def _keeps_floor(self) -> bool:
        """Whether the best plan is no worse than hbal's path and copies no more on the way."""
        best = self._value(self._best)
        return bool(self._best) and not best.worse_than_hbal and not best.copies_more

    def _offer(
        self, placement: Placement, first: Sequence[int] = (), rounds: int = _ROUNDS
    ) -> bool:
        """Make jobs for a placement and keep them if they are the best so far.

        Whether they lead there; False also where a limit ends them.
        """
        group = self._group
        price, group.moves.preferences.price = group.moves.preferences.price, None
        for _ in range(rounds):
            carried = carry_out(group, placement, self._limits, first)
            jobs = self._cut(carried.jobs)
            if self._value(jobs) < self._value(self._best):
                self._best = jobs
            self._refused = self._refused or carried.stuck
            if not carried.left or len(carried.jobs) >= self._limits.jobs:
                break
            locked = np.zeros(len(group.residents), np.bool_)
            locked[list(carried.left)] = True
            locked |= self._locked(first)
            group.moves.preferences.price = price
            self._descend(locked)
            group.moves.preferences.price = None
            placement = group.model.placement
        group.moves.preferences.price = price
        return not carried.left

    def _first(self) -> list[int]:
        """The instances of the best plan's jobs that lead to hbal's final score."""
        first = []
        for one in self._best:
            first.append(one.instance)
            if one.value <= self._path.value + TOLERANCE:
                return first
        return first

    def _locked(self, first: Sequence[int]) -> Mask:
        locked = np.zeros(len(self._group.residents), np.bool_)
        locked[list(first)] = True
        return locked

    def _go_to_end(self) -> None:
        """Put the model where the best plan ends."""
        model, group = self._group.model, self._group
        model.go(group.home)
        place = {int(node): at for at, node in enumerate(group.nodes)}
        place[-1] = -1
        for one in self._best:
            model.move(one.instance, *(place[node] for node in one.place))

    def _costs(self, jobs: Jobs) -> list[float]:
        """The value after each number of jobs, with what must be gained for them."""
        request = self._group.request
        free = self._path.copied if self._default else 0.0
        costs, score, copied, least = [self._start + self._site], self._start, 0.0, 0.0
        for one in jobs:
            least += request.min_gain if score <= request.min_gain_limit else 0.0
            score, copied = one.score, copied + one.copied
            paid = max(copied - free, 0.0) / 1024
            costs.append(one.value + least + self._per_gib * paid)
        return costs

    def _cut(self, jobs: Jobs) -> Jobs:
        """The jobs up to where the rest is not worth it."""
        costs = self._costs(jobs)
        least = min(costs) + TOLERANCE
        return jobs[: next(at for at, cost in enumerate(costs) if cost <= least)]

    def _value(self, jobs: Jobs) -> _Value:
        there, copied = self._path.value + TOLERANCE, 0.0
        before = self._start + self._site
        value, cost = jobs[-1].value if jobs else before, self._costs(jobs)[-1]
        for one in jobs:
            if before <= there:
                break
            copied, before = copied + one.copied, one.value
        worse = max(value - there, 0.0)
        more = copied > self._path.copied + TOLERANCE
        return _Value(worse, self._copies_count and more, cost)
