"""luxid stores jobs late: nothing is submitted twice, also when daemon or record are gone."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest
from thorough import often

from ganeti_steward.plugins.filters.filter_rules import FilterRules
from ganeti_steward.plugins.maintenance.queue.submit import submissions_of
from ganeti_steward.plugins.model.incident import COMPLETED

from ...cluster import PROGRAMS, op, until
from ..maintained_lab import MaintainedLab
from ..node_files import EVACUATE

#: s from a call that hands jobs over until luxid gets it.
LATE: Final = often([13.0], [6.0, 13.0, 30.0, 90.0])
NODE: Final = "node3.lab"
END: Final = b"\x03"


class Delay(socketserver.ThreadingUnixStreamServer):
    """In front of luxid: answers what it answers, and hands jobs over late."""

    daemon_threads = True

    def __init__(self, path: str, luxid: str) -> None:
        self.luxid, self.seconds, self.calls = luxid, 0.0, 0
        super().__init__(path, _Handler)


class _Handler(socketserver.BaseRequestHandler):
    server: Delay

    def handle(self) -> None:
        raw = received(self.request)
        if not raw:
            return
        if json.loads(raw[:-1])["method"] == "SubmitManyJobs":
            self.server.calls += 1
            time.sleep(self.server.seconds)
        with socket.socket(socket.AF_UNIX) as luxid:
            luxid.connect(self.server.luxid)
            luxid.sendall(raw)
            answer = received(luxid)
        # Its caller can be gone by now, as luxid's can.
        with suppress(OSError):
            self.request.sendall(answer)


def received(connection: socket.socket) -> bytes:
    """One message, its last byte included; empty where the other side is gone."""
    raw = bytearray()
    while not raw.endswith(END):
        part = connection.recv(2**16)
        if not part:
            return b""
        raw += part
    return bytes(raw)


@contextmanager
def delaying(lab: MaintainedLab) -> Iterator[Delay]:
    """In the place of the master's socket, which is luxid's again at the end."""
    folder = lab.directory / "nodes" / lab.master / "run/ganeti/socket"
    usual, moved = folder / "ganeti-query", folder / "luxid"
    usual.rename(moved)
    server = Delay(str(usual), str(moved))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        moved.rename(usual)


def handed_over(lab: MaintainedLab) -> list[list[str]]:
    """The submissions of each job of each incident."""
    return [
        sorted(submissions_of(job))
        for incident in lab.incidents.values()
        for job in lab.jobs_of(incident)
    ]


@pytest.fixture(scope="module")
def numbers_again(maintained: MaintainedLab) -> None:
    """luxid gives out numbers of earlier jobs again.

    A node that becomes a master candidate gets no copy of the queue: as the master it begins to
    count where it ended, and its candidates take that over.
    """
    lab = maintained
    last = max(row["id"] for row in lab.luxi.rows("job", ("id",)))
    lab.do(op("NODE_SET_PARAMS", node_name="node2.lab", master_candidate=True))
    try:
        lab.fail_over("node2.lab")
    finally:
        lab.fail_over("node1.lab")
    assert lab.luxi.call("SubmitJob", [op("TEST_DELAY", duration=0.01)]) <= last


@pytest.mark.usefixtures("numbers_again")
@pytest.mark.parametrize("late", LATE)
def test_a_daemon_that_is_killed_while_luxid_stores_its_jobs(
    late: float, maintained: MaintainedLab
) -> None:
    lab = maintained
    lab.place(("inst1.lab", "sharedfile", NODE))
    lab.report(NODE, EVACUATE)
    with delaying(lab) as luxid:
        luxid.seconds = late
        with lab.daemon() as daemon:
            until(lambda: luxid.calls > 0)
            lab.kill(daemon)
        luxid.seconds = 0
        with lab.daemon():
            incident = lab.ended(NODE, COMPLETED, 300 + late)
    names = lab.operations(incident)
    assert sorted(names) == sorted(
        ["OP_NODE_SET_PARAMS", "OP_INSTANCE_MIGRATE", "OP_NODE_SET_PARAMS", "OP_TAGS_SET"]
    )
    each = handed_over(lab)
    assert len({one for (one,) in each}) == len(each)


@pytest.mark.usefixtures("numbers_again")
def test_a_record_that_is_deleted_while_its_job_runs(maintained: MaintainedLab) -> None:
    """Its instance is moved once, and its rules that hold creations are gone."""
    lab = maintained
    lab.place(("inst1.lab", "sharedfile", NODE))
    with lab.daemon("hold-creations = true"):
        with lab.held_jobs("OP_INSTANCE_MIGRATE"):
            lab.report(NODE, EVACUATE)
            until(lambda: "move" in lab.open_steps())
            old = lab.incident(NODE)
            until(lambda: deleted(lab, old.uuid))
            new = lab.incident(NODE)
            assert new.uuid != old.uuid
            # Rounds go on meanwhile: nothing else is submitted.
            time.sleep(3)
            assert held(lab, "orphan")
            assert [*lab.operations(old), *lab.operations(new)].count("OP_INSTANCE_MIGRATE") == 1
        incident = lab.ended(NODE, COMPLETED)
        until(lambda: rules_of(lab, old.uuid) == 0)
    assert incident.uuid == new.uuid
    names = [*lab.operations(old), *lab.operations(incident)]
    assert names.count("OP_INSTANCE_MIGRATE") == 1
    assert lab.node(NODE, "offline", "pinst_cnt") == [True, 0]


def deleted(lab: MaintainedLab, uuid: str) -> bool:
    """Delete a record; whether the daemon knows.  A round that had read it writes it back."""
    FilterRules(lab.luxi).delete(uuid)
    return held(lab, "orphan")


def held(lab: MaintainedLab, brake: str) -> bool:
    """Whether the daemon holds something back with this word."""
    return f"({brake})" in lab.steward("maintd", "status").stdout


def rules_of(lab: MaintainedLab, uuid: str) -> int:
    """How many rules hold creations for an incident."""
    rows = lab.luxi.rows("filter", ("reason_trail",))
    return sum(uuid in json.dumps(row) for row in rows)


def test_what_the_list_of_connections_shows(maintained: MaintainedLab) -> None:
    """luxid keeps the connection of a call until its end, also where the caller is gone."""
    lab = maintained
    program = lab.directory / "look.py"
    program.write_text(LOOK)
    command = [str(PROGRAMS / "lab-run"), "-n", lab.master, sys.executable, str(program)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        env=lab.environment,
        check=False,
    )
    program.unlink()
    assert done.stdout.endswith("waited and over\n"), done.stdout + done.stderr


#: On the master: a call whose caller goes away at once, and the end of luxid.
LOOK: Final = """
import json, socket, subprocess, time
from ganeti_steward.core.ganeti.luxi import SOCKET, Luxi
from ganeti_steward.plugins.maintenance.queue.calls import Connections

