"""The agent as a server: slow and broken clients, where it listens, memory, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from agents import (
    FORGER,
    MASTER,
    PROGRAM,
    Agent,
    configure,
    places_of_the_program,
    running,
)
from programs import TIME_LIMIT, is_running, notes, program, wait_until
from repair_requests import KEY
from whitelists import needs_root, whitelist

from ganeti_steward.core.ganeti.signing import verify
from ganeti_steward.core.ganeti.this_node import this_node
from ganeti_steward.core.service import http_server
from ganeti_steward.core.service.http_messages import HttpAnswer, HttpRequest

SALT = "a-fresh_salt-0123"
REPORT = "/1/report/node/diagnose"


def connect(agent: Agent, caller: str) -> socket.socket:
    return socket.create_connection((agent.address, agent.port), TIME_LIMIT, (caller, 0))


def test_slow_clients_do_not_block_others(agent: Agent) -> None:
    """Incomplete requests; one caller has eight places, and the oldest one makes room."""
    slow = [connect(agent, FORGER) for _ in range(8)]
    for number, one in enumerate(slow):
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" if number % 2 else b"P")
    for _ in range(20):
        assert agent.get("/") == [1]
    assert everything(slow[0]) == b""
    slow[-1].sendall(b"\r\n")
    assert b"HTTP/1.1 200 OK" in everything(slow[-1])
    for one in slow:
        one.close()


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side closes the connection, or breaks it off."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(2**16):
            received += chunk
    return received


def test_many_requests_on_one_connection(tmp_path: Path) -> None:
    """Answers would fill the memory and block a thread while the client does not read."""
    with running(tmp_path) as agent:
        agent.write_report(data={"status": "evacuate", "details": "x" * 100_000})
        greedy = [connect(agent, FORGER) for _ in range(7)]
        for one in greedy:
            one.sendall(f"GET {REPORT} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 150)
        assert agent.get("/") == [1]
        for one in greedy:
            assert everything(one).count(b"HTTP/1.1 200 OK") == 1
            one.close()


def endless(_: HttpRequest) -> HttpAnswer:
    """An answer that no socket takes at once."""
    return HttpAnswer(b"x" * 2**25)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The place of a server with a very short time limit; its clock was set back by years."""
    listener = http_server.bind(MASTER, 0)
    place = listener.getsockname()
    server = http_server.Server(endless, listener, http_server.Limits(life=0.2), ())
    monkeypatch.setattr(time, "time", lambda: 0.0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield place
    finally:
        server.stop()
        thread.join()
        server.finish()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n"])
def test_a_caller_who_does_not_speak(hasty: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(hasty, TIME_LIMIT) as one:
        one.sendall(sent)
        assert everything(one) == b""


def test_a_caller_who_does_not_listen(hasty: tuple[str, int]) -> None:
    with socket.create_connection(hasty, TIME_LIMIT) as one:
        one.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert one.recv(1) == b"H"
        wait_until(lambda: not is_connected(hasty), "that the server closes its side")
        assert len(everything(one)) < 2**25


def is_connected(place: tuple[str, int]) -> bool:
    """Whether a server in this process has a connection open."""
    own = [one for one in psutil.net_connections("tcp") if one.pid == os.getpid()]
    return any(one.laddr == place and one.raddr for one in own)


def test_a_caller_who_speaks_all_the_time(hasty: tuple[str, int]) -> None:
    """A byte now and then keeps no connection open."""
    with socket.create_connection(hasty, TIME_LIMIT) as one, select.epoll() as closed:
        closed.register(one, select.EPOLLRDHUP)
        one.sendall(b"GET / HTTP/1.1\r\nX: ")
        while not closed.poll(0.01):
            with contextlib.suppress(ConnectionError):
                one.sendall(b"y")
        assert everything(one) == b""


@pytest.mark.parametrize(
    "raw",
    [
        b"\0" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"POST /1/repair HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        b"POST /1/repair HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /1/repair HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET http://[x HTTP/1.1\r\n\r\n",
    ],
)
def test_broken_http(agent: Agent, raw: bytes) -> None:
    with connect(agent, MASTER) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(100)
        except OSError:
            # It was closed before all was sent.
            answer = b""
    assert re.match(rb"HTTP/1\.[01] [45]\d\d |$", answer)
    assert agent.get("/") == [1]
    assert len(agent.log.splitlines()) == 1, "requests cannot fill the log"


def test_ipv6(tmp_path: Path) -> None:
    with running(tmp_path, address="::1") as agent:
        assert agent.get("/") == [1]
        agent.write_report()
        assert agent.client().report(900)["data"] == {"status": "Ok"}


def refused_to_start(path: Path, *options: str, settings: str = "", **environment: str) -> str:
    """What the agent says when it does not begin."""
    config = configure(path, settings)
    done = subprocess.run(
        [PROGRAM, "agent", *options],
        env={"GNT_STEWARD_CONFIG": str(config), "PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_a_relative_path_of_the_configuration(tmp_path: Path) -> None:
    """The process that diagnoses works in another directory."""
    with running(tmp_path, "--data", "data", relative=True, settings="repair = true") as agent:
        assert "cannot be started" not in agent.log
        assert agent.child


def test_where_it_cannot_listen(tmp_path: Path) -> None:
    with socket.create_server((MASTER, 0)) as other:
        port = str(other.getsockname()[1])
        printed = refused_to_start(tmp_path, "-b", MASTER, "-p", port)
    assert printed == (
        f"gnt-steward agent: cannot listen at {MASTER} port {port}: Address already in use"
    )
    printed = refused_to_start(tmp_path, "-p", "0", settings='address = "somewhere"')
    assert printed == "gnt-steward agent: 'somewhere' is not an IP address to listen on"
    printed = refused_to_start(tmp_path, "-b", "192.0.2.1")
    assert printed.endswith("cannot listen at 192.0.2.1 port 1817: Cannot assign requested address")
    printed = refused_to_start(tmp_path, "-b", MASTER, "-p", "70000")
    assert printed == "gnt-steward agent: there is no TCP port 70000"


@pytest.mark.skipif(this_node().address != "", reason="this machine is a node of a cluster")
def test_an_address_that_is_not_known(tmp_path: Path) -> None:
    """Never at every address because none was given."""
    try:
        found = {place[0] for *_, place in socket.getaddrinfo(this_node().name, None)}
    except socket.gaierror:
        found = set()
    if not found <= {"127.0.0.1", "127.0.1.1", "::1"}:
        pytest.skip("the name of this machine leads to an address")
    printed = refused_to_start(tmp_path)
    assert printed.startswith("gnt-steward agent: the address of this node is unknown: ")


def test_every_address_only_when_configured(tmp_path: Path) -> None:
    with running(tmp_path, address="0.0.0.0") as agent:
        assert agent.get("/") == [1]
        assert "WARNING the agent listens at every address of this node" in agent.log


def status_of(pid: int) -> dict[str, int]:
    """The kernel's figures of a process's memory, kB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {words[0][:-1]: int(words[1]) for words in lines if words[0].startswith("Vm")}


@pytest.mark.parametrize("option", ["--no-mlock", "--debug"])
def test_idle_below_40_mib(tmp_path: Path, option: str) -> None:
    """Also with all of it locked, which makes it larger."""
    with running(tmp_path, option, settings="repair = true") as agent:
        agent.write_report()
        for _ in range(20):
            agent.ask("GET", f"{REPORT}?salt={SALT}")
            agent.ask("POST", "/1/repair/nonce")
        memory = status_of(agent.process.pid)
        assert memory["VmRSS"] < 40 * 1024
        if option == "--no-mlock":
            assert memory["VmLck"] == 0
        elif "memory is not locked" not in agent.log:
            assert memory["VmLck"] > 10 * 1024


HANGING = """
    trap '' TERM
    echo $$ > NOTES
    while :; do sleep 0.1; done
"""


@needs_root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_ends_with_all_it_has_started(tmp_path: Path, number: signal.Signals) -> None:
    """A repair command that does not end; the answer reports it if there is time for one."""
    with whitelist() as commands:
        path = program(commands, "replace-disk", HANGING)
        options = ("--repair-directory", str(commands))
        with running(tmp_path, *options, settings="repair = true") as agent:
            raw = agent.request()
            with socket.create_connection((agent.address, agent.port), TIME_LIMIT) as connection:
                head = f"POST /1/repair HTTP/1.0\r\nContent-Length: {len(raw)}\r\n\r\n"
                connection.sendall(head.encode() + raw)
                wait_until(lambda: notes(path), "the repair")
                command = int(notes(path))
                agent.process.send_signal(number)
                assert agent.process.wait(TIME_LIMIT) == 0
                answer = connection.makefile("rb").read()
                assert answer == b"" or re.search(rb'\\"status\\":(-9|null)', answer)
            assert not is_running(command)
            assert agent.log.splitlines()[-1].endswith("INFO agent ends")


def test_it_ends_what_those_have_started(tmp_path: Path) -> None:
    """A check of the self-diagnosis, in a session of its own."""
    path = program(tmp_path, "hanging", HANGING)
    settings = f"interval = 1000; [nagios.hanging]; command = ['{path}']"
    with running(tmp_path, settings=settings) as agent:
        wait_until(lambda: notes(path), "the check")
        check = int(notes(path))
        assert is_running(check)
        agent.process.terminate()
        assert agent.process.wait(TIME_LIMIT) == 0
        assert not is_running(check)


@needs_root
def test_with_all_its_files_gone(tmp_path: Path) -> None:
    """Python's and this program's are covered, in the agent's own view of the filesystem."""
    outermost = places_of_the_program()
    with whitelist() as commands:
        path = program(commands, "replace-disk", "cat > NOTES")
        options = ("--repair-directory", str(commands))
        own_view = ("unshare", "--mount", "--propagation", "private")
        with running(tmp_path, *options, settings="repair = true", prefix=own_view) as agent:
            for place in outermost:
                agent.in_its_view("mount", "-t", "tmpfs", "none", str(place))
                assert agent.in_its_view("ls", "-A", str(place)) == ""
            report = agent.write_report() | {"purpose": "report"}
            signed = agent.ask("GET", f"{REPORT}?salt={SALT}").body
            assert json.loads(verify(KEY, signed, SALT)) == report
            assert agent.get("/1/report/all") == [report]
            assert agent.ask("GET", "/nowhere").status == 404
            assert agent.ask("HEAD", "/1/repair").status == 405
            assert agent.repaired()["status"] == 0
            assert agent.repair(agent.request(key=b"forged")).status == 403
            agent.report_file.unlink()
            assert agent.get(REPORT) == report
            assert json.loads(notes(path))["status"] == "live-repair"
