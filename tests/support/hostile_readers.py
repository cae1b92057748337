"""Everything that reads what others write, each with a damaged input; the damage is the seed's."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final

from hostile_ganeti import (
    KEY,
    RULES,
    SALT,
    confd_answers,
    decided,
    decoded,
    incidents_with,
    listed,
    luxid,
    luxid_calls,
    luxid_incidents,
    luxid_jobs,
    luxid_rules,
    no_sleep,
    rapi_answers,
    saved_text,
    small_messages,
    used,
)
from mutation import broken, damaged_json, damaged_text
from records import signed_text
from statuses import DONE, INCIDENT, NOW, STATUS
from worlds import incident, instance, node, world

from ganeti_steward.allocators.kept_requests import read_call
from ganeti_steward.allocators.loads.load_reports import read_reports
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.config.values import History
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.signing import sign
from ganeti_steward.core.ganeti.snapshot import read_live
from ganeti_steward.core.iallocator.history import Call
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.json_reader import Faults
from ganeti_steward.core.model.finding import Finding
from ganeti_steward.core.node_agent.protocol import (
    REPAIR,
    REPORT,
    CommandEnd,
    RepairRequest,
    message_text,
    read_request,
)
from ganeti_steward.core.node_agent.remembered import (
    QUESTION,
    STATE,
    CommandQuestion,
    RepairState,
    read_question,
    read_state,
    state_text,
)
from ganeti_steward.core.process.following import Ended
from ganeti_steward.diagnose.agent import memory
from ganeti_steward.diagnose.agent.reports import read_report
from ganeti_steward.diagnose.config.sections import Nagios
from ganeti_steward.diagnose.model.hysteresis import RunState, SourceState
from ganeti_steward.diagnose.model.object import object_faults, read_finding
from ganeti_steward.diagnose.run import state_file
from ganeti_steward.diagnose.sources.nagios import interpret
from ganeti_steward.diagnose.sources.results import from_line
from ganeti_steward.plugins.aggregates.language.tags import read_tag
from ganeti_steward.plugins.filters.rule_text import parsed_predicates, read_rule_file
from ganeti_steward.plugins.maintenance.cli.incident import incident_lines
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import read_world
from ganeti_steward.plugins.maintenance.daemon.recording import MomentLines
from ganeti_steward.plugins.maintenance.daemon.replay import read_moments
from ganeti_steward.plugins.maintenance.edges import metrics
from ganeti_steward.plugins.maintenance.edges.answers import check_report, open_answer
from ganeti_steward.plugins.maintenance.edges.audit import Audit, read_audit
from ganeti_steward.plugins.maintenance.edges.poll import polled
from ganeti_steward.plugins.maintenance.edges.record import write_record
from ganeti_steward.plugins.maintenance.edges.served_status import status_lines
from ganeti_steward.plugins.maintenance.edges.status import change_json, daemon_json, incident_json
from ganeti_steward.plugins.maintenance.engine.decision import Inputs
from ganeti_steward.plugins.maintenance.harep.tags import read_marks
from ganeti_steward.plugins.maintenance.page.view import view
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.maintenance.queue.calls import CallNotes
from ganeti_steward.plugins.maintenance.repairs.live_repair import steward_plan
from ganeti_steward.plugins.model.filter_action import approved_jobs
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.storage import failing_volumes
from ganeti_steward.plugins.model.world import Reported

Read = Callable[[Random], object]

_TOML: Final = """
[plugins]
load = ["rack"]
time-limit = 10.0
[maintd]
mode = "act"
windows = ["Mon-Fri 22:00-06:00"]
hold-time = 300
most-nodes = 1
[nagios.disk]
command = ["/bin/true", "-w", "5"]
[plugin.rack]
height = 3
"""
_TAGS: Final = (
    "ganeti:watcher:autorepair:pending:1:migrate:1690000000:1+2",
    "ganeti:watcher:autorepair:result:5b0c9f7e:fixdisk:1690000000:success:7+8",
    "maintd:approve:12",
    "maintd:pause:new-switch",
    "steward:aggregate:ssd",
    "steward:required:ssd,!hdd",
    "steward:until:ssd:2027-01-01",
    "steward:prefer:ssd:2.5",
)


class Readers:
    """The readers by name, each with its share: those that take longest are called least."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        key = directory / "hmac.key"
        key.write_bytes(KEY)
        key.chmod(0o600)
        self._key = KeyFile(str(key))
        self.all: Final[Mapping[str, tuple[int, Read]]] = {
            "message": (
                12,
                lambda rng: read_message(damaged_json(rng, deepcopy(rng.choice(small_messages())))),
            ),
            "luxid: cluster": (8, lambda rng: read_live(luxid(rng), sleep=no_sleep)),
            "luxid: world": (8, lambda rng: read_world(luxid(rng), NOW, sleep=no_sleep)),
            "luxid: rules": (4, luxid_rules),
            "luxid: jobs": (20, luxid_jobs),
            "luxid: calls": (30, luxid_calls),
            "luxid: incidents": (8, luxid_incidents),
            "RAPI": (16, rapi_answers),
            "confd": (20, confd_answers),
            "record": (10, _record),
            "report": (12, self._report),
            "repair": (30, self._repair),
            "agent": (30, _agent),
            "sources": (40, _sources),
            "tags": (40, _tags),
            "text format": (8, lambda rng: read_text(decoded(damaged_text(rng, saved_text())))),
            "configuration": (12, lambda rng: parse_config("f", damaged_text(rng, _TOML))),
            "replay": (
                6,
                lambda rng: list(read_moments([decoded(damaged_json(rng, recorded_moment()))])),
            ),
            "files": (12, self._files),
            "audit log": (1, self._audit),
            "status": (15, _status),
            "rule file": (10, _rule_file),
        }

    def _signed(self, rng: Random, content: dict[str, Any], raw: bytes | None = None) -> bytes:
        text = decoded(damaged_json(rng, content) if raw is None else raw)
        signed = sign(KEY, text.encode(errors="replace").decode(), SALT)
        return broken(rng, signed) if rng.random() < 0.1 else signed

    def _report(self, rng: Random) -> object:
        content = {
            "purpose": REPORT,
            "node": "n1",
            "timestamp": NOW,
            "unknown": [{"source": "md", "reason": "no mdadm"}],
            "data": {
                "status": "live-repair",
                "command": "fix",
                "details": [{"source": "smart:sda", "details": {"physical_volumes": ["/dev/sda"]}}],
            },
        }
        if rng.random() < 0.2:
            return read_report(damaged_json(rng, content | {"name": "diagnose"}))
        report = open_answer(self._key, self._signed(rng, content), SALT, REPORT)
        check_report(report, ["n1"], NOW, 900)
        found = polled(report, NOW)
        if not isinstance(found.observation, Reported):
            return found
        original = found.observation.original
        return used(lambda: (failing_volumes(original), shown(DONE._replace(original=original))))

    def _repair(self, rng: Random) -> object:
        diagnose = b'{"command":"fix","details":{"a":[1]},"status":"live-repair"}'
        request = message_text(REPAIR, RepairRequest("n1", "fix", diagnose, SALT, "id1", 5))
        outcome = CommandEnd(0, "done", "")
        kind = rng.randrange(3)
        if kind == 0:
            return read_request(decoded(damaged_json(rng, json.loads(request))), _anywhere)
        if kind == 1:
            question = message_text(QUESTION, CommandQuestion("n1", "id1", 5, SALT))
            return read_question(decoded(damaged_json(rng, json.loads(question))), _anywhere)
        state = json.loads(state_text("n1", "id1", RepairState("ended", "fix", 5, outcome)))
        answer = open_answer(self._key, self._signed(rng, state), SALT, STATE)
        return read_state(answer, "n1", "id1")

    def _files(self, rng: Random) -> object:
        kind = rng.randrange(4)
        if kind == 0:
            (self._directory / "call").mkdir(exist_ok=True)
            self._write("call/call.json", damaged_json(rng, Call(NOW, 5, ("x",), 0)._asdict()))
            return read_call(History(directory=str(self._directory)), "call")
        if kind == 1:
            path = self._write("stuck.json", damaged_json(rng, {"smart": [[5, 1.5]]}))
            return state_file.read_stuck(os.path.dirname(path))
        if kind == 2:
            return CallNotes(
                self._write("calls", damaged_json(rng, {"calls": ["a"], "complete": True})),
                writes=False,
            )
        reports = [{"node": "n1", "reports": [{"name": "cpu-avg-load", "data": 1}]}]
        return read_reports(self._write("mond", damaged_json(rng, reports)), ["n1"], "cpu-avg-load")

    def _audit(self, rng: Random) -> object:
        path = self._write("audit.db", broken(rng, self._database()))
        if rng.random() < 0.5:
            with sqlite3.connect(path) as database:
                try:
                    database.execute("DROP TABLE history")
                    database.execute(
                        "CREATE TABLE history (at, kind, incident, node, node_name,"
                        " event, before, after, reason)"
                    )
                    values = [rng.choice((None, 5, -1.5, b"\xff", "\x00", 2**62)) for _ in range(9)]
                    database.execute(f"INSERT INTO history VALUES ({','.join('?' * 9)})", values)
                except sqlite3.DatabaseError:
                    pass
        Audit(path).latest(5)
        return read_audit(path)

    @functools.cache  # noqa: B019
    def _database(self) -> bytes:
        path = self._directory / "good.db"
        Audit(str(path)).write(STATUS.history)
        return path.read_bytes()

    def _write(self, name: str, raw: bytes) -> str:
        path = self._directory / name
        path.unlink(missing_ok=True)
        path.write_bytes(raw)
        path.chmod(0o600)
        return str(path)


