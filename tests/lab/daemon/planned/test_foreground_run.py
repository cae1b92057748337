"""``maintenance run`` on a node, while no daemon runs: interrupted, run again, and rebooted."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from ...cluster import PROGRAMS
from ..faults.watched import Runs
from ..maintained_lab import MaintainedLab, signal_program
from .rolling import QUIET, downtime, homes, reboot, running

NODE = "node2.lab"
INSTANCES = (
    ("inst1.lab", "drbd", "node2.lab:node3.lab"),
    ("inst2.lab", "diskless", "node2.lab"),
    ("inst3.lab", "drbd", "node3.lab:node2.lab"),
)


@contextmanager
def begun(lab: MaintainedLab) -> Iterator[subprocess.Popen[str]]:
    """The command on the master, until the end of the block."""
    program = lab.programs / "gnt-steward"
    with subprocess.Popen(
        [str(PROGRAMS / "lab-run"), "-n", lab.master, str(program), "maintenance", "run", NODE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=lab.environment,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                lab.kill(process)  # type: ignore[arg-type]


def until_line(process: subprocess.Popen[str], text: str) -> str:
    """What it has printed once a line has this."""
    printed = ""
    assert process.stdout is not None
    for line in process.stdout:
        printed += line
        if text in line:
            return printed
    raise AssertionError(printed)


def test_a_node_is_rebooted_without_the_daemon(maintained: MaintainedLab, runs: Runs) -> None:
    """Nothing is down for a moment, and nothing moves twice."""
    lab = maintained
    lab.place(*INSTANCES)
    lab.configure_daemon(mode="observe")
    before, where = homes(lab), running(lab)
    with begun(lab) as process:
        until_line(process, f"{NODE}: empty {NODE}: ")
        signal_program(process, signal.SIGINT)  # type: ignore[arg-type]
        printed, _ = process.communicate(timeout=300)
    assert process.returncode == 3, printed
    assert f"gnt-steward maintenance run {NODE} continues it" in printed
    (found,) = lab.incidents.values()
    assert (found.node_name, found.status) == (NODE, "pending")
    with begun(lab) as process:
        printed = until_line(process, f"{NODE} is ready: nothing runs on it")
        assert "Requested maintenance" not in printed
        assert lab.node(NODE, "drained") == [True]
        reboot(lab, NODE)
        rest, _ = process.communicate(timeout=300)
    print(printed, rest)
    assert process.returncode == 0
    assert f"{NODE}: done: the maintenance of {NODE} is over" in rest
    assert (homes(lab), running(lab)) == (before, where)
    assert {name: downtime(lab, runs, name) for name in where} == dict.fromkeys(where, 0)
    used = lab.operations(found)
    assert {*used} <= QUIET
    assert used.count("OP_INSTANCE_MIGRATE") == 4
