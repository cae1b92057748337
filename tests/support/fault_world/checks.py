"""What must hold after every effect, whatever has gone wrong; each check has a name.

`docs/explanation/invariants.md` has them as a table.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.model.opcodes import MOVES
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.model.incident import JOB_SOURCE, Incident
from ganeti_steward.plugins.texts import read_reasons

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Row = dict[str, Any]
Operation = Mapping[str, Any]

#: Name -> what must hold.
INVARIANTS: Final[Mapping[str, str]] = {
    "submitted-once": "The jobs of one submission are handed over once.",
    "recorded-first": "A repair's jobs are handed over after the record that announces them.",
    "reported": "A node is drained or set offline only for a report of that node.",
    "one-task": "No instance is in two tasks of the daemon at the same time.",
    "data-kept": "The daemon never starts an instance from a copy that lacks what was written.",
    "runs-once": "No instance runs on two nodes.",
    "target-healthy": "Nothing is moved to a node that is drained, offline or under repair.",
    "command-reported": "A repair command runs only on a node that reports it, once for each id.",
    "master-kept": "The master is neither drained, set offline nor switched off.",
    "limits": "No more nodes than `most-nodes` are under repair.",
    "paused": "Nothing is begun while the cluster is paused.",
    "no-fault": "No round ends by an error that is not expected.",
    "ends": "When nothing goes wrong any more, every incident ends or waits for a person.",
    "bounded": "What the daemon leaves behind is bounded.",
}


class Broken(Exception):
    """An invariant does not hold."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class Checks:
    """All invariants of one world; the first that is broken is kept in `broken`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.broken: Broken | None = None
        self._submitted: Counter[str] = Counter()
        """id of a submission -> how many calls have handed it over"""
        self._commands: set[str] = set()
        self.incidents: Mapping[str, Incident] = {}
        """as the daemon knew them after its last round"""
        self._held: set[str] = set()
        """what was not done in the last round, and why"""
        self._status: dict[str, str] = {}
        """uuid of a record -> status in it"""

    def _require(self, name: str, holds: bool, text: str) -> None:
        if not holds and self.broken is None:
            self.broken = Broken(name, text)
            self._world.tell(f"BROKEN {name}: {text}")

    # Effects

    def submitted(self, numbers: Sequence[int], jobs: Sequence[Sequence[Operation]]) -> None:
        """Luxid has taken jobs."""
        ids = {}
        for number, job in zip(numbers, jobs, strict=True):
            texts = _texts(job)
            self._world.tell(f"submitted job {number}: {_shown(job)}")
            if SUBMISSION_SOURCE in texts:
                ids[texts[SUBMISSION_SOURCE]] = texts.get(JOB_SOURCE, "")
        for submission, incident in ids.items():
            self._submitted[submission] += 1
            times = self._submitted[submission]
            self._require("submitted-once", times == 1, f"submission {submission} twice")
            record = dict(self._world.records()).get(incident, {})
            known = [one["id"] for one in record.get("open", ())]
            text = f"the record of {incident} does not announce {submission}"
            self._require("recorded-first", submission in known, text)

    def begun(self, operation: Operation) -> None:
        """An operation starts."""
        texts = _texts([operation])
        if JOB_SOURCE not in texts:
            return
        kind = operation["OP_ID"]
        if kind in MOVES:
            self._move(operation)

    def _move(self, operation: Operation) -> None:
        ganeti, name = self._world.ganeti, operation["instance_name"]
        if not ganeti.has_instance(name):
            return
        row = ganeti.instance(name)
        target = operation.get("remote_node") or operation.get("target_node")
        if target is None or target in (row["pnode"],):
            return
        node = ganeti.node(target) if any(n["name"] == target for n in ganeti.nodes) else None
        if node is None:
            return
        ill = [one.node for one in self.incidents.values() if one.state.under_repair]
        self._require("target-healthy", node["uuid"] not in ill, f"{name} to {target}")

    def ended(self, operation: Operation) -> None:
        """An operation has succeeded."""
        ganeti = self._world.ganeti
        for name, places in ganeti.runs.items():
            self._require("runs-once", len(places) < 2, f"{name} runs on {sorted(places)}")
        if JOB_SOURCE not in _texts([operation]):
            return
        if operation["OP_ID"] == "OP_NODE_SET_PARAMS":
            name = operation["node_name"]
            self._require("master-kept", name != ganeti.master, f"{_shown([operation])}")

    def data_lost(self, instance: str, node: str, ours: bool) -> None:
        """An instance was started from a copy that lacks what was written."""
        self._require("data-kept", not ours, f"{instance} was started from an old copy on {node}")

    def command_run(self, node: str, submission: str, command: str) -> None:
        """An agent has begun a repair command."""
        self._world.tell(f"{node} runs {command}")
        self._require("command-reported", submission not in self._commands, f"{submission} twice")
        self._commands.add(submission)

    def rule_written(self, rule: Row) -> None:
        """A filter rule was written."""
        record = record_of(rule)
        if record is None:
            return
        uuid, status = rule["uuid"], record.get("status", "?")
        if "hmac" not in record:
            return
        if self._status.get(uuid) != status:
            self._world.tell(f"incident {uuid[:8]} of {record.get('node_name')}: {status}")
        self._status[uuid] = status

    def rule_deleted(self, rule: Row) -> None:
        """A filter rule was deleted."""
        if record_of(rule) is not None:
            self._world.tell(f"record {rule['uuid'][:8]} was deleted")

    def round(self, daemon: Daemon, outcome: Round) -> None:
        """A round has ended."""
        self.incidents = outcome.incidents
        held = {f"{one.subject[:8]} {one.brake}: {one.sentence}" for one in outcome.held}
        held = {re.sub(r"[0-9]+ s\b", "... s", line) for line in held}
        for line in sorted(held - self._held):
            self._world.tell(f"held {line}")
        self._held = held
        repaired = {one.node for one in outcome.incidents.values() if one.state.under_repair}
        most = self._world.settings.most_nodes
        self._require("limits", len(repaired) <= most, f"{len(repaired)} nodes are under repair")
        unexpected = outcome.fault and ":" in outcome.fault.split(" ")[0]
        self._require("no-fault", not unexpected, outcome.fault)


def record_of(rule: Row) -> Row | None:
    """The record that a rule holds; None for any other rule."""
    for source, text, *_ in rule["reason_trail"]:
        if source == RECORD_SOURCE:
            try:
                found: Row = json.loads(text)
            except ValueError:
                return None
            return found if isinstance(found, dict) else None
    return None


def _texts(job: Sequence[Operation]) -> dict[str, str]:
    reasons = [one for op in job for one in read_reasons(op.get("reason") or [])]
    return {one.source: one.text for one in reasons}


def _shown(job: Sequence[Operation]) -> str:
    """A job in a few words."""
    return "; ".join(
        " ".join(
            [op["OP_ID"].removeprefix("OP_").lower()]
            + [f"{key}={op[key]}" for key in sorted(op) if key in _SHOWN and op[key] is not None]
        )
        for op in job
    )


_SHOWN: Final = frozenset(
    ("instance_name", "node_name", "target_node", "remote_node", "mode", "drained", "offline",
     "name", "tags", "instances", "node_names", "command")
)  # fmt: skip
