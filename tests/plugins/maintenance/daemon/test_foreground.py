"""``maintenance run`` as a process: it acts for one node, and only without the daemon."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from asserting import some
from confd_servers import KEY
from running import Site, site, wait_for

from ganeti_steward.plugins.maintenance.edges.audit import read_audit
from ganeti_steward.plugins.maintenance.edges.record import open_record
from ganeti_steward.plugins.model.incident import Incident

#: A record stays long enough to be looked at.
USUAL: Final[dict[str, Any]] = {"mode": "observe", "healthy-delay": 600}

_PROGRAM = """
import sys
from functools import partial
from ganeti_steward.plugins.maintenance.daemon import options
options.DaemonOptions = partial(options.DaemonOptions, **eval(sys.argv[1]))
from ganeti_steward.core.commands.main import main
sys.exit(main(["maintenance", "run", *sys.argv[2:]]))
"""


class Runs:
    """The command, beside the stand-ins."""

    def __init__(self, cluster: Site) -> None:
        self.cluster = cluster
        self.node = cluster.names[1]

    @contextmanager
    def __call__(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """The command for a node, with these words, which is ended in the end."""
        path = self.cluster.path
        given = {
            "confd_port": self.cluster.confd.port,
            "data": str(path / "data"),
            "host": self.cluster.names[0],
        }
        own = ["--luxi-socket", str(path / "luxi.sock")]
        with subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, repr(given), *words, *own],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"GNT_STEWARD_CONFIG": str(self.cluster.config), "PYTHONPATH": str(path)},
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def until(self, process: subprocess.Popen[str], text: str) -> str:
        """What it has printed once it has printed this."""
        printed = ""
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            if text in line:
                return printed
        raise AssertionError(printed)

    def ended(self, *words: str) -> tuple[int, str]:
        with self(*words) as process:
            return end_of(process)

    def operations(self) -> list[str]:
        submissions = self.cluster.stand_in.submissions
        return [op["OP_ID"] for jobs in submissions for job in jobs for op in job]


def records(run: Runs) -> list[Incident]:
    """What the daemon would read."""
    rules = run.cluster.stand_in.filters.items()
    found = [open_record(uuid, rule["reason_trail"][0][1], KEY).incident for uuid, rule in rules]
    return [one for one in found if one]


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    printed, _ = process.communicate(timeout=300)
    return process.returncode, printed


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runs]:
    with site(tmp_path) as made:
        made.configure(**USUAL)
        yield Runs(made)


def finish(run: Runs, process: subprocess.Popen[str]) -> str:
    """Do the work once the node is ready; all that is printed."""
    printed = run.until(process, f"{run.node} is ready: nothing runs on it")
    do_the_work(run)
    status, rest = end_of(process)
    assert status == 0, rest
    return printed + rest


def do_the_work(run: Runs) -> None:
    (uuid,) = (one.uuid for one in records(run) if one.maintenance)
    run.cluster.tags(run.node).append(f"maintd:done:{uuid}")


def homes(run: Runs) -> dict[str, str]:
    return {one["name"]: one["pnode"] for one in run.cluster.stand_in.ganeti.instances}


def test_one_node_is_emptied_and_taken_back(run: Runs) -> None:
    before = homes(run)
    with run(run.node, "--reason", "memory") as process:
        printed = finish(run, process)
    (found,) = records(run)
    lines = [line.removeprefix(f"{run.node}: ") for line in printed.splitlines()]
    assert lines[0] == f"Requested maintenance of {run.node}: incident {found.uuid}."
    states = [
        one for one in lines if one in ("requested", "emptying", "ready", "returning", "home")
    ]
    assert states == ["emptying", "ready", "returning", "home"]
    assert f"done: the maintenance of {run.node} is over" in lines
    assert re.search(f"(?m)^set {run.node} drained: .* .jobs: [0-9]+.$", "\n".join(lines))
    assert homes(run) == before
    assert run.cluster.tags(run.node) == []
    log = run.cluster.log.read_text()
    assert f"maintenance run begins incident={found.uuid}: " in log
    assert f"incident={found.uuid} task=drain jobs=" in log
    events = [one.after for one in read_audit(str(run.cluster.audit), incident=found.uuid)]
    assert [one for one in events if one] == ["noted", "pending", "acknowledged"]


@pytest.mark.parametrize("mode", ["observe", "act"])
def test_everything_else_is_observed(run: Runs, mode: str) -> None:
    """Also where the configuration has the daemon act."""
    cluster, other = run.cluster, run.cluster.names[3]
    cluster.configure(**USUAL | {"mode": mode})
    with run(run.node) as process:
        run.until(process, f"{run.node} is ready: nothing runs on it")
        cluster.report(other, status="evacuate", details={"disk": "sda"})
        wait_for(lambda: len(records(run)) == 2, lambda: "no incident")
        do_the_work(run)
        assert end_of(process)[0] == 0
    (noted,) = (one for one in records(run) if not one.maintenance)
    assert (noted.node_name, noted.status, noted.jobs) == (other, "noted", ())
    row = cluster.stand_in.ganeti.node(other)
    assert (row["drained"], row["offline"]) == (False, False)


def test_an_interrupted_run_goes_on(run: Runs) -> None:
    """Each job that was handed in is noted, and none is handed in again."""
    before, cluster = homes(run), run.cluster
    cluster.stand_in.pace(1)
    with run(run.node) as process:
        run.until(process, f"{run.node}: empty {run.node}: ")
        process.send_signal(signal.SIGINT)
        status, printed = end_of(process)
    assert status == 3
    assert f"Interrupted; the maintenance of {run.node} is not over.\n" in printed
    assert "Its running jobs go on: moving " in printed
    assert f"gnt-steward maintenance run {run.node} continues it" in printed
    (found,) = records(run)
    assert all(one.jobs for one in some(found.open))
    with run(run.node) as process:
        assert "Requested maintenance" not in finish(run, process)
    moved = [name for name in run.operations() if name == "OP_INSTANCE_MIGRATE"]
    assert len(moved) == 2 * len([one for one in some(before.values()) if one == run.node])
    assert homes(run) == before


def test_the_daemon_goes_on_once_it_acts(run: Runs) -> None:
    before, cluster = homes(run), run.cluster
    with run(run.node) as process:
        run.until(process, f"{run.node}: empty {run.node}: ")
        process.send_signal(signal.SIGHUP)
        assert end_of(process)[0] == 3
    cluster.configure(**USUAL | {"mode": "act"})
    with cluster.daemon():
        wait_for(lambda: [one for one in records(run) if one.maintenance.ready], lambda: "busy")
        do_the_work(run)
        wait_for(lambda: cluster.tags(run.node) == [], cluster.log.read_text)
    assert homes(run) == before


@pytest.mark.parametrize(
    ("mode", "advice"),
    [
        ("act", "gnt-steward maintenance start NODE"),
        ("observe", "systemctl stop gnt-steward-maintd"),
    ],
)
def test_a_running_daemon_refuses_it(run: Runs, mode: str, advice: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    run.cluster.configure(**USUAL | {"mode": mode, "port": port})
    with run.cluster.daemon(port=None):
        run.cluster.begun()
        status, printed = run.ended("NODE")
    assert (status, printed.count("\n"), advice in printed) == (1, 1, True)
    assert records(run) == []


def test_no_daemon_begins_meanwhile(run: Runs) -> None:
    with run(run.node) as process:
        run.until(process, f"{run.node}: emptying")
        with run.cluster.daemon() as daemon:
            _, errors = daemon.communicate(timeout=300)
        assert (daemon.returncode, f"running as process {process.pid}" in errors) == (1, True)
        status, printed = run.ended(run.node)
    assert status == 1
    assert "another process holds" in printed


def test_what_is_refused_requests_nothing(run: Runs) -> None:
    cluster = run.cluster
    status, printed = run.ended(cluster.names[0])
    assert (status, f"{cluster.names[0]} is the master" in printed) == (1, True)
    status, printed = run.ended(run.node, "--work", "power")
    assert (status, "has no out-of-band program" in printed) == (1, True)
    cluster.names_as_master(cluster.names[2])
    status, printed = run.ended(run.node)
    assert (status, "this node is not the master: 1 of 1" in printed) == (11, True)
    assert records(run) == []


def test_other_options_do_not_go_on_and_a_cancel_ends_it(run: Runs) -> None:
    with run(run.node, "--stop") as process:
        run.until(process, f"{run.node} is ready: nothing runs on it")
        process.send_signal(signal.SIGINT)
        assert end_of(process)[0] == 3
    status, printed = run.ended(run.node, "--move", "--work", "command:reboot")
    assert status == 1
    assert "an active maintenance with another --stop or --move, --work; leave" in printed
    with run(run.node) as process:
        run.until(process, f"{run.node} is ready: nothing runs on it")
        (found,) = records(run)
        run.cluster.tags(run.node).append(found.cancel_tag)
        status, printed = end_of(process)
    assert (status, f"{run.node}: canceled: " in printed) == (4, True)


def test_a_reader_that_goes_away_ends_it(run: Runs) -> None:
    with run(run.node) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(300) == 1
    (found,) = records(run)
    assert all(one.jobs for one in found.open)
