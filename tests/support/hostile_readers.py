"""Everything that reads what others write, each with a damaged input; the damage is the seed's."""

from __future__ import annotations

import copy
import functools
import io
import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from typing import Any, Final

from live import Ganeti
from mutation import broken, damaged_json, damaged_text, messages
from paths import DATA
from records import recorded, signed_text, signing_store, unsigned
from standin import StandIn
from statuses import DONE, INCIDENT, NOW, STATUS
from worlds import incident, instance, node, world

from ganeti_steward.allocators.state.mond_file import read_reports
from ganeti_steward.core.commands.fields import print_json
from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.core.config.values import History
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.confd.choice import vote
from ganeti_steward.core.ganeti.confd.messages import MAGIC, read_reply
from ganeti_steward.core.ganeti.filter_rules import Rules, read_rules
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.job_search import jobs_with_reason
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.rapi import Rapi, _Response
from ganeti_steward.core.ganeti.rapi_access import Credentials
from ganeti_steward.core.ganeti.signing import sign
from ganeti_steward.core.ganeti.snapshot import read_live
from ganeti_steward.core.ganeti.text_format import read_text
from ganeti_steward.core.iallocator.history import Call, read_call
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.maintenance.filter_action import Hold, approved_jobs
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.storage import failing_volumes
from ganeti_steward.core.maintenance.world import Reported
from ganeti_steward.core.node_agent.answers import check_report, open_answer
from ganeti_steward.core.node_agent.protocol import (
    REPORT,
    Outcome,
    answer_text,
    outcome_in,
    read_outcome,
    read_request,
    request_text,
)
from ganeti_steward.core.node_agent.remembered import (
    STATE,
    Question,
    RepairState,
    question_text,
    read_question,
    read_state,
    state_text,
)
from ganeti_steward.core.process import Ended
from ganeti_steward.diagnose.agent import memory_file
from ganeti_steward.diagnose.agent.reports import read_report
from ganeti_steward.diagnose.config.sections import Nagios
from ganeti_steward.diagnose.model.object import object_faults, read_finding
from ganeti_steward.diagnose.run import state_file, stuck
from ganeti_steward.diagnose.sources.nagios import interpret
from ganeti_steward.diagnose.sources.result_lines import from_line
from ganeti_steward.plugins.aggregates.language.tags import read_tag
from ganeti_steward.plugins.filters.actions.releasing import concerned, decide
from ganeti_steward.plugins.filters.cli.info import _lines
from ganeti_steward.plugins.filters.cli.list import _cells, _row
from ganeti_steward.plugins.filters.jobs import read_jobs
from ganeti_steward.plugins.filters.lint.lint import lint
from ganeti_steward.plugins.filters.rule_file import read_rule_file
from ganeti_steward.plugins.filters.rule_text import parsed_predicates
from ganeti_steward.plugins.maintenance.cli.cluster import read_incidents
from ganeti_steward.plugins.maintenance.cli.status import status_lines
from ganeti_steward.plugins.maintenance.cli.views import incident_lines
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.recording import Recorder, read_moments
from ganeti_steward.plugins.maintenance.edges import metrics
from ganeti_steward.plugins.maintenance.edges.audit import Audit, read_audit
from ganeti_steward.plugins.maintenance.edges.history import Trail
from ganeti_steward.plugins.maintenance.edges.observation import polled
from ganeti_steward.plugins.maintenance.edges.record import read_record, write_record
from ganeti_steward.plugins.maintenance.edges.signed_record import open_record
from ganeti_steward.plugins.maintenance.edges.status import (
    change_json,
    daemon_json,
    incident_json,
)
from ganeti_steward.plugins.maintenance.edges.world import read_world
from ganeti_steward.plugins.maintenance.engine.decision import Inputs
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.harep.tags import read_marks
from ganeti_steward.plugins.maintenance.page.view import view
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.maintenance.queue.call_notes import CallNotes
from ganeti_steward.plugins.maintenance.queue.open_jobs import OpenJobs
from ganeti_steward.plugins.maintenance.queue.orphans import orphans_of
from ganeti_steward.plugins.maintenance.repairs.live_repair import steward_plan
from ganeti_steward.plugins.maintenance.routine.jobs import RoutineJobs, tagged_jobs

Read = Callable[[Random], object]

KEY: Final = b"k" * 32 + b"\n"
SALT: Final = "s" * 16
_RULES: Final[tuple[tuple[int, Any, Any, str, str], ...]] = (
    (10, [["opcode", ["&", ["=", "OP_ID", "OP_X"], ["=~", "name", "^a"]]]], "PAUSE", "mine", "t"),
    (11, [["jobid", [">", "id", "watermark"]]], "PAUSE", "steward:filter-action", "WINDOW Mon"),
    (12, [["reason", ["|", ["=", "source", "gnt:user"], ["!", ["?", "x"]]]]], "REJECT", "a", "b"),
    (13, [], ["RATE_LIMIT", 3], "gnt:user", "gnt-steward:recipe:limit:x"),
)
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


