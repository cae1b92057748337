"""The quantities of a node that placements change: the rows of the matrix `State.now`.

Those that end in ``_F`` count forthcoming instances, too (allocation 3.2, 3.6).  After the last of
them each volume group apart from the cluster's has two more, see `pool_rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask


#: Free space of a node whose disk figures are not known, MiB.
UNKNOWN: Final = 2**50

UNALLOCATED: Final = 0  # memory, MiB
RESERVED: Final = 1  # N+1 reserve, MiB
FAILS: Final = 2  # N+1 fails: 1 or 0
DISK: Final = 3  # free, MiB
SPINDLES: Final = 4  # free dedicated spindles; -1: overdrawn or unknown
SPINDLE_USE: Final = 5  # shares of the common spindles in use
VCPUS: Final = 6  # in use
PRIMARIES: Final = 7  # number of instances
SECONDARIES: Final = 8  # number of instances
CLASHES: Final = 9  # instances beyond the first with the same exclusion tag
LOCATION: Final = 10  # shared location tags and missing desired locations of its primaries
CPU_LOAD: Final = 11  # in nano-loads
MEMORY_F: Final = 12  # free with stopped instances counted, too, MiB
DISK_F: Final = 13
SPINDLES_F: Final = 14
SPINDLE_USE_F: Final = 15
VCPUS_F: Final = 16
MEM_LOAD: Final = 17  # in nano-loads, as the two that follow
DISK_LOAD: Final = 18
NET_LOAD: Final = 19
ROWS: Final = 20
GIVEN_LOADS: Final = (MEM_LOAD, DISK_LOAD, NET_LOAD)


def pool_rows(pool: int) -> tuple[int, int]:
    """The rows of a volume group by its position in ``Frame.pools``: free, free with forthcoming.

    MiB; 2**50 where it is not known, -2**50 where the node has no such volume group.
    """
    return ROWS + 2 * pool, ROWS + 2 * pool + 1


def n1_fails(now: Ints | Floats, kept: Ints | int = 0) -> Mask:
    """nodes: whether what is unallocated does not exceed the N+1 reserve (allocation 3.3).

    ``kept``: MiB that are not for instances.
    """
    fails: Mask = now[UNALLOCATED] - kept <= now[RESERVED]
    return fails


def newly_fails(before: Ints, after: Ints) -> Mask:
    """Whether N+1 fails after a change and did not before; the `FAILS` rows of some nodes."""
    newly: Mask = (after > 0) & (before == 0)
    return newly


def none_forthcoming(now: Ints) -> bool:
    """Whether the rows that count forthcoming instances, memory apart, are as those without."""
    alike = (now[DISK : VCPUS + 1] == now[DISK_F : VCPUS_F + 1]).all()
    return bool(alike and (now[ROWS::2] == now[ROWS + 1 :: 2]).all())


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
