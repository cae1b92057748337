"""Scores as they will be once everything has been carried out and read anew.

While moves are simulated a node counts as failing N+1 from "nothing left beyond the reserve"
on (allocation 3.3); when a cluster is read, its reported free memory is compared (3.2), which
may be more than the records leave.  Rules go by the former, the score by what the next
message will say, so that a plan is not drawn to nodes that only seem to fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ganeti_steward.allocators.score.ranked_places import PairPlaces, SinglePlaces
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state import state as st

if TYPE_CHECKING:
    from ganeti_steward.allocators.rules.candidates import Judged, Terms
    from ganeti_steward.allocators.state.demand import Guest
    from ganeti_steward.allocators.state.state import Ints, Mask, State


class Settled:
    """How the states that follow from one message are scored."""

    def __init__(self, start: State) -> None:
        """``start``: the state as it was read."""
        nodes = start.frame.cluster.nodes
        free = np.fromiter((node.free_memory for node in nodes), np.int64, len(nodes))
        self._spare: Ints = free - start.now[st.UNALLOCATED]
        """free memory that the records do not know of, MiB"""

    def columns(self, after: Ints, nodes: Ints | slice = slice(None)) -> Ints:
        """The columns of these nodes with the N+1 flag as it will be read."""
        settled = after.copy()
        settled[st.FAILS] = after[st.UNALLOCATED] + self._spare[nodes] < after[st.RESERVED]
        return settled

    def scorer(self, state: State, scope: Mask) -> Scorer:
        """The score of a state (and of its neighbours) over the nodes of ``scope``."""
        return Scorer(state._replace(now=self.columns(state.now)), scope)

    def score(self, state: State, scope: Mask) -> float:
        """The score of a state over the nodes of ``scope``."""
        return self.scorer(state, scope).score


class SettledSingles(SinglePlaces):
    """Legal places on one node, scored as they will be."""

    def __init__(
        self,
        settled: Settled,
        scorer: Scorer,
        guest: Guest,
        judged: Judged,
        members: Mask,
        terms: Terms,
    ) -> None:
        after = settled.columns(judged.after)
        super().__init__(scorer, guest, judged._replace(after=after), members, terms)

    def score_of(self, primary: int, secondary: int) -> float:
        """The score of one place; infinite where it is not legal."""
        at = np.flatnonzero(self._nodes == primary)
        return float(self._scores[at[0]]) if len(at) else np.inf


class SettledPairs(PairPlaces):
    """Legal places on two nodes, scored as they will be."""

    def __init__(
        self,
        settled: Settled,
        scorer: Scorer,
        legal: State,
        guest: Guest,
        judged: tuple[Judged, Judged],
        members: Mask,
        terms: Terms,
    ) -> None:
        """``scorer`` is settled; ``legal`` is the same state as the rules see it."""
        self._settled, self._legal = settled, legal
        first, second = (one._replace(after=settled.columns(one.after)) for one in judged)
        super().__init__(scorer, guest, (first, second), members, terms)

    def _keeping_more(self, secondary: Ints, kept: Ints) -> tuple[Ints, Mask]:
        after = self._legal.after_secondary(self._guest, kept, secondary)
        refused = (after[st.FAILS] > 0) & (self._legal.now[st.FAILS, secondary] == 0)
        return self._settled.columns(after, secondary), refused

    def score_of(self, primary: int, secondary: int) -> float:
        """The score of one place; infinite where it is not legal."""
        row, column = np.flatnonzero(self._first == primary), self._second == secondary
        if not len(row) or not column.any():
            return np.inf
        return float(self._rows(int(row[0]), int(row[0]) + 1)[0, column][0])