class Unusable(Exception):
    """What was read as good breaks what uses it."""


def used(work: Callable[[], object]) -> object:
    """Use what was read; raises Unusable, where reading may raise errors of ours."""
    try:
        return work()
    except Exception as err:
        raise Unusable(f"{type(err).__name__}: {err}") from err


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
                lambda rng: read_message(damaged_json(rng, _copy(rng.choice(_small())))),
            ),
            "luxid: cluster": (8, lambda rng: read_live(luxid(rng), sleep=_no_sleep)),
            "luxid: world": (8, lambda rng: read_world(luxid(rng), NOW, sleep=_no_sleep)),
            "luxid: rules": (4, _rules),
            "luxid: jobs": (20, _jobs),
            "luxid: calls": (30, _calls),
            "luxid: incidents": (8, _incidents),
            "RAPI": (16, _rapi),
            "confd": (20, _confd),
            "record": (10, _record),
            "report": (12, self._report),
            "repair": (30, self._repair),
            "agent": (30, _agent),
            "sources": (40, _sources),
            "tags": (40, _tags),
            "text format": (8, lambda rng: read_text(_decoded(damaged_text(rng, _saved())))),
            "configuration": (12, lambda rng: parse_config("f", damaged_text(rng, _TOML))),
            "replay": (6, lambda rng: list(read_moments([_decoded(damaged_json(rng, _moment()))]))),
            "files": (12, self._files),
            "audit log": (1, self._audit),
            "status": (15, _status),
            "rule file": (10, _rule_file),
        }

    def _signed(self, rng: Random, content: dict[str, Any], raw: bytes | None = None) -> bytes:
        text = _decoded(damaged_json(rng, content) if raw is None else raw)
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
        diagnose = {"status": "live-repair", "command": "fix", "details": {"a": [1]}}
        request = request_text("n1", "fix", diagnose, SALT, ("id1", 5))
        outcome = Outcome(0, "done", "")
        kind = rng.randrange(4)
        if kind == 0:
            found = read_request(_decoded(damaged_json(rng, json.loads(request))), _anywhere)
            return answer_text(found, outcome)
        if kind == 1:
            question = json.loads(question_text(Question("n1", "id1", 5, SALT)))
            return read_question(_decoded(damaged_json(rng, question)), _anywhere)
        if kind == 2:
            state = json.loads(state_text("n1", "id1", RepairState("ended", "fix", 5, outcome)))
            answer = open_answer(self._key, self._signed(rng, state), SALT, STATE)
            return read_state(answer, "n1", "id1")
        answer = {"purpose": "repaired", "node": "n1", "command": "fix", **outcome._asdict()}
        answer = open_answer(self._key, self._signed(rng, answer), SALT, "repaired")
        return read_outcome(answer, "n1", "fix"), outcome_in(answer)

    def _files(self, rng: Random) -> object:
        kind = rng.randrange(4)
        if kind == 0:
            (self._directory / "call").mkdir(exist_ok=True)
            self._write("call/call.json", damaged_json(rng, Call(NOW, 5, ("x",), 0)._asdict()))
            return read_call(History(directory=str(self._directory)), "call")
        if kind == 1:
            path = self._write("stuck.json", damaged_json(rng, {"smart": [[5, 1.5]]}))
            return stuck.read_stuck(os.path.dirname(path))
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


def _copy(value: Any) -> Any:
    return copy.deepcopy(value)


