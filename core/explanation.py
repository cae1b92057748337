"""Why a request was answered the way it was, as data.

Allocators fill these values when the caller asks for an explanation; ``gnt-steward
explain`` prints them.  Scores are hail's cluster score (allocation 5), smaller is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What the rules say of one node in one role; an empty ``reason`` means it fits."""

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