def _anywhere(node: str) -> bool:
    return True


def _record(rng: Random) -> object:
    one = rng.choice((incident("n1", command="fix")._replace(uuid=INCIDENT.uuid), INCIDENT))
    data = json.loads(write_record(one))
    if rng.random() < 0.2:
        # More than the daemon keeps of one.
        data["original"]["details"] = ["x" * 5000]
    text = decoded(damaged_json(rng, data | {"writes": 3, "job": 7}))
    if rng.random() < 0.7:
        text = signed_text(data["uuid"], text)
    incidents = incidents_with(rng, data["uuid"], text)
    return used(lambda: [(shown(found), decided([found])) for found in incidents])


def shown(one: Incident) -> object:
    """All views of an incident."""
    status = STATUS._replace(incidents=(one, DONE))
    json.dumps([incident_json(one), daemon_json(status)])
    change_json(None, one, "e", "r")
    metrics.rendered(status)
    steward_plan(one, world([node("n1")]))
    return list(incident_lines(one, one.original, "valid", None)), view(status, "", NOW)


def _status(rng: Random) -> object:
    data = {"daemon": daemon_json(STATUS), "incidents": [incident_json(INCIDENT)]}
    return status_lines(json.loads(json.dumps(_damaged_value(rng, data))))


def _damaged_value(rng: Random, data: Any) -> Any:
    try:
        return json.loads(damaged_json(rng, data), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {"daemon": []}


# The node


def _agent(rng: Random) -> object:
    known = memory.Remembered(
        5, 0, {"a": memory.StartedCommand("fix", 5, 6, CommandEnd(0, "o", ""))}
    )
    if rng.random() < 0.5:
        return memory.parse(damaged_json(rng, json.loads(memory.written(known))))
    finding = Finding("smart:sda", "evacuate", "", [1])
    state = RunState({finding.source: SourceState(None, (finding,), 2)}, ("a",), lost=True)
    return state_file.parse_state(damaged_json(rng, json.loads(state_file.state_bytes(state))))


def _sources(rng: Random) -> object:
    kind = rng.randrange(3)
    raw = {"status": "live-repair", "command": "fix", "details": {"a": [1, {"b": "c"}]}}
    if kind == 0:
        given = damaged_json(rng, raw)
        return object_faults(given), read_finding("s", given)
    if kind == 1:
        line = damaged_json(rng, ["Finding", ["smart:sda", "evacuate", "", {"a": 1}]])
        return from_line("smart", ["smart"], line)
    return interpret(
        "n",
        Nagios(("/bin/true",)),
        Ended(rng.randrange(5), damaged_text(rng, "OK - fine|a=5"), b""),
    )


def _tags(rng: Random) -> object:
    tag = decoded(damaged_text(rng, rng.choice(_TAGS)))
    approved_jobs(frozenset({tag}))
    pause_reason([tag])
    read_marks([tag])
    for kind in ("cluster", "nodegroup", "node", "instance"):
        if tag.startswith("steward:"):
            read_tag(kind, tag)
    return tag


@functools.cache
def _recorded() -> str:
    seen = world([node("n1")], [instance("i1", "n1")], [incident("n1")])
    return MomentLines().line(Inputs(seen, {}), Maintd()).decode()


def _replay(rng: Random) -> object:
    return list(read_moments([decoded(damaged_json(rng, recorded_moment()))]))


def recorded_moment() -> Any:
    """One moment that the daemon has recorded."""
    return json.loads(_recorded())


def _rule_file(rng: Random) -> object:
    if rng.random() < 0.3:
        text = decoded(damaged_json(rng, deepcopy(RULES[rng.randrange(3)][1])))
        return parsed_predicates(text, Faults())
    rows = [
        {
            "uuid": f"0000000{at}-0000-4000-8000-000000000000",
            "priority": 1,
            "action": action,
            "predicates": predicates,
            "reason_trail": [[source, text, NOW]],
        }
        for at, (_, predicates, action, source, text) in enumerate(RULES)
    ]
    rules = read_rule_file(damaged_json(rng, deepcopy(rows)), "f")
    return used(lambda: listed(rules))
