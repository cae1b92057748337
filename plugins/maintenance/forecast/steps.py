"""A forecast as a value: all steps of the daemon, and how each incident ends."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple


class Moved(NamedTuple):
    """What a step does to one instance."""

    instance: str
    how: str
    """migrate, failover, replace-disks, move, shutdown or startup"""
    target: str
    """the node to which it, or its copy, goes; empty: it stays"""
    copied: int
    """MiB of its disks that are copied"""

    @property
    def words(self) -> str:
        """``web1.lab:migrate:node2.lab``"""
        return ":".join(filter(None, (self.instance, self.how, self.target)))


class Step(NamedTuple):
    """One task of the daemon, or the work of a person on a node."""

    node: str
    incident: str
    """uuid"""
    step: str
    """one of the steps of `ganeti_steward.plugins.model.task`"""
    reason: str
    begun: int
    """ns since the epoch"""
    ended: int
    """ns since the epoch; 0: not before the forecast ends"""
    moves: tuple[Moved, ...] = ()


class Outcome(NamedTuple):
    """How an incident ends, or why it goes on."""

    node: str
    incident: str
    """uuid"""
    state: str
    """its status at the end: completed, failed, ...; that of now where it goes on"""
    at: int
    """when it ends, ns since the epoch; 0: not before the forecast ends"""
    reason: str
    """why, a sentence"""
    well: bool = False
    """whether it ends with success, or with nothing left to do"""


class Forecast(NamedTuple):
    """All steps and ends; from now on nothing fails, and no person comes but for planned work."""

    begun: int
    """ns since the epoch"""
    steps: tuple[Step, ...]
    """in the order in which they begin"""
    outcomes: tuple[Outcome, ...]
    """in the order in which they end; those that go on come last"""

    @property
    def end(self) -> int:
        """When the last incident has ended, ns since the epoch; 0: one goes on."""
        ends = [one.at for one in self.outcomes]
        return max(ends) if ends and all(ends) else 0

    def of_nodes(self, names: Container[str]) -> Forecast:
        """The same without what is about other nodes."""
        steps = tuple(one for one in self.steps if one.node in names)
        outcomes = tuple(one for one in self.outcomes if one.node in names)
        return Forecast(self.begun, steps, outcomes)

    @property
    def seconds(self) -> dict[str, int]:
        """Node -> whole seconds from its first step to its end, of those that end."""
        begun: dict[str, int] = {}
        for step in self.steps:
            begun.setdefault(step.node, step.begun)
        ends = {one.node: one.at for one in self.outcomes if one.at}
        return {name: (end - begun[name]) // 10**9 for name, end in ends.items() if name in begun}