def _decoded(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _no_sleep(seconds: float) -> None:
    pass


def _anywhere(node: str) -> bool:
    return True


@functools.cache
def _small() -> Sequence[Any]:
    """The smaller half of the recorded messages."""
    return sorted(messages(), key=lambda one: len(json.dumps(one)))[: len(messages()) // 2]


@functools.cache
def _saved() -> str:
    return (DATA / "balance" / "there-and-back.data").read_text()


# luxid and RAPI


@functools.cache
def stand_in() -> StandIn:
    """A small cluster with rules, records and jobs."""
    found = StandIn(_small()[0], lambda: NOW)
    for at, (priority, predicates, action, source, text) in enumerate(_RULES):
        uuid = f"0000000{at}-0000-4000-8000-000000000000"
        found.replace_filter(uuid, priority, predicates, action, [[source, text, NOW]])
    for rule in (recorded(INCIDENT), unsigned(DONE)):
        found.replace_filter(rule.uuid, *rule.content.values())
    operation = {
        "OP_ID": "OP_NODE_SET_PARAMS",
        "node_name": "node1.lab",
        "reason": [
            ["gnt:daemon:maintd", INCIDENT.uuid, NOW],
            ["gnt:daemon:maintd:submission", "s1", NOW],
            ["maintd:routine", json.dumps({"plugin": "p"}), NOW],
        ],
    }
    found.submit([[operation], [operation]])
    return found


class luxid(Luxi):  # noqa: N801
    """A luxid that answers something else now and then."""

    def __init__(self, rng: Random) -> None:
        super().__init__("/nowhere", clock=lambda: NOW)
        self._rng = rng

    def _exchange(self, method: str, request: bytes) -> bytes:
        arguments = json.loads(request)["args"]
        if method == "SubmitManyJobs":
            answer: Any = {"success": True, "result": [[True, 7] for _ in arguments[0]]}
        elif method in ("ReplaceFilter", "DeleteFilter", "CancelJob"):
            answer = {"success": True, "result": [True, "canceled"]}
        else:
            answer = stand_in().answer(method, arguments)
        if self._rng.random() < 0.5:
            return json.dumps(answer).encode()
        return damaged_json(self._rng, _copy(answer))


def _rules(rng: Random) -> object:
    """Read, checked, listed and evaluated: users can write any."""
    rules = read_rules(luxid(rng))
    used(lambda: listed(rules))
    jobs = read_jobs(damaged_json(rng, [_job(5), _job(6)]), "jobs")
    return used(lambda: decide(rules, jobs, lambda rule, job, occupied: Hold("no")))


def listed(rules: Rules) -> object:
    """All views of rules."""
    rows = [[_row(rule), _cells(rule), *_lines(rule)] for rule in rules.rules]
    with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        print_json(rows)
    return concerned(rules), lint(rules.rules, rules.unreadable)


def _job(number: int) -> dict[str, Any]:
    reasons = [["gnt:user", "why", NOW], ["gnt:opcode:x", f"job={number};index=0", NOW]]
    operation = {"OP_ID": "OP_X", "name": "abc", "tags": ["a"], "reason": reasons, "depends": [[4]]}
    return {"id": number, "status": "queued", "priority": 0, "ops": [operation]}


def _jobs(rng: Random) -> object:
    client = luxid(rng)
    kind = rng.randrange(4)
    if kind == 0:
        return jobs_with_reason(client, "gnt:daemon:maintd")
    if kind == 1:
        return orphans_of(OpenJobs(client).read(), [], [INCIDENT])
    if kind == 2:
        return RoutineJobs(client, lambda: True).look(NOW)
    return tagged_jobs(client)


def _calls(rng: Random) -> object:
    client = luxid(rng)
    operation = {"OP_ID": "OP_TEST_DELAY"}
    calls: Sequence[Callable[[], object]] = (
        client.info,
        lambda: client.submit([[operation], [operation]], "why"),
        lambda: [state.ended for state in client.states([1, 2, 9])],
        lambda: client.ends([1, 2]),
        lambda: client.cancel(1),
        lambda: client.write_filter("", {}),
        lambda: client.storage_jobs("lvm-vg", ("name",), ["n"]),
    )
    return rng.choice(calls)()


def _incidents(rng: Random) -> object:
    client = luxid(rng)
    if rng.random() < 0.5:
        return read_incidents(client)
    incidents = signing_store(client).read_all(rewrite=rng.random() < 0.5).incidents
    return used(lambda: decided(list(incidents.values())))


def decided(incidents: Sequence[Incident]) -> object:
    """What a round decides with these incidents, recorded as it would be."""
    nodes = [node(f"n{at}", master=at == 0) for at in range(3)]
    moved = [
        one._replace(node=facts.facts.uuid) for one, facts in zip(incidents, nodes, strict=False)
    ]
    seen = world(nodes, [instance("i1", "n1", "n2")], moved)
    decision = step(Inputs(seen, {}), Maintd(mode="act"), lambda one, around: [])
    return Trail().entries(decision, seen.incidents, NOW)


@functools.cache
def _ganeti() -> Ganeti:
    return Ganeti(_small()[0])


class _HostileRapi(Rapi):
    def __init__(self, rng: Random) -> None:
        super().__init__("localhost", Credentials("user", "password"))
        self._rng = rng

    def call(self, method: str, path: str, query: Any = None, body: Any = None) -> Any:
        answer = self._answer(method, path)
        raw = json.dumps(answer).encode()
        if self._rng.random() < 0.5:
            raw = damaged_json(self._rng, _copy([answer]) if type(answer) is int else _copy(answer))
        try:
            return _Response(200, "OK", raw).json()
        except ValueError:
            raise StewardError("the answer is not JSON") from None

    def _answer(self, method: str, path: str) -> Any:
        if method != "GET":
            return [True, "7"]
        if path == "info":
            return _ganeti().info
        if path.startswith("query/"):
            rows = _ganeti().rows(path.removeprefix("query/"))
            return {"data": [[[0, row["name"]], [0, "kvm"], [0, False]] for row in rows]}
        if path == "filters":
            return list(stand_in().filters.values())
        if path.startswith("jobs/"):
            return {"status": "success", "opstatus": ["success"], "opresult": [[]]}
        return _ganeti().rows(path.removesuffix("s"))


def _rapi(rng: Random) -> object:
    client = _HostileRapi(rng)
    tags = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": "", "tags": ["a"]}
    calls: Sequence[Callable[[], object]] = (
        lambda: read_live(client, sleep=_no_sleep),
        lambda: read_rules(client),
        lambda: client.states([1, 2]),
        lambda: client.submit([[tags]], "why"),
        lambda: client.cancel(1),
        lambda: client.storage_jobs("lvm-vg", ("name",), ["n"]),
        lambda: client.write_filter("", {}),
    )
    return rng.choice(calls)()


def _confd(rng: Random) -> object:
    inner = {"protocol": 1, "status": 0, "answer": ["n1", "10.0.0.1", "10.0.0.2"], "serial": 7}
    text = _decoded(damaged_json(rng, inner)).encode(errors="replace").decode()
    raw = MAGIC + sign(KEY, text, SALT)
    if rng.random() < 0.2:
        raw = broken(rng, raw)
    reply = read_reply(raw, key=KEY, reply_salt=SALT, peer="p")
    return vote("n1", [reply, reply], 3)


# Records and reports


def _record(rng: Random) -> object:
    data = json.loads(write_record(rng.choice((incident("n1", command="fix"), INCIDENT))))
    if rng.random() < 0.2:
        # As the version before kept it: whole.
        data["original"]["details"] = ["x" * 5000]
    if rng.random() < 0.3:
        body = _decoded(damaged_json(rng, data | {"version": 2, "counter": 7}))
        found = open_record(data["uuid"], signed_text(data["uuid"], body), KEY).incident
    else:
        found = read_record(_decoded(damaged_json(rng, data)))
    return used(lambda: (shown(found), decided([found])))


def shown(one: Incident) -> object:
    """All views of an incident."""
    status = STATUS._replace(incidents=(one, DONE))
    json.dumps([incident_json(one), daemon_json(status)])
    change_json(None, one, "e", "r")
    metrics.rendered(status)
    steward_plan(one, world([node("n1")]))
    return list(incident_lines(one, one.original, "valid")), view(status, "", NOW)


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
    known = memory_file.Known(5, 0, {"a": memory_file.Command("fix", 5, 6, Outcome(0, "o", ""))})
    if rng.random() < 0.5:
        return memory_file.parse(damaged_json(rng, json.loads(memory_file.written(known))))
    held = {"smart:sda": {"confirmed": None, "pending": [["evacuate", "", None]], "runs": 2}}
    host = os.uname().nodename
    content = {"form": 1, "host": host, "held": held, "unheard": ["a"], "lost": False}
    return state_file.parse_state(damaged_json(rng, content))


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
    tag = _decoded(damaged_text(rng, rng.choice(_TAGS)))
    approved_jobs(frozenset({tag}))
    pause_reason([tag])
    read_marks([tag])
    for kind in ("cluster", "nodegroup", "node", "instance"):
        if tag.startswith("steward:"):
            read_tag(kind, tag)
    return tag


@functools.cache
def _recorded() -> str:
    file = io.StringIO()
    seen = world([node("n1")], [instance("i1", "n1")], [incident("n1")])
    Recorder(file)(Inputs(seen, {}), Maintd())
    return file.getvalue()


def _moment() -> Any:
    return json.loads(_recorded())


def _rule_file(rng: Random) -> object:
    if rng.random() < 0.3:
        return parsed_predicates(_decoded(damaged_json(rng, _copy(_RULES[rng.randrange(3)][1]))))
    rows = [
        {
            "uuid": f"0000000{at}-0000-4000-8000-000000000000",
            "priority": 1,
            "action": action,
            "predicates": predicates,
            "reason_trail": [[source, text, NOW]],
        }
        for at, (_, predicates, action, source, text) in enumerate(_RULES)
    ]
    rules = read_rule_file(damaged_json(rng, _copy(rows)), "f")
    return used(lambda: listed(rules))
