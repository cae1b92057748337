"""Judges the tasks of repairs against each other, and against what was tried before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fault_world.checks.texts import shown
from fault_world.clock import SECOND
from ganeti_steward.plugins.model.incident import DEAD
from ganeti_steward.plugins.model.task import AFTERWARDS, PREPARATIONS

if TYPE_CHECKING:
    from fault_world.checks.seen import Seen
    from fault_world.world import World

Operation = Mapping[str, Any]
Require = Callable[[str, bool, str], None]

_STOPS: Final = frozenset(("OP_INSTANCE_FAILOVER", "OP_INSTANCE_SHUTDOWN"))
_MOVES: Final = frozenset(("OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER"))
#: Parameters that name a node.
_NODES: Final = ("node_name", "target_node", "remote_node")
#: Steps whose failures are counted for each instance.
_TRIED: Final = frozenset(("move", "replace-disks"))

#: How many times in a row a task begins at most that succeeds.
_IN_A_ROW: Final = 4


class OwnJob(NamedTuple):
    """A job that a daemon handed over and that changes something."""

    number: int
    incident: str
    """uuid; empty for routine work"""
    submission: str
    """its id; empty for routine work"""
    step: str
    node: str
    """name of the incident's node"""
    instances: frozenset[str]
    nodes: frozenset[str]
    """names of the nodes that it changes, and of those that its instances have"""
    acts: bool
    """whether it changes more than tags"""


class Tasks:
    """The tasks of the repairs in one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self._tried: dict[tuple[str, str], list[OwnJob]] = {}
        """incident and instance -> the jobs that were to move it"""
        self._same: dict[str, tuple[str, list[tuple[int, ...]]]] = {}
        """incident -> its last task, and the jobs of each time that it began, in a row"""

    def judge(
        self, own: OwnJob, job: Sequence[Operation], seen: Seen, others: Iterable[OwnJob]
    ) -> None:
        """A daemon hands a job of a repair over; ``others``: those that have not ended."""
        if not (own.incident and own.acts):
            return
        text = f"{own.step} for {own.incident}"
        self._require("canceled", own.incident not in seen.canceled, f"{text} was canceled")
        for one in others:
            if one.acts and one.submission != own.submission:
                self._apart(own, one)
        self._drained(own, job, seen, text)
        self._stops(own, job, seen, text)
        known = own.incident not in self._world.checks.deleted
        if known and own.step in _TRIED and len(own.instances) == 1:
            self._again(own, text)

    def _apart(self, own: OwnJob, one: OwnJob) -> None:
        """A node has one task at a time."""
        if one.incident in self._world.checks.deleted:
            # No record has it: a daemon knows what its operations name.
            ops = (self._world.luxid.job(one.number) or {"ops": ()})["ops"]
            named = {op.get(key) for op in ops for key in _NODES}
            one = one._replace(node="", nodes=one.nodes & named)
        same = bool(one.incident) and one.node == own.node
        text = f"{own.step} of {own.node}, and job {one.number} ({one.step}) has not ended"
        self._require("one-task", not same, text)
        both = sorted(own.nodes & one.nodes)
        self._require("one-task", not both, f"{both} in jobs {one.number} and {own.number}")

    def _drained(self, own: OwnJob, job: Sequence[Operation], seen: Seen, text: str) -> None:
        """Nothing moves off a node that can still get instances."""
        leaves = own.step == "move" and job[0]["OP_ID"] in _MOVES
        self._require("drained-first", not leaves or own.node in seen.was_out, text)
        record = self._world.checks.records.get(own.incident, {})
        if record.get("action") == DEAD and (leaves or own.step == "drain"):
            self._require("dead", own.node in seen.was_offline, f"{text}, which is not offline")

    def _stops(self, own: OwnJob, job: Sequence[Operation], seen: Seen, text: str) -> None:
        """What can be migrated is not stopped."""
        record = self._world.checks.records.get(own.incident, {})
        if record.get("action") != "evacuate" or own.node in seen.was_offline:
            return
        runs = self._world.ganeti.runs
        names = [op["instance_name"] for op in job if op["OP_ID"] in _STOPS]
        stops = [name for name in names if own.node in runs.get(name, ())]
        self._require("migrates", not stops, f"{text} stops {stops}")

    def _again(self, own: OwnJob, text: str) -> None:
        """Not at once, and not without end."""
        (name,), settings = own.instances, self._world.settings
        before = self._tried.setdefault((own.incident, name), [])
        failed = [row for one in before if (row := self._failure(one.number))]
        text = f"{text} is tried again after {len(failed)} failures"
        self._require("retried", len(failed) < settings.move_attempts, text)
        if failed and not self._world.jumped:
            last = max(nanoseconds(row["end_ts"]) for row in failed)
            passed = (self._world.clock.now - last) / SECOND
            text = f"{text}, {passed:.0f} s after the last"
            self._require("retried", passed >= settings.retry_delay, text)
        before.append(own)

    def begun(self, own: Sequence[OwnJob], jobs: Sequence[Sequence[Operation]]) -> None:
        """One task of a repair begins; what succeeds without an effect has an end."""
        incident, step = own[0].incident, own[0].step
        task = f"{step} {'; '.join(map(shown, jobs))}"
        before, times = self._same.get(incident, ("", []))
        times = [one for one in times if task == before and self._succeeded(one)]
        self._same[incident] = task, [*times, tuple(one.number for one in own)]
        limited = step not in (*AFTERWARDS, *PREPARATIONS)
        known = incident not in self._world.checks.deleted
        text = f"{task} begins again after it succeeded {len(times)} times in a row"
        self._require("retried", not (limited and known) or len(times) < _IN_A_ROW, text)

    def _succeeded(self, numbers: Sequence[int]) -> bool:
        rows = [self._world.luxid.queue.rows.get(one, {}) for one in numbers]
        return all(row.get("status") == "success" for row in rows)

    def _failure(self, number: int) -> Mapping[str, Any] | None:
        """The row of a job that has failed; None: it has not, or is gone."""
        row = self._world.luxid.queue.rows.get(number)
        return row if row and row["status"] in ("error", "canceled") else None


def nanoseconds(time: Sequence[int]) -> int:
    """A time of luxid as ns since the epoch."""
    return (time[0] * 10**6 + time[1]) * 1000
