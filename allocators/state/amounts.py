"""How many more instances an amount of a resource is enough for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints

#: How many instances fit by a resource that they do not need.
MANY: Final = 2**31


def times_with_rest(free: Ints, size: int) -> Ints:
    """nodes: how often ``size`` can be taken of ``free`` with at least 1 left."""
    if size <= 0:
        return np.where(free > 0, MANY, 0)
    return np.maximum((free - 1) // size, 0)


def times_within(used: Ints, limit: Floats, size: int) -> Ints:
    """nodes: how often ``size`` can be added to ``used`` without going beyond ``limit``."""
    if size <= 0:
        return np.where(used <= limit, MANY, 0)
    times = np.floor(np.clip((limit - used) / size, 0, MANY))
    return times.astype(np.int64)
