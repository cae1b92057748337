"""What is wrong with the simulated nodes, what their agents report of it, and their commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.world import Observation, Reported, Silent
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, severity
from ganeti_steward.plugins.maintenance.engine.decision import CommandResult
from ganeti_steward.plugins.maintenance.simulation.assumptions import SECOND, Assumptions
from ganeti_steward.plugins.maintenance.simulation.failures import (
    AILMENT,
    DEATH,
    FLAP,
    STORM,
    Failure,
)
from ganeti_steward.plugins.maintenance.simulation.schedule import Schedule
from ganeti_steward.plugins.maintenance.simulation.site import Site

_COMMAND: Final = "repair"
#: s that a repair command runs.
_RUNS: Final = 60

_HEALTHY: Final = canonical({"status": OK})


class Hardware:
    """The part `Agents` of the daemon's loop, and what happens to the nodes."""

    def __init__(
        self,
        site: Site,
        schedule: Schedule,
        assumed: Assumptions,
        *,
        news: Callable[[], None],
        died: Callable[[str], None],
    ) -> None:
        """``news`` is called when a report changes, ``died`` when a node stops running."""
        self._site, self._schedule, self._assumed = site, schedule, assumed
        self.news, self._died = news, died
        self._random = Random(f"commands {assumed.seed}")
        self._wrong: dict[str, dict[Failure, bytes]] = {}
        """node -> what it reports now -> as the diagnose object"""
        self._silent: dict[str, int] = {}
        self._results: dict[str, CommandResult] = {}

    # What the loop calls

    def watch(self, nodes: Mapping[str, Node]) -> None:
        """All nodes are watched."""

    def observations(self) -> Mapping[str, Observation]:
        """Uuid of a node -> what its agent reported in the last poll."""
        now, site = self._schedule.now, self._site
        healthy = Reported(_HEALTHY, OK, "", now)
        seen: dict[str, Observation] = {node.uuid: healthy for node in site.nodes.values()}
        for name in self._wrong:
            failure = max(self._wrong[name], key=lambda one: (severity(one.status), -one.at))
            command = _COMMAND if failure.status == LIVE_REPAIR else ""
            found = Reported(self._wrong[name][failure], failure.status, command, now)
            seen[site.nodes[name].uuid] = found
        for name in (*site.dead, *site.out):
            since = self._silent.get(name, now)
            seen[site.nodes[name].uuid] = Silent(since, "the agent does not answer")
        return seen

    def start(self, node: Node, submission: str, command: str, original: bytes) -> None:
        """Have a repair command run."""
        self._schedule.after(_RUNS * SECOND, lambda: self._ran(node.name, submission, original))

    def results(self, incidents: Iterable[Incident]) -> Mapping[str, CommandResult]:
        """Submission id -> result, of those that have ended."""
        ids = [one.id for incident in incidents for one in incident.open]
        return {key: self._results[key] for key in ids if key in self._results}

    def _ran(self, node: str, submission: str, original: bytes) -> None:
        good = self._site.alive(node) and self._random.random() < self._assumed.repaired
        text = "exit status 0" if good else "exit status 1"
        self._results[submission] = CommandResult(good, text)
        for failure, reported in list(self._wrong.get(node, {}).items()):
            if good and reported == original:
                self._remove(failure)
        self.news()

    # What happens

    def fail(self, failure: Failure) -> None:
        """A failure begins; a node that does not run has no other one."""
        if not self._site.alive(failure.node):
            return
        if failure.kind == DEATH:
            self._die(failure.node)
        elif failure.kind == FLAP:
            self._flap(failure, self._schedule.now + failure.lasts)
        else:
            self._add(failure)
            if failure.kind == AILMENT:
                self._schedule.after(failure.lasts, lambda: self._worsen(failure))
            elif failure.kind == STORM:
                self._schedule.after(failure.lasts, lambda: self._remove(failure))

    def _flap(self, failure: Failure, until: int) -> None:
        """Report a fault, or stop to report it."""
        if failure in self._wrong.get(failure.node, {}):
            self._remove(failure)
        elif self._schedule.now < until and self._site.alive(failure.node):
            self._add(failure)
        else:
            return
        self._schedule.after(failure.period, lambda: self._flap(failure, until))

    def _worsen(self, failure: Failure) -> None:
        if failure in self._wrong.get(failure.node, {}):
            self._die(failure.node)

    def _die(self, node: str) -> None:
        self._silent[node] = self._schedule.now
        self._site.power(node, dead=True)
        self._died(node)
        self.news()

    def _add(self, failure: Failure) -> None:
        data = {"status": failure.status, "details": f"{failure.kind} {failure.number}"}
        command = {"command": _COMMAND} if failure.status == LIVE_REPAIR else {}
        self._wrong.setdefault(failure.node, {})[failure] = canonical({**data, **command})
        self.news()

    def _remove(self, failure: Failure) -> None:
        wrong = self._wrong.get(failure.node, {})
        if wrong.pop(failure, None) is not None:
            if not wrong:
                del self._wrong[failure.node]
            self.news()

    # What the operator does

    def switch_off(self, node: str) -> None:
        """Take a node out of service; what is wrong with it does not go on."""
        self._wrong.pop(node, None)
        self._silent.setdefault(node, self._schedule.now)
        self._site.power(node, out=True)
        self.news()

    def repair(self, node: str) -> None:
        """A node runs again, and nothing is wrong with it."""
        self._wrong.pop(node, None)
        self._silent.pop(node, None)
        self._site.power(node)
        self.news()

    @property
    def ill(self) -> int:
        """How many running nodes report a fault."""
        return sum(self._site.alive(node) for node in self._wrong)
