"""The daemon goes on, says what it cannot report, and ends well, whatever its disk does."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Site, site, wait_for

from ganeti_steward.core.service.sd_notify import notify


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        yield made


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def test_a_full_disk_stops_no_repair(cluster: Site) -> None:
    """Recording, audit log and notifications fail all the time; the node is evacuated."""
    node = cluster.names[1]
    cluster.configure(**{"audit-file": "/dev/full", "notify-command": "/no/such"})
    with cluster.daemon(record="/dev/full") as process:
        cluster.begun()
        cluster.report(node, status="evacuate", details={"disk": "sda"})
        tags = wait_for(lambda: cluster.tags(node), cluster.log.read_text)
        daemon = wait_for(
            lambda: (found := cluster.get("/1/daemon")) and len(problems(found)) == 3 and found,
            lambda: json.dumps(cluster.get("/1/daemon")["held"]),
        )
        metrics = cluster.raw("/metrics").decode()
        page = cluster.raw("/ui").decode()
        health = cluster.get("/healthz")
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "")
    assert tags[0].startswith("maintd:repairready:")
    assert daemon["round"]["fault"] == ""
    assert [text.partition(": ")[0] for text in problems(daemon)] == [
        "notifying notify-command fails",
        "the audit log /dev/full cannot be written",
        "the recording /dev/full cannot be written",
    ]
    assert "No space left on device (failed" in problems(daemon)[2]
    assert 'steward_maintd_held{brake="reporting"} 3.0' in metrics
    assert "reporting holds 3" in page
    assert health == {"ok": True, "reason": ""}
    log = cluster.log.read_text()
    assert log.count("the recording /dev/full cannot be written: No space left on device") == 1
    assert log.count("the audit log /dev/full cannot be written: ") == 1
    assert "round failed" not in log


def problems(daemon: dict[str, list[dict[str, str]]]) -> list[str]:
    return sorted(one["sentence"] for one in daemon["held"] if one["brake"] == "reporting")


def test_a_recording_that_cannot_begin(cluster: Site) -> None:
    """What the command line names has to be possible when the daemon starts."""
    place = str(cluster.path / "none" / "rounds")
    with cluster.daemon(record=place) as process:
        assert ended(process) == (1, f"{place} cannot be written: No such file or directory\n")


def fits(sender: socket.socket, path: str) -> bool:
    try:
        return sender.sendto(b"", path) == 0
    except BlockingIOError:
        return False


def test_a_systemd_that_takes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for _ in iter(lambda: fits(sender, path), False):
                pass
        notify("STATUS=it goes on", {"NOTIFY_SOCKET": path})
        assert listener.recv(100) == b""


#: Runs a program whose standard error goes to a pipe that no process reads.
CLOSED = """
import os, signal, sys
reading, writing = os.pipe()
os.close(reading)
os.dup2(writing, 2)
sys.path.insert(0, {path!r})
{work}
"""


def closed(work: str, path: Path, **environment: str) -> int:
    """The exit status of some work in a process with a closed standard error."""
    program = CLOSED.format(work=work, path=str(path))
    return subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, timeout=300, check=False
    ).returncode


def test_the_end_is_known_without_standard_error(cluster: Site) -> None:
    """The exit status says that this node is not the master."""
    (cluster.path / "data" / "ssconf_master_node").write_text(f"{cluster.names[1]}\n")
    options = {"data": str(cluster.path / "data"), "host": cluster.names[0], "port": 0}
    work = f"""
from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions
from ganeti_steward.plugins.maintenance.daemon.process import run_daemon
sys.exit(run_daemon(DaemonOptions(**{options!r})))
"""
    assert closed(work, cluster.path, GNT_STEWARD_CONFIG=str(cluster.config)) == 11


def test_a_log_that_cannot_be_used_keeps_no_service_from_its_start(tmp_path: Path) -> None:
    work = f"""
from ganeti_steward.core.log import set_up_service
from ganeti_steward.core.service.console_log import ConsoleLog
set_up_service({str(tmp_path / "none" / "log")!r}, "info", ConsoleLog)
"""
    assert closed(work, tmp_path) == 0
