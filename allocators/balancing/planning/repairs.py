"""A plan that ends faults and does nothing else: ``balance --only-repairs``.

A fault is what those components of the score count that do not measure evenness: instances on
unusable nodes, N+1, tags that meet.  Searches lower their sum; of two plans that leave the same
faults the one that copies less is better, and then the one with fewer jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.local_search import LocalSearch
from ganeti_steward.allocators.balancing.planning.jobs import Limits, Planned, carry_out
from ganeti_steward.allocators.balancing.planning.plan import random_move
from ganeti_steward.allocators.balancing.planning.progress import Progress
from ganeti_steward.allocators.score.score import FAULTS, Scorer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from ganeti_steward.allocators.balancing.planning.group import GroupSearch
    from ganeti_steward.allocators.state.state import State

#: Evenness counts so little that no sum of it outweighs a fault; it decides between equal moves.
_EVENNESS: Final = 1e-3
#: What a move must lower the faults by: the least of them weighs 1.
_LEAST: Final = 0.5
#: What the largest copy costs in the search.
_COPY: Final = 0.2
#: Disturbances of a placement that leaves faults: at most so many, and so many by instances x
#: nodes.  And the random moves of each.
_KICKS: Final = (25, 100_000)
_MOVES: Final = (1, 4)


class _Value(NamedTuple):
    """What makes one plan better than another, the most important first; smaller is better."""

    faults: float
    copied: float
    jobs: int


class Repairs:
    """The search for one group under the limits of a request."""

    def __init__(self, group: GroupSearch, limits: Limits, balanced: Sequence[Planned]) -> None:
        """``balanced``: the plan that evens out the group; the model is where its search ended."""
        self._group, self._limits, self._balanced = group, limits, tuple(balanced)
        self._end = group.model.placement
        self._place = {int(node): at for at, node in enumerate(group.nodes)} | {-1: -1}
        # One copy costs less than any fault, and more than evenness is worth.
        group.set_price(_COPY / max(float(group.mib.max(initial=0.0)) / 1024, 1.0))
        group.model.weigh(_EVENNESS)
        group.model.go(group.home)
        self._moves = None if limits.jobs == np.inf else int(limits.jobs)
        self._refused = False
        self._jobs: tuple[Planned, ...] = ()
        self._best = _Value(self._faults(group.state), 0.0, 0)

    @property
    def refused(self) -> bool:
        """Whether the capacity test kept a plan from something."""
        return self._refused

    def plan(self, rng: Random) -> tuple[Planned, ...]:
        """The jobs of the best plan found."""
        if not self._group.residents or not self._best.faults or self._limits.jobs < 1:
            return ()
        without = self._group.moves_of(self._group.request._replace(disk_moves=False))
        LocalSearch(without, self._group.home, _LEAST, self._moves).run()
        self._offer()
        if self._best.faults >= _LEAST:
            self._search().run()
            self._offer()
            self._group.model.go(self._group.home)
            self._search().run()
            self._offer()
        if self._best.faults >= _LEAST:
            # Balancing makes room; what is not needed of it is put back.
            self._keep(self._balanced)
            self._group.model.go(self._end)
            self._offer()
        if self._refused:
            self._group.model.go(self._group.home)
            self._search(Progress(self._group)).run()
            self._offer()
        best = self._group.model.placement
        most, size = _KICKS
        for _ in range(min(most, size // max(self._group.size, 1))):
            if self._best.faults < _LEAST:
                break
            self._group.model.go(best)
            for _ in range(rng.randint(*_MOVES)):
                random_move(self._group, rng, rng.randrange(len(self._group.residents)), None)
            self._search().run()
            if self._offer():
                best = self._group.model.placement
        self._leave_out()
        return self._jobs

    def _leave_out(self) -> None:
        """Leave out jobs that neither end a fault nor make room for one that does."""
        primary, secondary = self._group.home
        for one in self._jobs:
            first, second = primary.copy(), secondary.copy()
            for other in self._jobs:
                if other.instance != one.instance:
                    nodes = [self._place[node] for node in other.place]
                    first[other.instance], second[other.instance] = nodes
            self._keep(carry_out(self._group, (first, second), self._limits).jobs)

    def _search(self, progress: Progress | None = None) -> LocalSearch:
        group = self._group
        return LocalSearch(group.moves, group.home, _LEAST, self._moves, progress=progress)

    def _offer(self) -> bool:
        """Keep the plan that leads to the model's placement if it is the best so far."""
        self._prune()
        placement = self._group.model.placement
        carried = carry_out(self._group, placement, self._limits)
        self._refused = self._refused or carried.stuck
        self._group.model.go(placement)
        return self._keep(carried.jobs)

    def _keep(self, jobs: tuple[Planned, ...]) -> bool:
        """Keep the jobs, up to where the faults are least, if they are the best so far."""
        faults = [self._faults(self._group.state), *(self._faults(one.after) for one in jobs)]
        jobs = jobs[: faults.index(min(faults))]
        value = _Value(min(faults), sum(one.copied for one in jobs), len(jobs))
        if value >= self._best:
            return False
        self._best, self._jobs = value, jobs
        return True

    def _prune(self) -> None:
        """Put back what need not have moved, the largest copies first."""
        group, model = self._group, self._group.model
        while True:
            moved = np.flatnonzero(group.moved(model.placement))
            copied = group.copies(model.placement)[moved] * group.mib[moved]
            order = moved[np.argsort(-copied, kind="stable")].tolist()
            if not sum(self._put_back(at) for at in order):
                return

    def _put_back(self, instance: int) -> bool:
        """Whether an instance could stay at home without a fault more; then it does."""
        group, model = self._group, self._group.model
        there, before = model.place(instance), model.score
        model.move(instance, int(group.home[0][instance]), int(group.home[1][instance]))
        if model.score <= before + _LEAST:
            return True
        model.move(instance, *there)
        return False

    def _faults(self, state: State) -> float:
        """The weighted sum of what is wrong with the group."""
        components = Scorer(state, self._group.members).components()
        return sum(components[name] for name in FAULTS if name in components)
