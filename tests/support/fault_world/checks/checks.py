"""All invariants of one world."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fault_world.checks.answers import NONE
from fault_world.checks.around import Around
from fault_world.checks.begun import Begun, Waits
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
from fault_world.checks.take_overs import TakeOvers
from fault_world.checks.texts import is_stamped, record_of, shown, texts
from fault_world.clock import SECOND
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.model.debts import (
    CANDIDATE_TAG,
    DRAINED_TAG,
    HOME_TAG,
    SHUTDOWN_TAG,
)
from ganeti_steward.plugins.model.incident import DEAD, JOB_SOURCE, Incident
from ganeti_steward.plugins.model.routine import ROUTINE_SOURCE

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Row = dict[str, Any]
#: Operations by which an instance gets another primary.
_LEAVING = ("OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER", "OP_INSTANCE_MOVE")
Operation = Mapping[str, Any]


class Checks:
    """The first invariant that is broken is kept in `broken`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.broken: Broken | None = None
        self.jobs, self.reported = Jobs(world, self.require), Reports(world, self.require)
        self.foreign = Foreign(world, self.require)
        self.reboots = Reboots(world, self.require)
        self.around = Around(world, self.require)
        self.take_overs = TakeOvers(world, self.require)
        self.canceled = Canceled(world, self.require)
        self.waits = Waits(world, self.require)
        self.begun, self.results = Begun(world, self.require), Results(world, self.require)
        self.records: dict[str, Row] = {}
        """uuid -> record as a daemon wrote it last"""
        self.deleted: set[str] = set()
        """uuids of records that people deleted or edited"""
        self._writers: dict[str, Daemon] = {}
        """uuid of a record -> the daemon that wrote it last"""
        self._written_at: dict[str, int] = {}
        """uuid of a record -> when a daemon or a person wrote it last, ns since the epoch"""
        self._round_at: dict[Daemon, int] = {}
        """daemon -> when its last round ended, ns since the epoch"""
        self._removed: set[str] = set()
        """uuids of records that daemons deleted"""
        self._off: dict[str, frozenset[str]] = {}
        """id of a submission -> the nodes without power when it was handed over"""
        self._candidates: dict[str, frozenset[str]] = {}
        """id of a submission -> the master candidates that the daemon could see"""
        self._out: dict[str, frozenset[str]] = {}
        """submission -> nodes that were out of service for all that its daemon could know"""
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
            seen = caller.seen if caller else None
            self._out[submission] = seen.was_out if seen else frozenset()
            self._candidates[submission] = seen.pool.candidates if seen else frozenset()
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
        # No check since has shown that the copies are not the same any more.
        incident = self.known().get(texts([operation]).get(JOB_SOURCE, ""), {})
        by_check = ROUTINE_SOURCE in texts([operation]) or incident.get("action") == DEAD
        permitted |= by_check and off and data.in_sync is True
        self.require("data-kept", permitted or not data.whole, f"{text} with an old copy")

    def remembered(self, operation: Operation, drained: set[str]) -> None:
        """An operation has had its effect: a maintenance leaves nothing that no tag names.

        ``drained``: names of the nodes that were drained before it.
        """
        incident = texts([operation]).get(JOB_SOURCE, "")
        request = self.records.get(incident, {}).get("maintenance")
        ganeti, kind = self._world.ganeti, operation["OP_ID"]
        if request is None:
            return
        row = ganeti.node(self.records[incident]["node_name"])
        # Where it is taken back after the cluster was read, no job can know.
        submission = texts([operation]).get(SUBMISSION_SOURCE, "")
        known = self._out.get(submission, frozenset[str]())
        new = operation.get("drained") and row["name"] not in drained | known
        tags, wanted = row["tags"], DRAINED_TAG if new else ""
        candidate = f"{CANDIDATE_TAG}{row['uuid']}" in tags
        text = f"{shown([operation])}, and {row['name']} was a candidate"
        lost = new and row["name"] in self._candidates.get(submission, frozenset[str]())
        self.require("remembered", not lost or candidate, text)
        back = operation.get("drained") is False and candidate and row["master_capable"]
        self.require("remembered", not back or row["master_candidate"], text)
        self.around.done(incident, request, operation)
        if name := operation.get("instance_name"):
            one = ganeti.instance(name)
            left = kind in _LEAVING and request["returns"] and one["pnode"] != row["name"]
            stopped = kind == "OP_INSTANCE_SHUTDOWN"
            tags, wanted = one["tags"], SHUTDOWN_TAG if stopped else HOME_TAG if left else ""
        if wanted:
            text = f"{shown([operation])}, and no tag says so"
            self.require("remembered", f"{wanted}{row['uuid']}" in tags, text)

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
        given = json.loads(original)
        if "maintenance" in given:
            known = bool(daemon.answers.observed.get(node, NONE).object)
            if step := given.get("step"):
                self.around.requested(given["maintenance"], step, known=known)
                return
            self.reboots.requested(node, daemon.seen)
            text = f"{node} is to be rebooted by a daemon that has no report of it"
            self.require("returned", known, text)
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
        if record is None or "hmac" not in record:
            return
        uuid, before = rule["uuid"], self.records.get(rule["uuid"])
        self._written_at[uuid] = self._world.clock.now
        # The daemon writes a known text to disarm the rule of a record that it ignores.
        if caller is None or self.foreign.has(rule):
            return
        state = _state(record)
        written_since = uuid in self._removed or self._writers.get(uuid) is not caller
        if not caller.process.alive and written_since:
            # A call of a daemon that was killed: the one that runs now writes the record back, or
            # ignores it.
            self.deleted.add(uuid)
        else:
            self.canceled.written(uuid, record)
        self._writers[uuid] = caller
        # A person has written the request of a maintenance.
        first = "noted" if uuid in self.requested else ""
        if (_state(before) if before else first) != state:
            if before is None or before["status"] != record["status"]:
                line = f"incident {uuid[:8]} of {record.get('node_name')}: {record['status']}"
                self._world.narrate(line)
            if uuid not in self.deleted:
                self.reported.wrote(caller, uuid, state)
        if record["status"] == "pending" and caller.seen:
            self.jobs.begun(uuid, record, caller.seen)
        if uuid not in self.deleted:
            self._judge_record(uuid, before, record, caller)
            self._pending()
        self.foreign.written(rule, caller)
        self.records[uuid] = record
        self.announced.update(one["id"] for one in record["open"])

    def _pending(self) -> None:
        """No more nodes are under repair than may be, in the middle of a round as well."""
        pending = [one for one in self.known().values() if one["status"] == "pending"]
        self._limits((one["node"], bool(one.get("maintenance"))) for one in pending)

    def _limits(self, nodes: Iterable[tuple[str, bool]]) -> None:
        """``nodes``: those that are under repair or away, and whether that is for maintenance."""
        found = {*nodes}
        for planned in (False, True):
            many = sum(one == planned for _, one in found)
            text = f"{many} nodes are {'away for maintenance' if planned else 'under repair'}"
            self.require("limits", many <= self._world.settings.most_nodes, text)

    def _judge_record(self, uuid: str, before: Row | None, record: Row, caller: Daemon) -> None:
        self.begun.recorded(uuid)
        if before and before["status"] == "noted" and record["status"] == "pending":
            self.waits.begun(record)
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
            self.canceled.removed(uuid)
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
        own = outcome.incidents.values()
        self._limits((one.node, bool(one.maintenance)) for one in own if one.state.under_repair)
        self._maintained(outcome)
        self.waits.round(outcome)
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
            # A daemon that was killed while it wrote may have left one that root must confirm.
            other = self._writers.get(uuid) is not daemon
            late |= there and other and not is_stamped(self._world.luxid.filters[uuid])
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
