"""Why a request was answered the way it was, as data.

Allocators fill these values when the caller requests an explanation; ``gnt-steward
explain`` prints them.  Scores are hail's cluster score (allocation 5), smaller is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The verdict of the rules on one node in one role; an empty ``reason`` means it fits."""

    node: str
    role: str
    rule: str
    reason: str
    primary: str = ""
    """for a secondary: the primary it was judged with"""


@dataclass(frozen=True, slots=True)
class Place:
    """One legal place with its score, by component (weight times value)."""

    nodes: tuple[str, ...]
    score: float
    components: Mapping[str, float]
    capacity: tuple[str, ...]
    """instances that could newly not leave their node, empty when the test is passed"""
    metric: tuple[int, ...] = ()
    """with exclusive storage: lost future allocations, then the free disk left"""


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """One node group: chosen or why not, its nodes, its best places."""

    name: str
    alloc_policy: str
    summary: str
    nodes: tuple[NodeVerdict, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole story of one placed (or refused) instance."""

    instance: str
    wanted: str
    chosen: tuple[str, ...]
    score_before: float
    groups: tuple[GroupVerdict, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One job of a balancing plan."""

    instance: str
    before: tuple[str, ...]
    """its nodes, primary first"""
    after: tuple[str, ...]
    copied: int
    """MiB of disk that are copied"""
    score: float
    """the group's score when it is done"""
    how: str = ""
    """what Ganeti does, in the words of its commands: ``replace+failover``"""
    lowers: str = ""
    """hail's name of the score component that it lowers most; empty where it lowers none"""


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """What is wrong in one node group; names, and nothing where nothing is."""

    n1_nodes: tuple[str, ...]
    """usable nodes that lack the memory for what they are secondary of (allocation 3.3)"""
    clashing: tuple[str, ...]
    """nodes with two primaries that share an exclusion tag (allocation 3.5)"""
    primaries: tuple[str, ...]
    """instances whose primary is unusable"""
    secondaries: tuple[str, ...]
    """instances whose secondary is unusable"""
    stuck: tuple[tuple[str, str], ...] | None
    """instances that could not leave their node, with this node (allocation 8); None where
    that was not checked"""

    @property
    def well(self) -> bool:
        """Whether nothing is wrong."""
        wrong = (self.n1_nodes, self.clashing, self.primaries, self.secondaries, self.stuck)
        return not any(wrong)


@dataclass(frozen=True, slots=True)
class GroupBalance:
    """What balancing does for one node group."""

    group: str
    score_before: float
    score_after: float
    bound: float
    """no placement of these instances has a lower score (allocation 5)"""
    moves: tuple[Move, ...]
    """in the order in which they must be done"""
    notes: tuple[str, ...] = ()
    health_before: GroupHealth | None = None
    """None where the allocator does not look for what is wrong"""
    health_after: GroupHealth | None = None


Explained = Explanation | GroupBalance
