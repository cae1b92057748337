"""The client of the agent: against the real agent, and against one that lies."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, running
from programs import notes, program
from repair_requests import COMMAND, KEY
from whitelists import needs_root, whitelist

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.signing import open_signed, sign
from ganeti_steward.core.node_agent.remembered import RepairState
from ganeti_steward.plugins.maintenance.edges.answers import (
    FORM,
    FUTURE,
    NODE,
    OLD,
    PURPOSE,
    SALT,
    SIGNATURE,
    SIZE,
    RejectedAnswer,
)
from ganeti_steward.plugins.maintenance.edges.client import (
    AgentClient,
    AgentRefused,
    CommandEnd,
    NotConnected,
    OutcomeUnknown,
)

UUID = "ce55f3c9-6d68-4ff5-92f7-a67577ccec32"
NOW = 1_700_000_000 * 10**9
DIAGNOSE = {"status": "live-repair", "command": COMMAND}
REQUESTED = canonical(DIAGNOSE)
NONCE = json.dumps({"nonce": "nonce.0123456789abcdef"}).encode()
ONCE = ("id-1", 1_700_000_000)

#: Gets path and body; bytes are sent as they are, with a status.
Lie = Callable[[str, bytes], tuple[int, bytes]]


@contextmanager
def liar(key: KeyFile, lie: Lie) -> Iterator[AgentClient]:
    """A client of an agent that answers as a test says."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, raw = lie(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield client(key, server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def client(key: KeyFile, port: int, **more: Any) -> AgentClient:
    return AgentClient("127.0.0.1", [UUID, "node1.lab"], key, port=port, clock=lambda: NOW, **more)


def report(**changed: Any) -> dict[str, Any]:
    data = {"status": "Ok"}
    content = {"purpose": "report", "node": UUID, "timestamp": NOW, "data": data, "unknown": []}
    return content | changed


def signs(content: object, key: bytes = KEY, salt: str = "") -> Lie:
    """Signs something, with the requested salt unless another is given."""
    return lambda path, _: (200, sign(key, json.dumps(content), salt or path.partition("=")[2]))


@pytest.mark.parametrize("node", [UUID, "node1.lab"])
def test_a_report(key: KeyFile, node: str) -> None:
    with liar(key, signs(report(node=node))) as one:
        assert one.report(900) == report(node=node)


def test_a_node_that_knows_nothing(key: KeyFile) -> None:
    """However old that is: it says nothing about the node."""
    with liar(key, signs(report(data=None, timestamp=0))) as one:
        assert one.report(900)["data"] is None
    never = report(data=None, timestamp=0)
    del never["node"]
    with liar(key, signs(never)) as one:
        assert one.report(900)["data"] is None


@pytest.mark.parametrize(
    ("lie", "reason", "fault"),
    [
        (signs(report(), b"forged\n"), SIGNATURE, "not made with the cluster's key"),
        (signs(report(), salt="another-salt"), SALT, "signed for another question"),
        (signs(report(purpose="repaired")), PURPOSE, "another purpose: the text 'repaired'"),
        (signs({}), PURPOSE, "another purpose: null"),
        (signs([report()]), FORM, "an object is expected, found a list"),
        (signs(report(node="node2.lab", data=None)), NODE, "about another node"),
        (signs(report(node=None)), NODE, "about another node: null"),
        (signs(report(node="node2.lab")), NODE, "about another node: the text 'node2.lab'"),
        (signs(report(timestamp=NOW - 901 * 10**9)), OLD, "901 s old, more than 900 s"),
        (signs(report(timestamp=NOW + 151 * 10**9)), FUTURE, "by 151 s, more than 150 s"),
        (signs(report(timestamp="now")), FORM, "timestamp: a whole number is expected"),
        (signs(report(data="Ok")), FORM, "not a diagnose object"),
        (signs(report(data={})), FORM, "not a diagnose object"),
        (lambda *_: (200, json.dumps(report()).encode()), FORM, "exactly the members"),
        (lambda *_: (200, b"\xff"), FORM, "not valid JSON"),
        (lambda *_: (200, b" " * (2**24 + 1)), SIZE, "more than 16777216 bytes"),
    ],
)
def test_a_report_that_cannot_be_true(key: KeyFile, lie: Lie, reason: str, fault: str) -> None:
    with liar(key, lie) as one, pytest.raises(RejectedAnswer) as error:
        one.report(900)
    assert error.value.reason == reason
    assert str(error.value).startswith("the agent of node1.lab at 127.0.0.1 port ")
    assert fault in str(error.value)
    assert "\n" not in str(error.value)


