"""Which of the planned moves off a node are made first: those that share no other node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.moves.planning import MovePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from ganeti_steward.allocators.moves.best_move import BestMoveSearch, MoveChoice, MoveTask
    from ganeti_steward.allocators.state.state import State


class Selection:
    """Moves that share no node but the one that is left."""

    def __init__(
        self,
        state: State,
        tasks: Sequence[MoveTask],
        plan: Mapping[int, MoveChoice],
        search: BestMoveSearch,
        left: int,
        reserved: Set[int],
        good: Callable[[State], bool],
    ) -> None:
        """``plan``: position of the task -> its move; ``left``: the node that is left, by index;
        ``reserved``: nodes that are in use; ``good``: whether a state after all moves is as good
        as that of the plan.
        """
        self._tasks, self._plan, self._search, self._left = tasks, plan, search, left
        self._good = good
        self._made = MovePlan(state)
        self._used = set(reserved)

    def made(self, most: int) -> dict[int, MoveChoice]:
        """Position of the task -> its move: as planned if that is free, else to other nodes.

        ``most``: so many at most.
        """
        for at, planned in self._plan.items():
            if len(self._made.found) == most:
                break
            left = self._made.without(at, self._tasks[at])
            if self._is_free(at, planned):
                if self._search.confirms(left, self._tasks[at], planned):
                    self._make(at, left, planned)
            elif (other := self._other(at, left)) and self._completes(at, left, other):
                self._make(at, left, other)
        return self._made.found

    def _make(self, at: int, left: State, found: MoveChoice) -> None:
        self._made.move(at, self._tasks[at], left, found)
        self._used |= self._nodes(at, found)

    def _nodes(self, at: int, found: MoveChoice) -> set[int]:
        return {*self._tasks[at].resident.nodes, *found.nodes} - {-1, self._left}

    def _is_free(self, at: int, found: MoveChoice) -> bool:
        return self._used.isdisjoint(self._nodes(at, found))

    def _other(self, at: int, left: State) -> MoveChoice | None:
        """The best move to nodes that are not used yet."""
        task = self._tasks[at]
        if not self._used.isdisjoint(task.resident.nodes):
            return None
        targets = task.targets.copy()
        targets[list(self._used)] = False
        return self._search.best(left, task._replace(targets=targets))

    def _completes(self, at: int, left: State, found: MoveChoice) -> bool:
        """Whether all others can still be moved as planned after this move, and nothing is lost."""
        trial = self._made.copy()
        trial.move(at, self._tasks[at], left, found)
        for other, planned in self._plan.items():
            if other not in trial.found:
                left = trial.without(other, self._tasks[other])
                if not self._search.confirms(left, self._tasks[other], planned):
                    return False
                trial.move(other, self._tasks[other], left, planned)
        return self._good(trial.state)
