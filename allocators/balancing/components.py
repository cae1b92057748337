"""The components of the score over the nodes of one group, in the form a group model uses.

Each component has a value on each node, a weight, and an amount that an instance adds.  All of
them are derived from the formulas of the score: by what one unit more of each row adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.score.score import RESERVED_MEM, merged_rows, shares, spread_weights
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.state import Resident, State, TagCounts

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask


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
    """instances: MiB of disk on each node, in the cluster's volume group"""
    all_disk: Floats
    """instances: MiB of disk on each node, in all volume groups"""
    usual: Mask
    """instances: whether there is a disk in the cluster's volume group"""
    pools: Floats
    """pools x instances: MiB of each volume group apart from the cluster's, on each node"""
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
        all_disk=each([g.all_disk for g in demands]),
        usual=np.array([g.disk > 0 or not g.elsewhere for g in demands], np.bool_),
        pools=np.array(
            [[g.elsewhere.get(name, 0) for g in demands] for name in state.frame.pools], np.float64
        ).reshape(len(state.frame.pools), len(demands)),
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
    change = np.zeros((2, len(residents), len(state.now)))
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
    counts = TagCounts(none, none, {})
    return state._replace(frame=frame, now=state.now[:, columns], tag_counts=counts, residents={})


#: How far numbers may differ by rounding alone.
_ALIKE: Final = 1e-13


class Components(NamedTuple):
    """Equal components are merged and their weights added; the N+1 reserve is the last."""

    values: Floats
    """components x nodes: the value of each component"""
    weights: Floats
    """components: weight in the score"""
    inverse: Floats
    """components x nodes: value of one unit of an instance's figure"""
    figures: Figures


def components_of(state: State, nodes: Ints, residents: Sequence[Resident]) -> Components:
    """``nodes``: the group's, by cluster index; ``residents``: those that may move."""
    frame = state.frame
    worths = _worths(state, nodes)
    inverse: Floats = worths.max(axis=0)
    inverse[RESERVED_MEM] = 1.0 / frame.memory[nodes]
    figures = figures_of(state, residents, _counted(worths, frame.exclusive[nodes]))
    # In units of the components, those that count alike are alike.
    unit = inverse.max(axis=1)
    unit[(unit == 0) | (np.arange(len(unit)) == RESERVED_MEM)] = 1.0
    return _merged(
        Components(
            shares(frame, state.now[:, nodes], nodes),
            spread_weights(frame),
            inverse / unit[:, None],
            figures._replace(
                as_primary=figures.as_primary * unit, as_secondary=figures.as_secondary * unit
            ),
        )
    )


def _worths(state: State, nodes: Ints) -> Floats:
    """rows x components x nodes: the value of one unit more of a row."""
    nothing = np.zeros((len(state.now), len(nodes)), np.int64)
    without = shares(state.frame, nothing, nodes)
    worths = np.zeros((len(nothing), *without.shape))
    for row in range(len(nothing)):
        if row not in DERIVED:
            unit = nothing.copy()
            unit[row] = 1
            worths[row] = shares(state.frame, unit, nodes) - without
    return worths


def _counted(worths: Floats, exclusive: Mask) -> Floats:
    """kinds of node x components x rows: 1 where the component counts the row on such nodes."""
    kinds = [(worths[:, :, which] != 0).any(axis=2).T for which in (~exclusive, exclusive)]
    return np.array(kinds, np.float64)


def _merged(components: Components) -> Components:
    """Equal components are merged; the N+1 reserve never is."""
    reserve = RESERVED_MEM

    def equal(one: int, other: int) -> bool:
        return reserve not in (one, other) and _alike(components, one, other)

    rows = merged_rows(components.weights.tolist(), equal)
    # The amount of the reserve does not follow from the instance alone; it is the last.
    rows.sort(key=lambda row: row[0] == reserve)
    kept = [row for row, _ in rows]
    weights = np.array([weight for _, weight in rows])
    figures = components.figures
    return Components(
        components.values[kept],
        weights,
        components.inverse[kept],
        figures._replace(
            as_primary=figures.as_primary[:, :, kept], as_secondary=figures.as_secondary[:, :, kept]
        ),
    )


def _alike(components: Components, one: int, other: int) -> bool:
    values, inverse, figures = components.values, components.inverse, components.figures
    primary, secondary = figures.as_primary, figures.as_secondary
    return (
        np.allclose(values[one], values[other], rtol=_ALIKE, atol=_ALIKE)
        and np.allclose(inverse[one], inverse[other], rtol=_ALIKE, atol=0)
        and np.allclose(primary[:, :, one], primary[:, :, other], rtol=_ALIKE, atol=0)
        and np.allclose(secondary[:, :, one], secondary[:, :, other], rtol=_ALIKE, atol=0)
    )
