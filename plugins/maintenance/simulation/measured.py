"""What a simulation counts while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from ganeti_steward.core.model.opcodes import MOVES, REPLACE_DISKS
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.engine.brakes import is_under_repair
from ganeti_steward.plugins.maintenance.engine.decision import Change
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.maintenance.simulation.operations import Operation
from ganeti_steward.plugins.maintenance.simulation.site import Site

STUCK: Final = "stuck"


class Brake(NamedTuple):
    """One brake that held."""

    subjects: int
    """incidents and the like that it held back"""
    held: int
    """ns in which it held, summed over them"""


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


class Measured:
    """Everything that happened so far; the only thing a result is made of."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """``clock``: ns since the epoch."""
        self._clock = clock
        self.moves = Counter[str]()
        """opcode -> operations that succeeded"""
        self.copied = 0
        """MiB"""
        self.failed_jobs = self.rounds = 0
        self.deaths = self.deaths_in_use = 0
        self.states = Counter[str]()
        """state -> incidents that reached it"""
        self.stuck = set[str]()
        """uuids of incidents"""
        self.under_repair = self.most_under_repair = self.incidents = 0
        self.faults: list[str] = []
        """why rounds of the daemon failed"""
        self.subjects: dict[str, set[str]] = {}
        self.held = Counter[str]()
        self.job_ended: Callable[[], None] = lambda: None
        self._holding: set[tuple[str, str]] = set()
        self._since = clock()

    def did(self, operation: Operation, site: Site) -> None:
        """An operation succeeded."""
        if operation["OP_ID"] in MOVES:
            self.moves[operation["OP_ID"]] += 1
        if operation["OP_ID"] == REPLACE_DISKS:
            self.copied += site.instances[operation["instance_name"]].disk_space

    def died(self, instances: int) -> None:
        """A node died on which so many instances ran."""
        self.deaths += 1
        self.deaths_in_use += instances > 0

    def round(self, outcome: Round) -> None:
        """A round is over."""
        self.rounds += 1
        if outcome.fault:
            self.faults.append(outcome.fault)
            return
        self.hold({(one.brake, one.subject) for one in outcome.held})
        for change in outcome.changes:
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

    def brakes(self) -> dict[str, Brake]:
        """Brake -> how much it held, most first."""
        found = {name: Brake(len(self.subjects[name]), self.held[name]) for name in self.subjects}
        return dict(sorted(found.items(), key=lambda one: (-one[1].held, one[0])))


def _state(change: Change) -> str:
    if change.after is None:
        return f"{FORGOTTEN} while {change.before.state_name}" if change.before else FORGOTTEN
    return change.after.state_name