UTIL = "/usr/lib/ganeti/daemon-util"
# Of callers that are gone luxid keeps some connections for a while.
subprocess.run([UTIL, "stop", "ganeti-luxid"], check=True)
subprocess.run([UTIL, "start", "ganeti-luxid"], check=True)
assert Connections(SOCKET).awaited() == "", "a connection is open that should not be"
job = Luxi().call("SubmitJob", [{"OP_ID": "OP_TEST_DELAY", "duration": 8, "on_nodes": [],
    "on_master": True, "no_locks": True, "interruptible": False, "repeat": 0, "reason": []}])
while Luxi().call("QueryJobs", [job], ["status"]) != [["running"]]:
    time.sleep(0.1)
assert Connections(SOCKET).awaited() == "", "the process of a job keeps a connection"
with socket.socket(socket.AF_UNIX) as caller:
    caller.connect(SOCKET)
    arguments = [job, ["status"], ["running"], 0, 4]
    request = {"method": "WaitForJobChange", "args": arguments, "version": 3000000}
    caller.sendall(json.dumps(request).encode() + b"\\x03")
    time.sleep(0.3)
began = time.monotonic()
ours = Connections(SOCKET, wait=0.2)
while time.monotonic() - began < 2:
    assert ours.awaited(), "luxid let go of the call before its end"
subprocess.run([UTIL, "stop", "ganeti-luxid"], check=True)
assert not ours.awaited(), "the connection was open after the end of luxid"
subprocess.run([UTIL, "start", "ganeti-luxid"], check=True)
print("waited and over")
"""
