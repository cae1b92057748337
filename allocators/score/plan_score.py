"""How plans of moves are scored: the score of the cluster, and what places cost beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.score.ranked_places import PairPlaces, SinglePlaces
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ganeti_steward.allocators.rules.candidates import Terms, Verdicts
    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.frame import Demand
    from ganeti_steward.allocators.state.state import State


class Penalties(NamedTuple):
    """What places of one instance cost beyond the score, whatever that is."""

    primary: Floats
    """nodes: as primary"""
    pairs: Callable[[Ints, Ints], Floats]
    """primaries x secondaries: these as primary and secondary"""


class PlanScore:
    """How the states of a plan are compared."""

    def score(self, state: State, scope: Mask) -> float:
        """The score of a state over the nodes of ``scope``."""
        return Scorer(state, scope).score

    def penalties(self, state: State, demand: Demand) -> Penalties | None:
        """What is added to the scores of places of this instance; None for nothing."""
        return None


class PlanSinglePlaces(SinglePlaces):
    """Legal places on one node, with their penalties."""

    def __init__(
        self,
        plan_score: PlanScore,
        scorer: Scorer,
        demand: Demand,
        verdicts: Verdicts,
        members: Mask,
        terms: Terms,
    ) -> None:
        super().__init__(scorer, demand, verdicts, members, terms)
        penalties = plan_score.penalties(scorer.state, demand)
        if penalties is not None:
            self._scores += penalties.primary[self._nodes]

    def score_of(self, primary: int, secondary: int) -> float:
        """The score of one place; infinite where it is not legal."""
        at = np.flatnonzero(self._nodes == primary)
        return float(self._scores[at[0]]) if len(at) else np.inf


class PlanPairPlaces(PairPlaces):
    """Legal places on two nodes, with their penalties."""

    def __init__(
        self,
        plan_score: PlanScore,
        scorer: Scorer,
        demand: Demand,
        verdicts: tuple[Verdicts, Verdicts],
        members: Mask,
        terms: Terms,
    ) -> None:
        self._penalties = plan_score.penalties(scorer.state, demand)
        super().__init__(scorer, demand, verdicts, members, terms)

    def _rows(self, start: int, stop: int) -> Floats:
        rows = super()._rows(start, stop)
        if self._penalties is not None:
            rows += self._penalties.pairs(self._first[start:stop], self._second)
        return rows

    def score_of(self, primary: int, secondary: int) -> float:
        """The score of one place; infinite where it is not legal."""
        row, column = np.flatnonzero(self._first == primary), self._second == secondary
        if not len(row) or not column.any():
            return np.inf
        return float(self._rows(int(row[0]), int(row[0]) + 1)[0, column][0])
