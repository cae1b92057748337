"""Floods of connections: the agent goes on serving signed reports, to this machine and others."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from agents import DISTANT, FORGER, MASTER, Agent, running
from programs import TIME_LIMIT
from thorough import often
from whitelists import needs_root

from ganeti_steward.core.service.http_messages import HttpAnswer, HttpRequest
from ganeti_steward.core.service.http_server import Limits, Server, bind

#: Seconds; a report of the tests never gets too old.
AGE = 600_000


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    path = tmp_path_factory.mktemp("flooded")
    with running(path, settings="repair = true; max-age = 604800") as agent:
        agent.write_report()
        yield agent


@pytest.fixture
def distant(tmp_path: Path) -> Iterator[Agent]:
    """An agent to which each loopback address is another machine."""
    settings = "repair = true; max-age = 604800"
    with running(tmp_path, settings=settings, prefix=DISTANT) as agent:
        agent.write_report()
        yield agent


def serves(agent: Agent, times: int = 5) -> None:
    for _ in range(times):
        assert agent.client().report(AGE)["data"] == {"status": "Ok"}
    assert agent.process.poll() is None


def caller(number: int) -> str:
    return f"127.0.{number // 250 + 1}.{number % 250 + 1}"


@contextmanager
def connections(agent: Agent, callers: list[str], sent: bytes = b"") -> Iterator[None]:
    with ExitStack() as held:
        for address in callers:
            one = socket.create_connection((agent.address, agent.port), TIME_LIMIT, (address, 0))
            held.enter_context(one)
            if sent:
                with suppress(ConnectionError):
                    one.sendall(sent)
        yield


#: What those who hold a connection send.
PARTS = [
    b"",
    b"G",
    b"POST /1/repair HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc",
]


@pytest.mark.parametrize("sent", PARTS)
@pytest.mark.parametrize("addresses", [1, 120])
def test_idle_connections_of_this_machine(agent: Agent, sent: bytes, addresses: int) -> None:
    with connections(agent, [caller(n % addresses) for n in range(120)], sent):
        serves(agent)
    serves(agent)


@pytest.mark.parametrize("sent", PARTS)
@pytest.mark.parametrize("addresses", [13, 30, 120])
def test_idle_connections_of_others(distant: Agent, sent: bytes, addresses: int) -> None:
    """More than the agent takes of all callers; who has most loses one."""
    with connections(distant, [caller(n % addresses) for n in range(120)], sent):
        serves(distant)


def test_a_flood_that_goes_on(agent: Agent) -> None:
    over = threading.Event()

    def flood(number: int) -> None:
        while not over.is_set():
            with suppress(OSError), connections(agent, [caller(number)] * 4):
                pass

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    served = 0
    try:
        for _ in range(often(20, 200)):
            # A connection may be dropped before its request has come; the next one is not.
            with suppress(Exception):
                serves(agent, 1)
                served += 1
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert served
    serves(agent)


def reset(agent: Agent, sent: bytes) -> None:
    """Connect, send, and break it off."""
    with socket.create_connection((agent.address, agent.port), TIME_LIMIT, (FORGER, 0)) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with suppress(ConnectionError):
            one.sendall(sent)


@pytest.mark.parametrize(
    "sent", [*PARTS, b"GET /1/report/all HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\0" * 100_000]
)
def test_resets(agent: Agent, sent: bytes) -> None:
    """However many: it goes on listening."""
    for _ in range(often(40, 1000)):
        reset(agent, sent)
    serves(agent)


def test_half_closed_connections(agent: Agent) -> None:
    with ExitStack() as held:
        for number in range(50):
            place = (agent.address, agent.port)
            one = held.enter_context(socket.create_connection(place, TIME_LIMIT, (FORGER, 0)))
            one.sendall(PARTS[number % 3] or b"GET")
            with suppress(OSError):
                one.shutdown(socket.SHUT_WR)
        serves(agent)


class Working:
    """An application that answers when it is let go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Semaphore(0), threading.Event()

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        self.begun.release()
        assert self.go_on.wait(TIME_LIMIT)
        return HttpAnswer(b"done")


def test_a_request_that_is_worked_for_is_never_dropped() -> None:
    """However many connections of the same caller come meanwhile."""
    work, listener = Working(), bind(MASTER, 0)
    place = listener.getsockname()
    server = Server(work, listener, Limits(threads=4, connections_of_one=4), ())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with ExitStack() as held:
            asking = [socket.create_connection(place, TIME_LIMIT) for _ in range(3)]
            for one in asking:
                held.enter_context(one).sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert work.begun.acquire(timeout=TIME_LIMIT)
            idle = [socket.create_connection(place, TIME_LIMIT) for _ in range(20)]
            for one in idle:
                held.enter_context(one)
            for one in idle[:-1]:
                assert one.recv(1) == b"", "it is dropped"
            work.go_on.set()
            for one in asking:
                assert one.makefile("rb").read().endswith(b"done")
    finally:
        work.go_on.set()
        server.stop()
        thread.join()
        server.finish()


@needs_root
def test_another_machine_is_served_beside_a_flood_of_this_one(tmp_path: Path) -> None:
    """In a network of its own: two real machines, and the attacker on that of the agent."""
    done = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, Path(__file__).with_name("two_hosts.py")],
        env=dict(os.environ) | {"PYTHONPATH": ":".join(sys.path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT * 5,
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("no network can be made here")
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr
