"""Finds few faults of a history that still break the same invariant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fault_world.faults import Fault
from fault_world.history import Played

Play = Callable[[Sequence[Fault]], Played]


def shrunk(played: Played, play: Play, most: int = 400) -> Played:
    """The history with as few faults as were found with ``most`` plays; `play` plays some of them.

    Larger parts are left out first, then single faults, as long as that breaks the same invariant.
    """
    best, part, left = played, max(len(played.faults) // 2, 1), most
    while left > 0:
        smaller = None
        for at in range(0, len(best.faults), part):
            left -= 1
            found = play([*best.faults[:at], *best.faults[at + part :]])
            if found.broken and played.broken and found.broken.name == played.broken.name:
                smaller = found
                break
            if left <= 0:
                break
        if smaller is not None:
            best = smaller
            part = min(part, max(len(best.faults), 1))
        elif part == 1:
            break
        else:
            part //= 2
    return best
