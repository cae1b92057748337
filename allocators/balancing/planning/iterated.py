"""Iterated local search: disturb a placement at random, descend again, keep what is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.balancing.local_search import LocalSearch
from ganeti_steward.allocators.score.tolerance import TOLERANCE

if TYPE_CHECKING:
    from random import Random

    from ganeti_steward.allocators.balancing.planning.group import Group
    from ganeti_steward.allocators.state.arrays import Mask

#: The number of random moves of one disturbance.
_KICK: Final = (2, 6)


def iterate(group: Group, rng: Random, kicks: int, locked: Mask | None = None) -> None:
    """Improve the model's placement, by the score and the price of copies.

    ``kicks``: how many disturbances are tried; ``locked``: instances that stay where they are.
    """
    model = group.model
    search = LocalSearch(group.moves, group.home, TOLERANCE, locked=locked)
    search.run()
    best, value = model.placement, group.priced()
    free = np.arange(len(group.residents)) if locked is None else np.flatnonzero(~locked)
    if not len(free):
        return
    for _ in range(kicks):
        for _ in range(rng.randint(*_KICK)):
            _random_move(group, rng, int(rng.choice(free)))
        search.run()
        found = group.priced()
        if found < value - TOLERANCE:
            best, value = model.placement, found
        else:
            model.go(best)


def _random_move(group: Group, rng: Random, instance: int) -> None:
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
    if places:
        model.move(instance, *rng.choice(places))
