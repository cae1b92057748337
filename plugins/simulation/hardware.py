"""The simulated hardware: what fails when, what agents report of it, and their repair commands.

Failures are drawn for each node by itself, whatever the daemon does.  So two simulations with one
seed and different configurations meet the same failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from random import Random
from typing import Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import Cluster, Node
from ganeti_steward.core.model.finding import (
    EVACUATE,
    EVACUATE_FAILOVER,
    LIVE_REPAIR,
    OK,
    severity,
)
from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.maintenance.engine.decision import REFUSED, CommandResult
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.world import (
    Observation,
    Reported,
    Silent,
    diagnose_object,
)
from ganeti_steward.plugins.simulation.assumptions import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    YEAR,
    Assumptions,
)
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster

DEATH: Final = "death"
AILMENT: Final = "ailment"
REPAIRABLE: Final = "repairable"
FLAP: Final = "flap"
STORM: Final = "storm"
CUT_OFF: Final = "cut-off"
#: What a node reports when the simulation begins.
REPORT: Final = "report"

#: Of the ailments, those that allow no migration.
_NO_MIGRATION: Final = 0.3
#: h that a flap and a storm last.
_LASTS: Final = 3

_COMMAND: Final = "repair"
#: s that a repair command runs.
_RUNS: Final = 60

#: The repair command by which a roll has a node rebooted.
REBOOT: Final = "reboot-node"

_HEALTHY: Final = canonical({"status": OK})


class Failure(NamedTuple):
    """Something that happens to a node."""

    at: int
    """ns after the start"""
    node: str
    """name"""
    kind: str
    number: int
    """distinguishes the failures of a node"""
    status: str = ""
    """what the node reports; empty: nothing"""
    lasts: int = 0
    """ns until it dies of an ailment, or until a flap, storm or cut-off is over"""
    period: int = 0
    """ns from one change of a flapping report to the next"""


def drawn(nodes: Sequence[str], assumed: Assumptions) -> list[Failure]:
    """All failures of a simulation by their times; ``nodes``: names."""
    found = [one for node in nodes for one in _of_node(node, assumed)]
    return sorted([*found, *_storms(nodes, assumed)])


def _of_node(node: str, assumed: Assumptions) -> Iterator[Failure]:
    rates = {
        DEATH: assumed.deaths,
        AILMENT: assumed.ailments,
        REPAIRABLE: assumed.repairable,
        FLAP: assumed.flaps,
        CUT_OFF: assumed.cut_offs,
    }
    means = {AILMENT: assumed.ailing_hours, CUT_OFF: assumed.cut_off_hours}
    for kind, rate in rates.items():
        random = Random(f"{kind} {node} {assumed.seed}")
        for number, at in enumerate(_times(rate, assumed.days, random)):
            hard = random.random() < _NO_MIGRATION
            ill = EVACUATE_FAILOVER if hard else EVACUATE
            status = {DEATH: "", CUT_OFF: "", REPAIRABLE: LIVE_REPAIR}.get(kind, ill)
            lasts = int(random.expovariate(1) * means.get(kind, _LASTS) * HOUR)
            period = int(random.uniform(0.05, 0.5) * HOUR)
            yield Failure(at, node, kind, number, status, lasts, period)


def _storms(nodes: Sequence[str], assumed: Assumptions) -> Iterator[Failure]:
    random = Random(f"{STORM} {assumed.seed}")
    for number, at in enumerate(_times(assumed.storms, assumed.days, random)):
        lasts = int(random.expovariate(1) * _LASTS * HOUR)
        for node in random.sample(nodes, round(len(nodes) * assumed.storm_nodes)):
            yield Failure(at, node, STORM, number, EVACUATE, lasts)


def _times(rate: float, days: float, random: Random) -> Iterator[int]:
    """Times (ns after the start) of something that happens so often per year."""
    at, end = 0.0, days * DAY
    while rate > 0:
        at += random.expovariate(rate / YEAR)
        if at >= end:
            return
        yield int(at)


class Hardware:
    """The part `Agents` of the daemon's loop, and what happens to the nodes."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        schedule: Schedule,
        assumed: Assumptions,
        *,
        news: Callable[[], None],
        died: Callable[[str], None],
        cut_off: Callable[[str], None],
    ) -> None:
        """``news`` is called when a report changes, ``died`` when a node stops running.

        ``cut_off`` is called when one runs on without a network.
        """
        self._cluster, self._schedule, self._assumed = cluster, schedule, assumed
        self.news, self._died, self._lost = news, died, cut_off
        self._random = Random(f"commands {assumed.seed}")
        self._wrong: dict[str, dict[Failure, bytes]] = {}
        """node -> what it reports now -> as the diagnose object"""
        self._silent: dict[str, int] = {}
        self._results: dict[str, CommandResult] = {}
        self._links: tuple[Cluster | None, dict[str, tuple[str, ...]]] = None, {}
        """the cluster as it was when they were found, and see `_linked`"""
        self.reboots = Counter[str]()
        """node -> how often a command has rebooted it"""

    # What the loop calls

    def watch(self, nodes: Mapping[str, Node]) -> None:
        """All nodes are watched."""

    def observations(self) -> Mapping[str, Observation]:
        """Uuid of a node -> what its agent reported in the last poll."""
        cluster = self._cluster
        gone = (*cluster.dead, *cluster.out, *cluster.cut)
        unreached = tuple(sorted({cluster.nodes[name].primary_ip for name in gone}))
        healthy = Reported(_HEALTHY, OK, "", self._schedule.now)
        reported = {
            node.uuid: healthy._replace(
                boot=self._boot(name),
                linked=self._linked()[name],
                unreached=unreached if node.master_candidate else None,
            )
            for name, node in cluster.nodes.items()
        }
        for name in self._wrong:
            failure = max(self._wrong[name], key=lambda one: (severity(one.status), -one.at))
            uuid = cluster.nodes[name].uuid
            reported[uuid] = reported[uuid]._replace(
                original=self._wrong[name][failure],
                status=failure.status,
                command=str(diagnose_object(self._wrong[name][failure]).get("command", "")),
            )
        silent = {
            cluster.nodes[name].uuid: Silent(
                self._silent.setdefault(name, self._schedule.now),
                "the agent does not answer",
                gone=True,
            )
            for name in gone
        }
        return {**reported, **silent}

    def _linked(self) -> Mapping[str, tuple[str, ...]]:
        """Name of a node -> addresses of the nodes with which DRBD is connected there."""
        known, cluster = self._links, self._cluster
        if known[0] is not cluster.cluster:
            found: dict[str, set[str]] = {name: set() for name in cluster.nodes}
            for one in cluster.instances.values():
                if one.up and one.secondaries and all(map(cluster.answers, one.nodes)):
                    for here, there in permutations(one.nodes, 2):
                        node = cluster.nodes[there]
                        found[here].add(node.secondary_ip or node.primary_ip)
            links = {name: tuple(sorted(addresses)) for name, addresses in found.items()}
            self._links = known = cluster.cluster, links
        return known[1]

    def start(self, node: Node, submission: str, command: str, original: bytes) -> None:
        """Have a repair command run."""
        if command == REBOOT:
            self._schedule.after(SECOND, lambda: self._reboot(node.name, submission))
        else:
            self._schedule.after(_RUNS * SECOND, lambda: self._ran(node.name, submission, original))

    def take_over(self, node: Node, submission: str, wanted: bytes) -> None:
        """No agent here permits it, so the daemon never requests it."""
        self._results[submission] = CommandResult(False, "it is not permitted", REFUSED)

    def results(self, incidents: Iterable[Incident]) -> Mapping[str, CommandResult]:
        """Submission id -> result, of those that have ended."""
        ids = [one.id for incident in incidents for one in incident.open]
        return {key: self._results[key] for key in ids if key in self._results}

    def _ran(self, node: str, submission: str, original: bytes) -> None:
        good = self._cluster.answers(node) and self._random.random() < self._assumed.repaired
        text = "exit status 0" if good else "exit status 1"
        self._results[submission] = CommandResult(good, text)
        for failure, reported in list(self._wrong.get(node, {}).items()):
            if good and reported == original:
                self._remove(failure)
        self.news()

    def _boot(self, node: str) -> str:
        return f"boot {self.reboots[node]}"

    def _reboot(self, node: str, submission: str) -> None:
        """The command ends at once; the node is away for a while."""
        good = self._cluster.answers(node)
        self._results[submission] = CommandResult(good, f"exit status {int(not good)}")
        if good:
            self.reboot(node)
        self.news()

    def reboot(self, node: str) -> None:
        """Have a node away for as long as a reboot takes."""
        self.reboots[node] += 1
        self._silent[node] = self._schedule.now
        self._cluster.power(node, reboot=True)
        minutes = self._assumed.reboot_minutes
        self._schedule.after(minutes * MINUTE, lambda: self._booted(node))

    def _booted(self, node: str) -> None:
        if node in self._cluster.rebooted:
            self._silent.pop(node)
            self._cluster.power(node)
            self._cluster.lose_connections(node)
            self.news()

    # What happens

    def fail(self, failure: Failure) -> None:
        """A failure begins; a node that does not run has no other one."""
        if not self._cluster.alive(failure.node):
            return
        if failure.kind == DEATH:
            self._die(failure.node)
        elif failure.kind == CUT_OFF:
            self._cut_off(failure.node, failure.lasts)
        elif failure.kind == FLAP:
            self._flap(failure, self._schedule.now + failure.lasts)
        else:
            self._add(failure)
            if failure.kind == AILMENT:
                self._schedule.after(failure.lasts, lambda: self._worsen(failure))
            elif failure.kind == STORM:
                self._schedule.after(failure.lasts, lambda: self._remove(failure))

    def report(self, node: str, status: str, original: bytes) -> None:
        """Have a node report this diagnose object from the start; ``status``: that of it."""
        known = Failure(0, node, REPORT, 0, status)
        self._wrong.setdefault(node, {})[known] = original

    def be_dead(self, node: str, since: int) -> None:
        """Have a node be dead from the start; ``since``: ns since the epoch."""
        self._silent[node] = since
        self._cluster.power(node, dead=True)

    def _flap(self, failure: Failure, until: int) -> None:
        """Report a fault, or stop to report it."""
        if failure in self._wrong.get(failure.node, {}):
            self._remove(failure)
        elif self._schedule.now < until and self._cluster.alive(failure.node):
            self._add(failure)
        else:
            return
        self._schedule.after(failure.period, lambda: self._flap(failure, until))

    def _worsen(self, failure: Failure) -> None:
        if failure in self._wrong.get(failure.node, {}):
            self._die(failure.node)

    def _cut_off(self, node: str, lasts: int) -> None:
        """A node loses its network, unless it has lost it already."""
        if node in self._cluster.cut:
            return
        self._silent[node] = since = self._schedule.now
        self._cluster.cut_off(node, is_cut=True)
        self._lost(node)
        self._schedule.after(lasts, lambda: self._reconnect(node, since))
        self.news()

    def _reconnect(self, node: str, since: int) -> None:
        """The network is back; a node that was switched off stays off."""
        if node in self._cluster.cut and self._silent[node] == since:
            self._silent.pop(node)
            self._cluster.cut_off(node, is_cut=False)
            self.news()

    def _die(self, node: str) -> None:
        self._silent.setdefault(node, self._schedule.now)
        self._cluster.power(node, dead=True)
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
        self._cluster.power(node, out=True)
        self.news()

    def repair(self, node: str) -> None:
        """A node runs again, and nothing is wrong with it."""
        self._wrong.pop(node, None)
        self._silent.pop(node, None)
        self._cluster.power(node)
        self.news()

    @property
    def ill(self) -> int:
        """How many nodes report a fault."""
        return sum(self._cluster.answers(node) for node in self._wrong)
