"""Scores as they will be when all moves are done and the cluster is read again.

While moves are simulated, N+1 fails on a node as soon as nothing is left beyond the reserve
(allocation 3.3).  When a cluster is read, its reported free memory is compared, which may be
more (allocation 3.2).  The rules use the former.  The score uses the latter, as the next message
will, so that a plan does not prefer nodes that only seem to fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.score.ranked_places import PairPlaces, SinglePlaces
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state import quantity
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


class FinalScore:
    """How the states that follow from one message are scored."""

    def __init__(self, start: State) -> None:
        """``start``: the state as it was read."""
        nodes = start.frame.cluster.nodes
        free = np.fromiter((node.free_memory for node in nodes), np.int64, len(nodes))
        self._spare: Ints = free - start.now[quantity.UNALLOCATED]
        """free memory that the records do not know of, MiB"""

    def columns(self, after: Ints, nodes: Ints | slice = slice(None)) -> Ints:
        """The columns of these nodes with the N+1 flag as it will be read."""
        final = after.copy()
        final[quantity.FAILS] = (
            after[quantity.UNALLOCATED] + self._spare[nodes] < after[quantity.RESERVED]
        )
        return final

    def scorer(self, state: State, scope: Mask) -> Scorer:
        """The score of a state (and of its neighbours) over the nodes of ``scope``."""
        return Scorer(state._replace(now=self.columns(state.now)), scope)

    def score(self, state: State, scope: Mask) -> float:
        """The score of a state over the nodes of ``scope``."""
        return self.scorer(state, scope).score

    def penalties(self, state: State, demand: Demand) -> Penalties | None:
        """What is added to the scores of places of this instance; None for nothing."""
        return None


class FinalSinglePlaces(SinglePlaces):
    """Legal places on one node, scored as they will be."""

    def __init__(
        self,
        final_score: FinalScore,
        scorer: Scorer,
        demand: Demand,
        verdicts: Verdicts,
        members: Mask,
        terms: Terms,
    ) -> None:
        after = final_score.columns(verdicts.after)
        super().__init__(scorer, demand, verdicts._replace(after=after), members, terms)
        penalties = final_score.penalties(scorer.state, demand)
        if penalties is not None:
            self._scores += penalties.primary[self._nodes]

    def score_of(self, primary: int, secondary: int) -> float:
        """The score of one place; infinite where it is not legal."""
        at = np.flatnonzero(self._nodes == primary)
        return float(self._scores[at[0]]) if len(at) else np.inf


class FinalPairPlaces(PairPlaces):
    """Legal places on two nodes, scored as they will be."""

    def __init__(
        self,
        final_score: FinalScore,
        scorer: Scorer,
        legal: State,
        demand: Demand,
        verdicts: tuple[Verdicts, Verdicts],
        members: Mask,
        terms: Terms,
    ) -> None:
        """``scorer`` is of the final score; ``legal``: the same state as the rules see it."""
        self._final_score, self._legal = final_score, legal
        self._penalties = final_score.penalties(legal, demand)
        first, second = (one._replace(after=final_score.columns(one.after)) for one in verdicts)
        super().__init__(scorer, demand, (first, second), members, terms)

    def _rows(self, start: int, stop: int) -> Floats:
        rows = super()._rows(start, stop)
        if self._penalties is not None:
            rows += self._penalties.pairs(self._first[start:stop], self._second)
        return rows

    def _n1_pair_columns(self, secondary: Ints, kept: Ints) -> tuple[Ints, Mask]:
        after = self._legal.after_secondary(self._demand, kept, secondary)
        refused = quantity.newly_fails(
            self._legal.now[quantity.FAILS, secondary], after[quantity.FAILS]
        )
        return self._final_score.columns(after, secondary), refused

    def score_of(self, primary: int, secondary: int) -> float:
        """The score of one place; infinite where it is not legal."""
        row, column = np.flatnonzero(self._first == primary), self._second == secondary
        if not len(row) or not column.any():
            return np.inf
        return float(self._rows(int(row[0]), int(row[0]) + 1)[0, column][0])
