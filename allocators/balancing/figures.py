"""What each movable guest of a board takes, in the values the score spreads over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.state import state as st

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.state import Floats, Ints, Mask, Resident, State

#: Rows a guest does not simply add to.
DERIVED: Final = (st.RESERVED, st.FAILS, st.CLASHES, st.LOCATION)


class Figures(NamedTuple):
    """What each movable guest takes, one entry per guest."""

    use: Floats
    memory: Floats
    reserve: Floats
    vcpus: Floats
    disk: Floats
    share: Floats
    """spindle use"""
    spindles: Floats
    """dedicated spindles; infinite where unknown"""
    local: Mask
    drbd: Mask
    as_primary: Floats
    """kind of node (shared, dedicated spindles) x guest x component; 0 for the reserve"""
    as_secondary: Floats


def figures_of(state: State, residents: Sequence[Resident], rows: Floats) -> Figures:
    """``rows``: kind of node x component x row, 1 where the component counts the row."""
    guests = [resident.guest for resident in residents]

    def each(values: list[int]) -> Floats:
        return np.array(values, np.float64)

    spindles = each([g.spindles for g in guests])
    return Figures(
        use=each([g.use for g in guests]),
        memory=each([g.memory for g in guests]),
        reserve=each([g.reserve if g.drbd else 0 for g in guests]),
        vcpus=each([g.vcpus for g in guests]),
        disk=each([g.disk for g in guests]),
        share=each([g.spindle_use for g in guests]),
        spindles=np.where(spindles < 0, np.inf, spindles),
        local=np.array([g.instance.local for g in guests], np.bool_),
        drbd=np.array([g.drbd for g in guests], np.bool_),
        as_primary=_worth_of(state, residents, rows, primary=True),
        as_secondary=_worth_of(state, residents, rows, primary=False),
    )


def _worth_of(
    state: State, residents: Sequence[Resident], rows: Floats, *, primary: bool
) -> Floats:
    """kind x guest x component: what the guest changes in the rows each component counts."""
    exclusive = state.frame.exclusive
    columns = np.array([int(np.argmin(exclusive)), int(np.argmax(exclusive))])
    narrow = _narrowed(state, columns)
    change = np.zeros((2, len(residents), st.ROWS))
    for at, resident in enumerate(residents):
        guest = resident.guest
        after = narrow.after_primary(guest) if primary else narrow.after_secondary(guest, 0)
        change[:, at] = (after - narrow.now).T
    change[:, :, list(DERIVED)] = 0.0
    worth: Floats = np.einsum("kgr,kcr->kgc", change, rows)
    return worth


def _narrowed(state: State, columns: Ints) -> State:
    """The state with just these nodes, enough to see what a guest takes."""
    frame = state.frame._replace(
        exclusive=state.frame.exclusive[columns],
        usable=state.frame.usable[columns],
        locations=state.frame.locations[columns],
        location_names=(),
    )
    none: dict[str, dict[int, int]] = {}
    return state._replace(
        frame=frame, now=state.now[:, columns], books=st.TagBooks(none, none), residents={}
    )
