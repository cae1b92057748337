"""What Ganeti answers, and what its users have written into it, damaged, to be read."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from copy import deepcopy
from random import Random
from typing import Any, Final

from live import Ganeti
from mutation import broken, damaged_json, messages
from paths import DATA
from records import put, recorded, signing_store, unsigned
from standin import StandIn
from statuses import DONE, INCIDENT, NOW
from worlds import instance, node, world

from ganeti_steward.core.commands.tables import print_json
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.rapi import Rapi, _Response
from ganeti_steward.core.ganeti.rapi_access import Credentials
from ganeti_steward.core.ganeti.signing import sign
from ganeti_steward.core.ganeti.snapshot import read_live
from ganeti_steward.plugins.filters.actions.releasing import concerned, decide
from ganeti_steward.plugins.filters.cli.show import cells_of, data_of, lines_of
from ganeti_steward.plugins.filters.filter_rules import Rules, read_rules
from ganeti_steward.plugins.filters.jobs import read_jobs
from ganeti_steward.plugins.filters.lint.lint import lint
from ganeti_steward.plugins.maintenance.cli.cluster import read_incidents
from ganeti_steward.plugins.maintenance.confd.choice import vote
from ganeti_steward.plugins.maintenance.confd.messages import MAGIC, read_reply
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.history import Trail
from ganeti_steward.plugins.maintenance.engine.decision import Inputs
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.queue.job_search import jobs_with_reason
from ganeti_steward.plugins.maintenance.queue.orphans import OpenJobs, orphans_of
from ganeti_steward.plugins.maintenance.queue.routine_jobs import RoutineJobs, tagged_jobs
from ganeti_steward.plugins.maintenance.queue.transfers import transfers
from ganeti_steward.plugins.maintenance.queue.watcher_jobs import WatcherJobs
from ganeti_steward.plugins.model.filter_action import Hold
from ganeti_steward.plugins.model.incident import Incident

Read = Callable[[Random], object]

KEY: Final = b"k" * 32 + b"\n"
SALT: Final = "s" * 16
RULES: Final[tuple[tuple[int, Any, Any, str, str], ...]] = (
    (10, [["opcode", ["&", ["=", "OP_ID", "OP_X"], ["=~", "name", "^a"]]]], "PAUSE", "mine", "t"),
    (11, [["jobid", [">", "id", "watermark"]]], "PAUSE", "steward:filter-action", "WINDOW Mon"),
    (12, [["reason", ["|", ["=", "source", "gnt:user"], ["!", ["?", "x"]]]]], "REJECT", "a", "b"),
    (13, [], ["RATE_LIMIT", 3], "gnt:user", "gnt-steward:recipe:limit:x"),
)


class Unusable(Exception):
    """What was read as good breaks what uses it."""


def used(work: Callable[[], object]) -> object:
    """Use what was read; raises Unusable, where reading may raise errors of ours."""
    try:
        return work()
    except Exception as err:
        raise Unusable(f"{type(err).__name__}: {err}") from err


@functools.cache
def small_messages() -> Sequence[Any]:
    """The smaller half of the recorded messages."""
    return sorted(messages(), key=lambda one: len(json.dumps(one)))[: len(messages()) // 2]


@functools.cache
def saved_text() -> str:
    return (DATA / "balance" / "there-and-back.data").read_text()


# luxid and RAPI


@functools.cache
def stand_in() -> StandIn:
    """A small cluster with rules, records and jobs."""
    found = StandIn(small_messages()[0], lambda: NOW)
    for at, (priority, predicates, action, source, text) in enumerate(RULES):
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
            answer = stand_in().call(method, arguments)
        if self._rng.random() < 0.5:
            return json.dumps(answer).encode()
        return damaged_json(self._rng, deepcopy(answer))


def luxid_rules(rng: Random) -> object:
    """Read, checked, listed and evaluated: users can write any."""
    rules = read_rules(luxid(rng))
    used(lambda: listed(rules))
    try:
        jobs = read_jobs(damaged_json(rng, [_job(5), _job(6)]), "jobs")
    except ValueError as err:
        # As the commands do, which are called in test_mutated_commands.py.
        raise StewardError(str(err)) from err
    return used(lambda: decide(rules, jobs, lambda rule, job, occupied: Hold("no")))


def listed(rules: Rules) -> object:
    """All views of rules."""
    rows = [[data_of(rule), cells_of(rule), *lines_of(rule)] for rule in rules.rules]
    with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        print_json(rows)
    return concerned(rules), lint(rules.rules, rules.unreadable)


def _job(number: int) -> dict[str, Any]:
    reasons = [["gnt:user", "why", NOW], ["gnt:opcode:x", f"job={number};index=0", NOW]]
    operation = {"OP_ID": "OP_X", "name": "abc", "tags": ["a"], "reason": reasons, "depends": [[4]]}
    return {"id": number, "status": "queued", "priority": 0, "ops": [operation]}


def luxid_jobs(rng: Random) -> object:
    client = luxid(rng)
    kind = rng.randrange(5)
    if kind == 0:
        return jobs_with_reason(client, "gnt:daemon:maintd")
    if kind == 1:
        return orphans_of(OpenJobs(client).read(), [], [INCIDENT])
    if kind == 2:
        return RoutineJobs(client, lambda: True).look(NOW)
    if kind == 3:
        down = world([node("n1")], [instance("i1", "n1", status="ERROR_down")])
        return WatcherJobs(client).read(down, 2)
    return tagged_jobs(client)


def luxid_calls(rng: Random) -> object:
    client = luxid(rng)
    operation = {"OP_ID": "OP_TEST_DELAY"}
    calls: Sequence[Callable[[], object]] = (
        client.info,
        lambda: client.submit([[operation], [operation]], "why"),
        lambda: [state.ended for state in client.states([1, 2, 9])],
        lambda: client.ends([1, 2]),
        lambda: transfers([1, 2], client),
        lambda: client.cancel(1),
        lambda: client.write_filter("", {}),
        lambda: client.storage_jobs("lvm-vg", ("name",), ["n"]),
    )
    return rng.choice(calls)()


def luxid_incidents(rng: Random) -> object:
    client = luxid(rng)
    if rng.random() < 0.5:
        return read_incidents(client)
    incidents = signing_store(client).read_all(rewrite=rng.random() < 0.5).incidents
    return used(lambda: decided(list(incidents.values())))


def incidents_with(rng: Random, uuid: str, text: str) -> Sequence[Incident]:
    """All incidents of the cluster while the rule of one has this text."""
    rules = stand_in().filters
    before = deepcopy(rules[uuid])
    put(stand_in(), uuid, text)
    try:
        store = signing_store(luxid(rng))
        return tuple(store.read_all(rewrite=rng.random() < 0.5).incidents.values())
    finally:
        rules[uuid] = before


def decided(incidents: Sequence[Incident]) -> object:
    """What a round decides with these incidents, recorded as it would be."""
    nodes = [node(f"n{at}", master=at == 0) for at in range(3)]
    moved = [one._replace(node=seen.uuid) for one, seen in zip(incidents, nodes, strict=False)]
    seen = world(nodes, [instance("i1", "n1", "n2")], moved)
    decision = step(Inputs(seen, {}), Maintd(mode="act"), lambda one, around: [])
    return Trail().entries(decision, seen.incidents, NOW)


@functools.cache
def _ganeti() -> Ganeti:
    return Ganeti(small_messages()[0])


class _HostileRapi(Rapi):
    def __init__(self, rng: Random) -> None:
        super().__init__("localhost", Credentials("user", "password"))
        self._rng = rng

    def call(self, method: str, path: str, query: Any = None, body: Any = None) -> Any:
        answer = self._answer(method, path)
        raw = json.dumps(answer).encode()
        if self._rng.random() < 0.5:
            raw = damaged_json(
                self._rng, deepcopy([answer]) if type(answer) is int else deepcopy(answer)
            )
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


def rapi_answers(rng: Random) -> object:
    client = _HostileRapi(rng)
    tags = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "name": "", "tags": ["a"]}
    calls: Sequence[Callable[[], object]] = (
        lambda: read_live(client, sleep=no_sleep),
        lambda: read_rules(client),
        lambda: client.states([1, 2]),
        lambda: client.submit([[tags]], "why"),
        lambda: client.cancel(1),
        lambda: client.storage_jobs("lvm-vg", ("name",), ["n"]),
        lambda: client.write_filter("", {}),
    )
    return rng.choice(calls)()


def confd_answers(rng: Random) -> object:
    inner = {"protocol": 1, "status": 0, "answer": ["n1", "10.0.0.1", "10.0.0.2"], "serial": 7}
    text = decoded(damaged_json(rng, inner)).encode(errors="replace").decode()
    raw = MAGIC + sign(KEY, text, SALT)
    if rng.random() < 0.2:
        raw = broken(rng, raw)
    reply = read_reply(raw, key=KEY, reply_salt=SALT, peer="p")
    return vote("n1", [reply, reply], 3)


# Records and reports


def decoded(raw: bytes) -> str:
    return raw.decode(errors="replace")


def no_sleep(seconds: float) -> None:
    pass
