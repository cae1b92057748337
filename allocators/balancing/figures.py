"""What each movable instance takes, in the figures a group model uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.tag_counts import TagCounts

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.state import Resident, State

#: Rows an instance does not simply add to.
DERIVED: Final = (quantity.RESERVED, quantity.FAILS, quantity.CLASHES, quantity.LOCATION)


class Figures(NamedTuple):
    """What each movable instance takes; all arrays start with one entry per instance."""

    use: Floats
    """instances: MiB of memory taken on the primary now; 0 when stopped"""
    memory: Floats
    """instances: MiB of memory when running"""
    reserve: Floats
    """instances: MiB kept free on the secondary; 0 without one and for announced instances"""
    vcpus: Floats
    """instances: CPUs that count"""
    disk: Floats
    """instances: MiB of disk on each node"""
    share: Floats
    """instances: share of the common spindles"""
    spindles: Floats
    """instances: dedicated spindles; infinite where unknown"""
    local: Mask
    """instances: whether the storage is local"""
    drbd: Mask
    """instances: whether there is a secondary"""
    real: Mask
    """instances: whether it exists; False: it is only announced (forthcoming)"""
    as_primary: Floats
    """kinds of node (shared, dedicated spindles) x instances x components: what the instance
    adds to its primary; 0 for the N+1 reserve"""
    as_secondary: Floats
    """the same for its secondary"""


def figures_of(state: State, residents: Sequence[Resident], rows: Floats) -> Figures:
    """``rows``: kinds of node x components x rows, 1 where the component counts the row."""
    demands = [resident.demand for resident in residents]

    def each(values: list[int]) -> Floats:
        return np.array(values, np.float64)

    spindles = each([g.spindles for g in demands])
    return Figures(
        use=each([g.use for g in demands]),
        memory=each([g.memory for g in demands]),
        reserve=each([g.reserve * (g.drbd and not g.instance.forthcoming) for g in demands]),
        vcpus=each([g.vcpus for g in demands]),
        disk=each([g.disk for g in demands]),
        share=each([g.spindle_use for g in demands]),
        spindles=np.where(spindles < 0, np.inf, spindles),
        local=np.array([g.instance.local for g in demands], np.bool_),
        drbd=np.array([g.drbd for g in demands], np.bool_),
        real=np.array([not g.instance.forthcoming for g in demands], np.bool_),
        as_primary=_worth_of(state, residents, rows, primary=True),
        as_secondary=_worth_of(state, residents, rows, primary=False),
    )


def _worth_of(
    state: State, residents: Sequence[Resident], rows: Floats, *, primary: bool
) -> Floats:
    """kinds of node x instances x components: what an instance adds to each component."""
    exclusive = state.frame.exclusive
    columns = np.array([int(np.argmin(exclusive)), int(np.argmax(exclusive))])
    narrow = _narrowed(state, columns)
    change = np.zeros((2, len(residents), quantity.ROWS))
    for at, resident in enumerate(residents):
        demand = resident.demand
        after = narrow.after_primary(demand) if primary else narrow.after_secondary(demand, 0)
        change[:, at] = (after - narrow.now).T
    change[:, :, list(DERIVED)] = 0.0
    worth: Floats = np.einsum("kgr,kcr->kgc", change, rows)
    return worth


def _narrowed(state: State, columns: Ints) -> State:
    """The state with just these nodes, enough to see what an instance takes."""
    frame = state.frame._replace(
        exclusive=state.frame.exclusive[columns],
        usable=state.frame.usable[columns],
        locations=state.frame.locations[columns],
        location_names=(),
    )
    none: dict[str, dict[int, int]] = {}
    return state._replace(
        frame=frame, now=state.now[:, columns], tag_counts=TagCounts(none, none), residents={}
    )