def test_an_error_instead_of_a_report(key: KeyFile) -> None:
    """Nothing was reported: that is no report to be rejected."""
    expected = pytest.raises(StewardError, match="HTTP 404: 'no such path'")
    with liar(key, lambda *_: (404, b"no\nsuch path")) as one, expected as error:
        one.report(900)
    assert not isinstance(error.value, RejectedAnswer)


@pytest.mark.parametrize("seconds", [-900, 150])
def test_a_report_that_is_just_in_time(key: KeyFile, seconds: int) -> None:
    made = report(timestamp=NOW + seconds * 10**9)
    with liar(key, signs(made)) as one:
        assert one.report(900) == made


def repairs(answer: Callable[[dict[str, Any]], tuple[int, bytes]]) -> Lie:
    """Gives a nonce, then the requested answer."""

    def lie(path: str, body: bytes) -> tuple[int, bytes]:
        if path.endswith("nonce"):
            return 200, NONCE
        signed = open_signed(KEY, body)
        assert signed.salt == json.loads(NONCE)["nonce"]
        return answer(json.loads(signed.text))

    return lie


def repaired(key: bytes = KEY, salt: str = "", **changed: Any) -> Lie:
    def answer(call: dict[str, Any]) -> tuple[int, bytes]:
        content = {"purpose": "repair-state", "node": call["node"], "id": call["id"]}
        content |= {"state": "ended", "command": call["command"], "started": 5}
        content |= {"status": 0, "output": "done", "fault": ""} | changed
        return 200, sign(key, json.dumps(content), salt or call["rsalt"])

    return repairs(answer)


def repair(one: AgentClient) -> CommandEnd:
    return one.repair(UUID, COMMAND, REQUESTED, 60, ONCE)


@pytest.mark.parametrize("status", [0, 3, -9, None])
def test_a_repair(key: KeyFile, status: int | None) -> None:
    with liar(key, repaired(status=status, fault="why")) as one:
        assert repair(one) == CommandEnd(status, "done", "why")


@pytest.mark.parametrize(
    ("lie", "fault"),
    [
        (repaired(b"forged\n"), "not made with the cluster's key"),
        (repaired(salt="another-salt"), "signed for another question"),
        (repaired(purpose="report"), "another purpose"),
        (repaired(node="node2.lab"), "about another repair"),
        (repaired(id="id-2"), "about another repair"),
        (repaired(command="reboot"), "the command with its id is ended"),
        (repaired(output=None), "lacks the state of the repair: key 'output': a text is expected"),
        (repaired(status="0"), "key 'status': a whole number is expected, found the text '0'"),
        (repaired(status=True), "key 'status': a whole number is expected, found true"),
        (repairs(lambda _: (500, b"oh")), "HTTP 500: 'oh'"),
        (repairs(lambda _: (503, b"no key")), "HTTP 503: 'no key'"),
    ],
)
def test_a_repair_of_unknown_outcome(key: KeyFile, lie: Lie, fault: str) -> None:
    """It may have been run: the message must differ from that of one that surely was not."""
    with liar(key, lie) as one, pytest.raises(OutcomeUnknown) as error:
        repair(one)
    assert fault in str(error.value)
    assert str(error.value).endswith("; whether replace-disk was run is not known")


def remembering(key: bytes = KEY, **changed: Any) -> Lie:
    """An agent that has run the command with the id before."""

    def lie(path: str, body: bytes) -> tuple[int, bytes]:
        if path == "/1/repair/nonce":
            return 200, NONCE
        call = json.loads(open_signed(KEY, body).text)
        assert (call["id"], call["submitted"]) == ONCE
        content = {"purpose": "repair-state", "node": call["node"], "id": call["id"]}
        content |= {"state": "ended", "command": COMMAND, "started": 5}
        content |= {"status": 0, "output": "done", "fault": ""} | changed
        return 200, sign(key, json.dumps(content), call["rsalt"])

    return lie


def test_a_repair_with_an_id(key: KeyFile) -> None:
    with liar(key, remembering(status=3)) as one:
        assert one.repair(UUID, COMMAND, REQUESTED, 60, ONCE) == CommandEnd(3, "done")
        expected = RepairState("ended", COMMAND, 5, CommandEnd(3, "done"))
        assert one.repair_state(UUID, *ONCE) == expected


