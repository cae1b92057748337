"""The rules on what stays free: soft ones, beside those on memory, disk and N+1 (allocation 4.6).

They are about a node that gets something new: as primary its memory, as secondary the memory to
take over, and disk in either role where disks are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.rules.checks import Check
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.reserves import host_room
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.site_rules import PRIMARY

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Ints
    from ganeti_steward.allocators.state.frame import Demand, Reserves
    from ganeti_steward.allocators.state.state import State


_STOPPED: Final = " with stopped and forthcoming instances counted"
_FORTHCOMING: Final = " with forthcoming instances counted"


def reserve_checks(
    state: State, demand: Demand, after: Ints, role: str, *, has_copy: bool
) -> list[Check]:
    """The rules for all nodes in one role; ``after``: rows x nodes, with the instance.

    ``has_copy``: the disks are there already.
    """
    reserves = state.frame.reserves
    assert reserves is not None
    real, copied = not demand.instance.forthcoming, demand.instance.local and not has_copy
    found: list[Check] = []
    memory = _as_primary if role == PRIMARY else _as_secondary
    if real:
        found.append(memory(state, demand, reserves, quantity.UNALLOCATED, "unallocated", ""))
        found += _disk(state, demand, reserves, "") if copied else []
        found.append(n1_check(state, reserves, after))
    found.append(memory(state, demand, reserves, quantity.MEMORY_F, "free", _STOPPED))
    if copied and not (real and quantity.none_forthcoming(state.now)):
        found += _disk(state, demand, reserves, _FORTHCOMING)
    return found


def _as_primary(
    state: State, demand: Demand, reserves: Reserves, row: int, which: str, counted: str
) -> Check:
    need = demand.memory if counted else demand.use
    free, closed = state.now[row], reserves.closed
    text = _text(free, closed, f"{which}{counted}", f"needs {need}")

    def with_ratio(node: int) -> str:
        only = reserves.for_n1[node]
        return text(node) + (f" ({only} are for instances of failed nodes)" if only else "")

    return Check("memory reserve", "FailMem", False, free - need <= closed, with_ratio)


def _as_secondary(
    state: State, demand: Demand, reserves: Reserves, row: int, which: str, counted: str
) -> Check:
    need = f"must be able to take over {demand.reserve}"
    text = _text(state.now[row], reserves.kept[row], f"{which}{counted}", need)
    failing = state.now[row] - demand.reserve <= reserves.kept[row]
    return Check("memory reserve", "FailMem", False, failing, text)


def _disk(state: State, demand: Demand, reserves: Reserves, counted: str) -> Iterator[Check]:
    """Each volume group that the instance has something in."""
    pools = state.frame.pools
    wanted = [(demand.disk, quantity.DISK, quantity.DISK_F, "disk")]
    if not demand.disk and demand.elsewhere:
        wanted = []
    wanted += [
        (size, *quantity.pool_rows(pools.index(name)), f"disk in volume group {name}")
        for name, size in demand.elsewhere.items()
        if name in pools
    ]
    for need, now, every, what in wanted:
        row = every if counted else now
        free, kept = state.now[row], reserves.kept[row]
        text = _text(free, kept, f"of {what} free{counted}", f"needs {need}")
        yield Check("disk reserve", "FailDisk", False, free - need <= kept, text)


def n1_check(state: State, reserves: Reserves, after: Ints) -> Check:
    """N+1 with the reserve kept free."""
    now, kept = state.now, reserves.memory

    def text(node: int) -> str:
        return (
            f"would have to keep {after[quantity.RESERVED, node]} MiB free for N+1 beside "
            f"{kept[node]} MiB in reserve, {after[quantity.UNALLOCATED, node]} MiB unallocated then"
        )

    return Check("N+1 and reserve", "FailMem", False, reserves.newly_fails(now, after), text)


def _text(free: Ints, kept: Ints, which: str, needs: str) -> Callable[[int], str]:
    def text(node: int) -> str:
        if free[node] <= kept[node]:
            return f"has {free[node]} MiB {which}, all in the reserve of {kept[node]} MiB"
        return f"has {free[node]} MiB {which}, {kept[node]} of these in reserve, {needs}"

    return text


def host_check(state: State, demand: Demand, source: int) -> Check:
    """Memory that instances leave in each node group that they are new in.

    ``source``: a node of the group that they come from, -1 without one.
    """
    frame, reserves = state.frame, state.frame.reserves
    assert reserves is not None
    room = host_room(state)

    def text(node: int) -> str:
        at = int(frame.group[node])
        kept = int(reserves.host_memory[at])
        number = counted(reserves.hosts[at], "node")
        return (
            f"its group {frame.cluster.groups[at].name} has {room[at] + kept} MiB unallocated, "
            f"{kept} of these in reserve for {number}, needs {demand.use}"
        )

    failing = ((room < demand.use) & (demand.use > 0))[frame.group]
    if source >= 0:
        failing &= frame.group != frame.group[source]
    return Check("host reserve", "FailMem", False, failing, text)
