"""What node agents have answered to one daemon: by that it has to decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fault_world.clock import SECOND
from ganeti_steward.core.canonical_json import canonical_object

if TYPE_CHECKING:
    from fault_world.world import World

Row = Mapping[str, Any]

#: As many answers of a node are kept.
_KEPT = 60
#: Seconds that the clock of a node may be ahead.
_AHEAD = 150


class Answer(NamedTuple):
    """One valid report, or that there was none."""

    at: int
    """ns since the epoch"""
    object: str = ""
    """the diagnose object as JSON; empty: no valid report"""
    status: str = ""
    timestamp: int = 0
    """by the clock of the node, ns since the epoch"""

    @property
    def is_ill(self) -> bool:
        """Whether it names a fault."""
        return self.status not in ("", "Ok", "suspect")


NONE = Answer(0)


class Answers:
    """All of one daemon; ``node``: where it runs."""

    def __init__(self, world: World, node: str) -> None:
        self._world, self._node = world, node
        self._all: dict[str, list[Answer]] = {}
        """node -> its answers, the latest last"""
        self.observed: Mapping[str, Answer] = {}
        """node -> what the daemon knew in its last round"""
        self._rounds: dict[str, list[Answer]] = {}
        """node -> what the daemon knew in each round, with the time of the round"""
        self.observed_at = 0
        """when that was, by the clock of the daemon"""
        self._gone: set[str] = set()
        self.gone: frozenset[str] = frozenset()
        """nodes of which not even the machine had answered, as the daemon knew in its last round"""

    def machine(self, node: str, *, gone: bool) -> None:
        """Whether the machine of a node has answered."""
        (self._gone.add if gone else self._gone.discard)(node)

    def got(self, node: str, report: Row | None) -> None:
        """An agent has answered; None: not, or not validly."""
        answer = Answer(self._world.clock.now)
        if report is not None and self._counts(report["timestamp"]):
            text = canonical_object(dict(report["data"])).decode()
            answer = Answer(answer.at, text, report["data"]["status"], report["timestamp"])
        known = self._all.setdefault(node, [])
        known.append(answer)
        del known[:-_KEPT]

    def _counts(self, timestamp: int) -> bool:
        """Whether a report is neither too old nor from the future."""
        limit = self._world.settings.report_max_age
        age = (self._world.clock_of(self._node) - timestamp) / SECOND
        return -min(_AHEAD, limit) <= age <= limit

    def observe(self) -> None:
        """A round of the daemon uses what it knows."""
        self.observed = {node: known[-1] for node, known in self._all.items()}
        self.observed_at = self._world.clock_of(self._node)
        self.gone = frozenset(self._gone)
        for node, answer in self.observed.items():
            known = self._rounds.setdefault(node, [])
            known.append(answer._replace(at=self._world.clock.now))
            del known[:-_KEPT]

    def forget_round(self) -> None:
        """What this round knew was not used."""
        for known in self._rounds.values():
            del known[-1:]

    def in_rounds(self, node: str, at: int) -> list[Answer]:
        """What rounds after a time knew of a node; ns since the epoch."""
        return [one for one in self._rounds.get(node, ()) if one.at >= at]

    def since(self, node: str, at: int) -> list[Answer]:
        """The answers of a node after a time, ns since the epoch."""
        return [one for one in self._all.get(node, ()) if one.at >= at]