@pytest.mark.parametrize("state", ["running", "lost", "never", "unknown"])
def test_a_repair_that_was_not_run_now(key: KeyFile, state: str) -> None:
    """The answer to the question says more."""
    with liar(key, remembering(state=state, status=None)) as one:
        with pytest.raises(OutcomeUnknown, match=f"the command with its id is {state}"):
            one.repair(UUID, COMMAND, REQUESTED, 60, ONCE)
        assert one.repair_state(UUID, *ONCE).state == state


@pytest.mark.parametrize(
    ("lie", "fault"),
    [
        (remembering(b"forged\n"), "not made with the cluster's key"),
        (remembering(purpose="repair"), "another purpose"),
        (remembering(node="node2.lab"), "about another repair"),
        (remembering(id="id-2"), "about another repair"),
        (remembering(state="gone"), "the state of the repair is 'gone'"),
        (remembering(command=None), "lacks the state of the repair"),
        (remembering(started=-1), "lacks the state of the repair"),
        (
            remembering(output=None),
            "lacks the state of the repair: key 'output': a text is expected",
        ),
    ],
)
def test_an_answer_about_an_id_that_cannot_be_true(key: KeyFile, lie: Lie, fault: str) -> None:
    with liar(key, lie) as one:
        with pytest.raises(OutcomeUnknown, match=fault):
            one.repair(UUID, COMMAND, REQUESTED, 60, ONCE)
        with pytest.raises(StewardError, match=fault):
            one.repair_state(UUID, *ONCE)


