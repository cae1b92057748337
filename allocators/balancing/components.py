"""The components of the score over the nodes of one group, in the form a group model uses.

Each component has a value on each node, a weight, and an amount that an instance adds.  All of
them are derived from the formulas of the score: by what one unit more of each row adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ganeti_steward.allocators.balancing.figures import DERIVED, Figures, figures_of
from ganeti_steward.allocators.score.score import RESERVED_MEM, SPREAD_WEIGHTS, merged_rows, shares
from ganeti_steward.allocators.state import quantity

if TYPE_CHECKING:
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.state import Resident, State

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
            SPREAD_WEIGHTS,
            inverse / unit[:, None],
            figures._replace(
                as_primary=figures.as_primary * unit, as_secondary=figures.as_secondary * unit
            ),
        )
    )


def _worths(state: State, nodes: Ints) -> Floats:
    """rows x components x nodes: the value of one unit more of a row."""
    nothing = np.zeros((quantity.ROWS, len(nodes)), np.int64)
    without = shares(state.frame, nothing, nodes)
    worths = np.zeros((quantity.ROWS, *without.shape))
    for row in range(quantity.ROWS):
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
