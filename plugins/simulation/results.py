"""What a simulation counts while it runs, and what it has shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.model.job_state import ERROR
from ganeti_steward.core.model.opcodes import MOVES, REPLACE_DISKS
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.engine.brake_case import is_under_repair
from ganeti_steward.plugins.maintenance.engine.decision import Change
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.model.incident import STATUSES
from ganeti_steward.plugins.simulation.assumptions import HOUR, Assumptions
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.jobs import Operation, Row

STUCK: Final = "stuck"
#: Parts of the time that are drawn.
SPANS: Final = 400


class Brake(NamedTuple):
    """One brake that held."""

    subjects: int
    """incidents and the like that it held back"""
    held: int
    """ns in which it held, summed over them"""


class Rolled(NamedTuple):
    """What became of the rolls of planned maintenance."""

    rolls: int
    skipped: int
    """not requested, for the one before went on"""
    left_out: int
    """nodes that were not requested: they were offline or could not be away"""
    done: int
    """nodes, like the following"""
    failed: int
    canceled: int
    open: int
    """at the end"""
    reboots: int
    longest: float
    """h from the request until nothing of it was active"""


class Levels(NamedTuple):
    """How many of each there are at one time."""

    ill: int
    """nodes that report a fault"""
    repair: int
    """nodes the daemon works on"""
    out: int
    """nodes that do not run"""
    down: int
    """instances that are down and should not be"""


class Results(NamedTuple):
    """The figures of one simulation."""

    assumed: Assumptions
    nodes: int
    instances: int
    """those that are meant to run"""
    availability: float
    """share of the instances' time in which they ran"""
    downtime: Mapping[str, float]
    """cause -> hours, summed over the instances"""
    deaths: int
    """nodes that died"""
    deaths_in_use: int
    """those of them on which instances ran"""
    cut_offs: int
    """nodes that lost their network while they ran"""
    switched_off: int
    """nodes that the daemon had switched off by their out-of-band program"""
    switched_off_running: int
    """those of them that ran then: they were only cut off"""
    run_twice: tuple[str, ...]
    """instances that were started while another node ran them, which must never be"""
    moves: Mapping[str, int]
    """command of gnt-instance -> moves that succeeded"""
    copied: float
    """GiB of disks"""
    failed_jobs: int
    incidents: int
    """new ones"""
    states: Mapping[str, int]
    """state -> how often an incident reached it"""
    left: Mapping[str, int]
    """status -> incidents at the end"""
    stuck: int
    """incidents without progress for longer than ``stuck-after``"""
    most_under_repair: int
    """nodes at the same time"""
    brakes: Mapping[str, Brake]
    """brake -> how much it held, most first"""
    rounds: int
    """rounds of the daemon that could decide something new"""
    faults: tuple[str, ...]
    """why rounds of the daemon failed"""
    spans: tuple[Levels, ...]
    """the highest levels in each of equal parts of the time"""
    rolls: Rolled

    def json(self) -> dict[str, Any]:
        """The figures as data; times in hours, shares as numbers up to 1."""
        brakes = {
            name: {"subjects": one.subjects, "hours": one.held / HOUR}
            for name, one in self.brakes.items()
        }
        return {
            **self._asdict(),
            "assumed": self.assumed._asdict(),
            "brakes": brakes,
            "spans": [one._asdict() for one in self.spans],
            "rolls": self.rolls._asdict(),
        }