def test_without_a_thread_nothing_is_sent(key: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    requested: list[str] = []

    def lie(path: str, _: bytes) -> tuple[int, bytes]:
        requested.append(path)
        return 200, NONCE

    with liar(key, lie) as one, monkeypatch.context() as patched:
        patched.setattr(threading.Timer, "start", none)
        with pytest.raises(NotConnected, match="can't start new thread"):
            repair(one)
    assert requested == []


WANTED = canonical({"master": "node9.lab", "maintenance": "m1"})


def take_over(one: AgentClient) -> CommandEnd:
    return one.take_over(UUID, WANTED, 60, ONCE)


def test_a_node_is_made_the_master(key: KeyFile) -> None:
    """The request has a purpose of its own: a repair command cannot be made of it."""
    given = list[dict[str, Any]]()

    def note(call: dict[str, Any]) -> tuple[int, bytes]:
        given.append(call)
        content = {"purpose": "repair-state", "node": call["node"], "id": call["id"]}
        content |= {"state": "ended", "command": call["command"], "started": 5}
        content |= {"status": 0, "output": "done", "fault": ""}
        return 200, sign(KEY, json.dumps(content), call["rsalt"])

    with liar(key, repairs(note)) as one:
        assert take_over(one) == CommandEnd(0, "done", "")
    (call,) = given
    assert (call["purpose"], call["command"]) == ("master-failover", "master-failover")
    assert call["diagnose"] == {"master": "node9.lab", "maintenance": "m1"}


def test_only_a_signed_refusal_is_one(key: KeyFile) -> None:
    """Any machine on the way can answer 403 to a request that has gone out."""
    with (
        liar(key, repaired(started=0, status=None, fault="it was not run: late")) as one,
        pytest.raises(AgentRefused, match="it was not run: late"),
    ):
        take_over(one)
    with (
        liar(key, repairs(lambda _: (403, b"refused\n"))) as one,
        pytest.raises(OutcomeUnknown, match="whether master-failover was run is not known"),
    ):
        take_over(one)
    with liar(key, lambda *_: (403, b"refused\n")) as one, pytest.raises(AgentRefused):
        take_over(one)


@pytest.mark.parametrize("path", ["/1/repair/nonce", "/1/repair"])
def test_a_refusal(key: KeyFile, path: str) -> None:
    def lie(requested: str, _: bytes) -> tuple[int, bytes]:
        return (403, b"refused\n") if requested == path else (200, NONCE)

    with liar(key, lie) as one, pytest.raises(AgentRefused, match="see the agent's log"):
        repair(one)


@pytest.mark.parametrize(
    "nonce", [b"", b"{", b"{}", b"[]", b'{"nonce": 1}', b'{"nonce": "1700000000"}']
)
def test_nothing_is_signed_with_what_is_no_nonce(key: KeyFile, nonce: bytes) -> None:
    """Else the agent could obtain a signed message for another purpose, such as confd."""
    requested: list[str] = []

    def lie(path: str, _: bytes) -> tuple[int, bytes]:
        requested.append(path)
        return 200, nonce

    with liar(key, lie) as one, pytest.raises(StewardError, match="no nonce"):
        repair(one)
    assert requested == ["/1/repair/nonce"]


def test_a_node_that_is_gone_is_noticed(key: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of a node that was restarted, or the lack of one, ends the wait for an answer."""
    found: list[int] = []
    request = http.client.HTTPConnection.request

    def noted(connection: http.client.HTTPConnection, *given: Any, **more: Any) -> None:
        ask = connection.sock.getsockopt
        found.append(ask(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        idle, every, times = (
            ask(socket.IPPROTO_TCP, one)
            for one in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        found.append(idle + every * times)
        request(connection, *given, **more)

    monkeypatch.setattr(http.client.HTTPConnection, "request", noted)
    with liar(key, signs(report())) as one:
        one.report(900)
    assert found == [1, 120]


@pytest.mark.parametrize(
    ("date", "ahead"),
    [
        ("Tue, 14 Nov 2023 22:13:20 GMT", 0),
        ("Tue, 14 Nov 2023 22:15:00 GMT", 100),
        ("Mon, 13 Nov 2023 22:13:20 GMT", -86400),
        *((faulty, None) for faulty in ("", "yesterday", "Tue, 99 Nov 2023 22:13:20 GMT")),
    ],
)
def test_the_clock_of_the_node(
    key: KeyFile, monkeypatch: pytest.MonkeyPatch, date: str, ahead: int | None
) -> None:
    monkeypatch.setattr(BaseHTTPRequestHandler, "date_time_string", lambda _: date)
    with liar(key, signs(report())) as one:
        assert one.ahead is None
        one.report(900)
        assert one.ahead == ahead


def test_the_real_agent_may_become_the_master(tmp_path: Path) -> None:
    """It reports the permission, and refuses here, where no cluster is."""
    with running(tmp_path, settings="master-failover = true") as agent:
        agent.write_report()
        one, now = agent.client(), int(time.time())
        content = one.report(900)
        assert content["master_failover"] is True
        with pytest.raises(AgentRefused, match="it was not run: "):
            one.take_over(content["node"], WANTED, 60, ("id-1", now))
        with pytest.raises(AgentRefused, match="see the agent's log"):
            one.repair(content["node"], COMMAND, REQUESTED, 60, ("id-2", now))
    with running(tmp_path, settings="repair = true") as agent:
        agent.write_report()
        one = agent.client()
        content = one.report(900)
        assert "master_failover" not in content
        with pytest.raises(AgentRefused, match=r"not permitted here \(agent.master-failover\)"):
            one.take_over(content["node"], WANTED, 60, ("id-3", int(time.time())))


@needs_root
def test_the_real_agent(tmp_path: Path) -> None:
    with whitelist() as commands:
        path = program(commands, COMMAND, "cat > NOTES; echo fixed; exit 7")
        options = ("--repair-directory", str(commands))
        with running(tmp_path, *options, settings="repair = true") as agent:
            _ask_the_real_agent(agent, path)


def _ask_the_real_agent(agent: Agent, command: str) -> None:
    one = agent.client()
    agent.write_report(data=DIAGNOSE)
    content = one.report(900)
    assert content["data"] == DIAGNOSE
    # Its answers carry the time of the node.
    assert one.ahead is not None
    diagnose = DIAGNOSE | {"details": {"ä": [1, None]}}
    assert one.repair(content["node"], COMMAND, canonical(diagnose), 60, ONCE) == CommandEnd(
        7, "fixed\n", ""
    )
    assert json.loads(notes(command)) == diagnose
    agent.renew_key(b"renewed0123456789\n")
    assert one.repair(content["node"], COMMAND, REQUESTED, 60, ("id-2", ONCE[1])).status == 7
    agent.write_report(timestamp=time.time_ns() - 10**12)
    assert one.report(900)["data"] is None
    with pytest.raises(AgentRefused):
        one.repair("node2.lab", COMMAND, REQUESTED, 60, ("id-3", ONCE[1]))
    agent.key_file.unlink()
    with pytest.raises(StewardError, match="HTTP 503"):
        one.report(900)
