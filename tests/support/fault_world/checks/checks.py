"""All invariants of one world."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fault_world.checks.answers import NONE
from fault_world.checks.begun import Begun
from fault_world.checks.canceled import Canceled
from fault_world.checks.effects import changes
from fault_world.checks.foreign import Foreign
from fault_world.checks.invariants import Broken
from fault_world.checks.jobs import Jobs
from fault_world.checks.left_behind import check_left, check_records, not_noticed
from fault_world.checks.reboots import Reboots
from fault_world.checks.reported import Reports
from fault_world.checks.results import Results
from fault_world.checks.seen import Seen, both, seen
from fault_world.checks.texts import record_of, shown, texts
from fault_world.clock import SECOND
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.model.incident import JOB_SOURCE, Incident

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Row = dict[str, Any]
Operation = Mapping[str, Any]


class Checks:
    """The first invariant that is broken is kept in `broken`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.broken: Broken | None = None
        self.jobs, self.reported = Jobs(world, self.require), Reports(world, self.require)
        self.foreign = Foreign(world, self.require)
        self.reboots = Reboots(world, self.require)
        self.canceled = Canceled(world, self.require)
        self.begun, self.results = Begun(world, self.require), Results(world, self.require)
        self.records: dict[str, Row] = {}
        """uuid -> record as a daemon wrote it last"""
        self.deleted: set[str] = set()
        """uuids of records that people deleted or edited"""
        self._writers: dict[str, Daemon] = {}
        """uuid of a record -> the daemon that wrote it last"""
        self._written_at: dict[str, int] = {}
        """uuid of a record -> when that was, ns since the epoch"""
        self._round_at: dict[Daemon, int] = {}
        """daemon -> when its last round ended, ns since the epoch"""
        self._removed: set[str] = set()
        """uuids of records that daemons deleted"""
        self._off: dict[str, frozenset[str]] = {}
        """id of a submission -> the nodes without power when it was handed over"""
        self.former: dict[str, Row] = {}
        """uuid -> what daemons had written to the records that people deleted"""
        self.requested: set[str] = set()
        """uuids of maintenances that people requested"""
        self.ready: set[str] = set()
        """those of them whose node was ready in the last round"""
        self._ran: dict[tuple[str, bytes], int] = {}
        """node and object -> when a command was run for it, ns since the epoch"""
        self._daemons: dict[tuple[str, bytes], Daemon] = {}
        """node and object -> who requested a command for it last"""
        self._requested: dict[tuple[str, bytes], tuple[int, Daemon | None]] = {}
        """node and object -> when a command was run for it, and who had requested that"""
        self._commands: set[str] = set()
        """ids of submissions that were run"""
        self.incidents: Mapping[str, Incident] = {}
        """as the daemon knew them after its last round"""
        self.announced: set[str] = set()
        """ids of submissions that daemons have recorded, also where the record was deleted since"""
        self.left: set[str] = set()
        """uuids of the incidents whose tags a person had removed when every incident had ended"""
        self._held: set[str] = set()
        """what was not done in the last round, and why"""

    def require(self, name: str, holds: bool, text: str) -> None:
        """Note that an invariant is broken, unless it holds or another one was broken before."""
        if not holds and self.broken is None:
            self.broken = Broken(name, text)
            self._world.narrate(f"BROKEN {name}: {text}")

    # What daemons see

    def seen(self) -> Seen:
        """The truth now."""
        return seen(self._world, self.known())

    def known(self) -> dict[str, Row]:
        """The records that daemons wrote, without those that people deleted or edited."""
        return {uuid: one for uuid, one in self.records.items() if uuid not in self.deleted}

    def saw(self, before: Seen) -> Seen:
        """A daemon has read the cluster; what it could see all the time."""
        found = both(before, self.seen())
        self.jobs.saw(found)
        return found

    # Effects

    def submitted(
        self, numbers: Sequence[int], jobs: Sequence[Sequence[Operation]], caller: Daemon | None
    ) -> None:
        """Luxid has taken jobs; ``caller``: None: of others."""
        for number, job in zip(numbers, jobs, strict=True):
            whose = "" if caller else " of others"
            self._world.narrate(f"submitted job {number}{whose}: {shown(job)}")
            submission = texts(job).get(SUBMISSION_SOURCE, "")
            self._off[submission] = frozenset(self._world.ganeti.off)
        if caller:
            self.jobs.submitted(numbers, jobs, caller)

    def starts(self, operation: Operation, instance: str) -> None:
        """An operation is going to start an instance on its primary."""
        ganeti = self._world.ganeti
        row, data = ganeti.instance(instance), ganeti.data[instance]
        primary, text = row["pnode"], f"{shown([operation])} starts {instance} on {row['pnode']}"
        others = sorted(ganeti.runs[instance] - {primary})
        self.require("runs-once", not others, f"{text}, and it runs on {others}")
        if not row["snodes"] or primary in data.whole or JOB_SOURCE not in texts([operation]):
            return
        # Where it is switched on meanwhile, no job can know.
        submission = texts([operation]).get(SUBMISSION_SOURCE, "")
        off = row["snodes"][0] in ganeti.off | self._off.get(submission, frozenset())
        permitted = off and self._world.settings.failover_unsynced
        self.require("data-kept", permitted or not data.whole, f"{text} with an old copy")

    def changed_disks(self, operation: Operation, before: int, after: int) -> None:
        """An operation has left so many good copies of an instance."""
        own = JOB_SOURCE in texts([operation])
        text = f"{shown([operation])} leaves no good copy of {before}"
        self.require("copies-kept", not own or after > 0 or before == 0, text)

    def deposed(self, jobs: Sequence[Sequence[Operation]], voted: bool) -> None:
        """A luxid has taken jobs that is not the master's any more; ``voted``: it just was."""
        acting = [shown(job) for job in jobs if any(map(changes, job))]
        for text in acting:
            self._world.narrate(f"submitted to the old master: {text}")
        self.require("one-master", voted or not acting, "; ".join(acting))

    def command_requested(self, daemon: Daemon, node: str, original: bytes) -> None:
        """A daemon requests a repair command."""
        if "maintenance" in json.loads(original):
            self.reboots.requested(node, daemon.seen)
            return
        answer, text = daemon.answers.observed.get(node, NONE), f"a command of {node} is requested"
        reported = answer.object.encode() == original
        self.require("command-reported", reported, f"{text}, which reports {answer.status}")
        at, by = self._requested.get((node, original), (0, None))
        passed = (self._world.clock.now - at) / SECOND
        again = by is daemon and passed < self._world.settings.command_again_after
        text = f"{text} again after {passed:.0f} s"
        self.require("command-reported", self._world.jumped > 0 or not again, text)
        self._daemons[node, original] = daemon

    def command_run(self, node: str, submission: str, command: str, original: bytes) -> None:
        """An agent has begun a repair command."""
        self._world.narrate(f"{node} runs {command}")
        now, last = self._world.clock.now, self._ran.get((node, original))
        again = last is not None and now - last < 3600 * SECOND
        text = f"{submission} on {node}"
        again &= not self._world.agents[node].forgot
        self.require("command-reported", submission not in self._commands and not again, text)
        daemon = self._daemons.get((node, original))
        self._requested[node, original] = now, daemon
        announced = submission in self.announced
        self.require("recorded-first", announced, f"no record has the command {text}")
        self._commands.add(submission)
        self._ran[node, original] = now

    def rule_written(self, rule: Row, caller: Daemon | None) -> None:
        """A filter rule was written."""
        record = record_of(rule)
        if record is None or "hmac" not in record or caller is None:
            return
        uuid, before = rule["uuid"], self.records.get(rule["uuid"])
        state = _state(record)
        written_since = uuid in self._removed or self._writers.get(uuid) is not caller
        if not caller.process.alive and written_since:
            # A call of a daemon that was killed: the one that runs now writes the record back, or
            # ignores it.
            self.deleted.add(uuid)
        self._writers[uuid] = caller
        self._written_at[uuid] = self._world.clock.now
        # A person has written the request of a maintenance.
        first = "noted" if uuid in self.requested else ""
        if (_state(before) if before else first) != state:
            if before is None or before["status"] != record["status"]:
                line = f"incident {uuid[:8]} of {record.get('node_name')}: {record['status']}"
                self._world.narrate(line)
            if uuid not in self.deleted:
                self.reported.wrote(caller, uuid, state)
        if record["status"] == "pending" and caller.seen:
            self.jobs.begun(uuid, record["node_name"], caller.seen)
        if uuid not in self.deleted:
            self._judge_record(uuid, before, record, caller)
            self._pending()
        self.foreign.written(rule, caller)
        self.records[uuid] = record
        self.announced.update(one["id"] for one in record["open"])

    def _pending(self) -> None:
        """No more nodes are under repair than may be, in the middle of a round as well."""
        nodes = {one["node"] for one in self.known().values() if one["status"] == "pending"}
        text = f"{len(nodes)} nodes are recorded to be under repair"
        self.require("limits", len(nodes) <= self._world.settings.most_nodes, text)

    def _judge_record(self, uuid: str, before: Row | None, record: Row, caller: Daemon) -> None:
        self.begun.recorded(uuid)
        if before and before["status"] == "noted" and record["status"] == "pending":
            self.begun.begun(uuid, record, caller.answers, caller.seen)
        self.results.written(uuid, before, record, caller.seen)
        self.reboots.written(uuid, before, record)

    def rule_deleted(self, rule: Row, caller: Daemon | None) -> None:
        """A filter rule was deleted."""
        uuid = rule["uuid"]
        if record_of(rule) is None:
            return
        self._world.narrate(f"record {uuid[:8]} was deleted")
        record = self.records.pop(uuid, None)
        if record is not None and caller:
            self._removed.add(uuid)
            self.reported.wrote(caller, uuid, FORGOTTEN)
            if uuid not in self.deleted:
                self.results.removed(uuid, record, caller.answers, caller.seen)
        if caller is None:
            self.deleted.add(uuid)
            self.former[uuid] = record or {}

    def round(self, daemon: Daemon, outcome: Round) -> None:
        """A round has ended."""
        self.incidents = outcome.incidents
        held = {f"{one.subject[:8]} {one.brake}: {one.sentence}" for one in outcome.held}
        held = {re.sub(r"[0-9]+ s\b", "... s", line) for line in held}
        for line in sorted(held - self._held):
            self._world.narrate(f"held {line}")
        self._held = held
        # An older record that people wrote back counts for the daemon that cannot know it.
        own = [one for uuid, one in outcome.incidents.items() if uuid not in self.deleted]
        repaired = {one.node for one in own if one.state.under_repair}
        most = self._world.settings.most_nodes
        self.require("limits", len(repaired) <= most, f"{len(repaired)} nodes are under repair")
        self._maintained(outcome)
        self.begun.round()
        self.results.round()
        if outcome.decision is not None and not (outcome.undecided or outcome.fault):
            self._accepts(daemon, outcome)
            self.foreign.round(daemon)
            self.canceled.round(daemon)
        else:
            daemon.answers.forget_round()
        check_records(self._world, self.records, self.require)
        unexpected = outcome.fault and ":" in outcome.fault.split(" ")[0]
        self.require("no-fault", not unexpected, outcome.fault)

    def _accepts(self, daemon: Daemon, outcome: Round) -> None:
        """No record is ignored that was there before this round."""
        at, self._round_at[daemon] = self._round_at.get(daemon), self._world.clock.now
        read = outcome.world.incidents if outcome.world else {}
        for uuid in sorted(self.known().keys() - {*read, *outcome.incidents}):
            there = uuid in self._world.luxid.filters
            late = at is None or self._written_at[uuid] >= at
            # Who cannot read a record that people have edited counts on from its own clock.
            late |= self._world.jumped > 0 and bool(self.deleted)
            self.require("accepted", late or not there, f"{daemon.node} ignores {uuid}")

    def _maintained(self, outcome: Round) -> None:
        """Which nodes are away for maintenance, and which of them are ready."""
        ready = (one.subject for one in outcome.held if " is ready: nothing runs" in one.sentence)
        self.ready = {*ready}
        away = {
            one.node_name
            for one in outcome.incidents.values()
            if one.maintenance and one.state.under_repair
        }
        for row in self._world.ganeti.instances:
            both = away.intersection((row["pnode"], *row["snodes"]))
            self.require("apart", len(both) < 2, f"{row['name']} has {sorted(both)}")

    def rest(self) -> None:
        """Every incident has ended; some more rounds follow."""
        self.left = not_noticed(self._world, self.known())

    def end(self) -> None:
        """Nothing has happened for some rounds."""
        left = sorted(self.left & not_noticed(self._world, self.known()))
        self.require("ends", not left, f"{left} is not acknowledged, though its tag was removed")
        check_left(self._world, self.records, self.require)
        self.reported.end({uuid: _state(one) for uuid, one in self.records.items()}, self.deleted)


def _state(record: Row) -> str:
    return "acknowledged" if record.get("acknowledged") else str(record["status"])
