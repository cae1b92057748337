"""The outcome of balancing one node group, as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.schedule import Planned
    from ganeti_steward.allocators.state.state import Mask, State


class GroupPlan(NamedTuple):
    """What balancing does for one group."""

    group: int
    """index of the node group"""
    members: Mask
    """nodes: whether the node is in the group"""
    before: State
    after: State
    jobs: tuple[Planned, ...]
    score_before: float
    """the group's score now"""
    bound: float
    """no placement of its instances has a lower score"""

    @property
    def score_after(self) -> float:
        """The group's score when all jobs are done."""
        return self.jobs[-1].score if self.jobs else self.score_before