class Measured:
    """Everything that happened so far; the only thing a result is made of."""

    def __init__(self, clock: Callable[[], int], cluster: SimulatedCluster) -> None:
        """``clock``: ns since the epoch."""
        self._clock, self._cluster = clock, cluster
        self.moves = Counter[str]()
        """opcode -> operations that succeeded"""
        self.copied = 0
        """MiB"""
        self.failed_jobs = self.rounds = 0
        self.deaths = self.deaths_in_use = self.cut_offs = 0
        self.states = Counter[str]()
        """state -> incidents that reached it"""
        self.stuck = set[str]()
        """uuids of incidents"""
        self.under_repair = self.most_under_repair = self.incidents = 0
        self.faults: list[str] = []
        """why rounds of the daemon failed"""
        self.subjects: dict[str, set[str]] = {}
        self.held = Counter[str]()
        self.spans: list[Levels] = []
        """the highest levels in each of equal parts of the time"""
        self._levels = Levels(0, 0, 0, 0)
        self._holding: set[tuple[str, str]] = set()
        self._since = clock()

    def did(self, operation: Operation) -> None:
        """An operation succeeded."""
        if operation["OP_ID"] in MOVES:
            self.moves[operation["OP_ID"]] += 1
        if operation["OP_ID"] == REPLACE_DISKS:
            self.copied += self._cluster.instances[operation["instance_name"]].disk_space

    def ended(self, job: Row) -> None:
        """A job has ended; one that could not start has not failed."""
        self.failed_jobs += job["status"] == ERROR and job["start_ts"] is not None

    def died(self, node: str) -> None:
        """A node died."""
        self.deaths += 1
        instances = self._cluster.instances.values()
        self.deaths_in_use += any(one.primary == node and one.up for one in instances)

    def round(self, outcome: Round) -> None:
        """A round is over."""
        self.rounds += 1
        if outcome.fault:
            self.faults.append(outcome.fault)
            return
        self.hold({(one.brake, one.subject) for one in outcome.held})
        for change in outcome.changes:
            one = change.after or change.before
            if one and one.maintenance:
                continue
            self.incidents += change.before is None
            self.states[_state(change)] += 1
        nodes = {one.node for one in outcome.incidents.values() if is_under_repair(one)}
        self.under_repair = len(nodes)
        self.most_under_repair = max(self.most_under_repair, self.under_repair)

    def hold(self, holding: set[tuple[str, str]]) -> None:
        """From now on these brakes hold these subjects, and no others do."""
        now = self._clock()
        for brake, _ in self._holding:
            self.held[brake] += now - self._since
        for brake, subject in holding:
            self.subjects.setdefault(brake, set()).add(subject)
        self.stuck |= {subject for brake, subject in holding if brake == STUCK}
        self._holding, self._since = holding, now

    def level(self, share: float, now: Levels) -> None:
        """The levels from now on; ``share``: of the time that is over."""
        at = min(int(share * SPANS), SPANS - 1)
        self._fill(at + 1)
        self.spans[at] = Levels(*map(max, self.spans[at], now))
        self._levels = now

    def _fill(self, length: int) -> None:
        self.spans += [self._levels] * (length - len(self.spans))

    def results(self, assumed: Assumptions, left: Mapping[str, int], rolls: Rolled) -> Results:
        """Put the figures together, at the end; ``left``: status -> incidents."""
        self.hold(set())
        self._cluster.finish()
        self._fill(SPANS)
        brakes = {name: Brake(len(self.subjects[name]), self.held[name]) for name in self.subjects}
        downtime = sorted(self._cluster.downtime.items())
        hours = {cause: spent / HOUR for cause, spent in downtime}
        instances = sum(one.up for one in self._cluster.instances.values())
        whole = instances * assumed.days * 24
        return Results(
            assumed=assumed,
            nodes=len(self._cluster.nodes),
            instances=instances,
            availability=1 - sum(hours.values()) / whole if whole else 1.0,
            downtime=hours,
            deaths=self.deaths,
            deaths_in_use=self.deaths_in_use,
            cut_offs=self.cut_offs,
            switched_off=self._cluster.switch_offs.total(),
            switched_off_running=self._cluster.switch_offs[True],
            run_twice=tuple(sorted(self._cluster.run_twice)),
            moves={one.command: self.moves[kind] for kind, one in MOVES.items()},
            copied=self.copied / 1024,
            failed_jobs=self.failed_jobs,
            incidents=self.incidents,
            states=dict(sorted(self.states.items())),
            left={status: left[status] for status in STATUSES if left.get(status)},
            stuck=len(self.stuck),
            most_under_repair=self.most_under_repair,
            brakes=dict(sorted(brakes.items(), key=lambda one: (-one[1].held, one[0]))),
            rounds=self.rounds,
            faults=tuple(self.faults),
            spans=tuple(self.spans),
            rolls=rolls,
        )


def _state(change: Change) -> str:
    if change.after is None:
        return f"{FORGOTTEN} while {change.before.state_name}" if change.before else FORGOTTEN
    return change.after.state_name
