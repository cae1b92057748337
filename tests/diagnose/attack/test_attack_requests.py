"""Attacks on the agent by requests: after each it serves a signed report, and nothing was run."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from agents import DISTANT, FORGER, MASTER, Agent, running
from bad_requests import BROKEN, DEEP, TORN, chunk, chunked, get, post, signed
from programs import TIME_LIMIT, notes, program
from repair_requests import COMMAND
from whitelists import needs_root, whitelist

pytestmark = needs_root


@pytest.fixture(scope="module")
def commands() -> Iterator[Path]:
    with whitelist() as path:
        program(path, COMMAND, "echo run >> NOTES")
        yield path


@pytest.fixture(scope="module")
def agent(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    path = tmp_path_factory.mktemp("attacked")
    options = ("--repair-directory", str(commands))
    settings = "repair = true; max-age = 604800"
    with running(path, *options, settings=settings, prefix=DISTANT) as agent:
        agent.write_report()
        yield agent


@pytest.fixture(autouse=True)
def _as_before(agent: Agent, commands: Path) -> Iterator[None]:
    yield
    assert agent.process.poll() is None
    assert agent.client().report(600000)["data"] == {"status": "Ok"}
    assert notes(f"{commands}/{COMMAND}") == ""


def statuses(agent: Agent, raw: bytes, caller: str = MASTER) -> list[int]:
    """The statuses of all answers to some bytes; [0] where there is none."""
    with socket.create_connection((agent.address, agent.port), TIME_LIMIT, (caller, 0)) as one:
        received = b""
        # It may be closed before all was sent, or with some of it unread.
        with suppress(OSError):
            one.sendall(raw)
            one.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            while part := one.recv(2**16):
                received += part
    found = re.findall(rb"^HTTP/1\.[01] (\d+) ", received, re.MULTILINE)
    return [int(status) for status in found] or [0]


@pytest.mark.parametrize("number", range(len(DEEP)), ids=DEEP)
def test_deep_and_long_requests(agent: Agent, number: int) -> None:
    """What is no signed message shuts its caller out, each of whom is another one here."""
    kind, caller = list(DEEP)[number], f"127.1.2.{number + 1}"
    first = 400 if kind == "too long" else 403
    assert statuses(agent, post(DEEP[kind]), caller) == [first]
    assert statuses(agent, post(agent.request()), caller) == [403]


def test_deep_requests_in_chunks(agent: Agent) -> None:
    raw = chunked(*[chunk(b"[" * 100)] * 30, b"0\r\n\r\n")
    assert statuses(agent, raw, "127.1.3.1") == [403]


@pytest.mark.parametrize("kind", TORN)
def test_broken_requests(agent: Agent, kind: str) -> None:
    (status,) = statuses(agent, TORN[kind])
    assert status in BROKEN


def test_pipelined_requests_get_one_answer(agent: Agent) -> None:
    assert statuses(agent, get("/") * 50) == [200]
    assert statuses(agent, get("/") + post(DEEP["2000 open lists"])) == [200]
    assert statuses(agent, post(DEEP["2000 open lists"]) + get("/"), "127.1.3.2") == [403]


#: Names of signed requests that must not be done.
SIGNED = [name for name, _ in signed(Agent.__new__(Agent), "")]


@pytest.mark.parametrize("number", range(len(SIGNED)), ids=SIGNED)
def test_signed_requests_that_are_none(agent: Agent, number: int) -> None:
    """Each by a caller of its own: a guess shuts its caller out for a while."""
    caller = f"127.1.0.{number + 1}"
    _, make = list(signed(agent, caller))[number]
    assert statuses(agent, post(make()), caller) == [403]


def test_a_replayed_request(agent: Agent, commands: Path) -> None:
    raw = agent.request(caller=FORGER)
    assert statuses(agent, post(raw), FORGER) == [200]
    Path(f"{commands}/{COMMAND}.notes").unlink()
    assert statuses(agent, post(raw), "127.1.1.1") == [403]
    assert statuses(agent, post(raw), FORGER) == [403]
    assert statuses(agent, post(raw), FORGER) == [403]
