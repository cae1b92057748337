"""Processes that cannot be killed: real ones, which do not pile up from run to run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from programs import wait_until
from unkillable import frozen_filesystem, needs_freezing, state

from ganeti_steward.core.model.finding import Finding, Unknown
from ganeti_steward.core.process.descendants import Process, is_there
from ganeti_steward.diagnose.run.state_file import read_stuck, write_stuck

if TYPE_CHECKING:
    from diagnosing import Site

PROGRAM = Path(sys.executable).parent / "gnt-steward"

#: Writes to a disk that does not answer: itself, or by a program.
WRITER = """
@hookimpl
def steward_diagnose(machine):
    yield Finding("disk:other", "Ok")
    if {by_program}:
        machine.run("dd", "if=/dev/zero", "of={place}/file", "count=1")
    else:
        open("{place}/file", "wb").write(b"x" * 10000)
"""


def diagnose(site: Site) -> str:
    """One run of the real program; what it prints in addition to the object."""
    done = subprocess.run(
        [PROGRAM, "diagnose", "-v"],
        env={"GNT_STEWARD_CONFIG": str(site.config_file), "PYTHONPATH": str(site.modules)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '{"status":"Ok"}\n'
    return done.stderr


def since_boot(pid: int) -> float:
    """Seconds, by the kernel's own count."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


@needs_freezing
@pytest.mark.parametrize("by_program", [False, True], ids=["itself", "program"])
def test_one_process_and_no_more(site: Site, by_program: bool) -> None:
    site.plugin("fan", "@hookimpl\ndef steward_diagnose():\n    yield Finding('fan', 'Ok')")
    site.configure("disk", "fan", limit=1)
    with frozen_filesystem(site.path) as place:
        site.plugin("disk", WRITER.format(place=place, by_program=by_program))
        assert "not run" not in diagnose(site)
        kept = json.loads((site.directory / "stuck.json").read_text())
        ((pid, started),) = kept["disk"]
        assert state(pid) == "D"
        for _ in range(2):
            fault = f"not run: a process of an earlier run cannot be killed ({pid})"
            printed = diagnose(site)
            assert f"unknown: disk: {fault}\n" in printed
            assert "ran: fan: " in printed
            assert json.loads((site.directory / "stuck.json").read_text()) == kept
    wait_until(lambda: not is_there(Process(pid, started)), "the end of the process")
    site.plugin("disk", "@hookimpl\ndef steward_diagnose():\n    yield Finding('disk', 'Ok')")
    assert "unknown" not in diagnose(site)
    assert json.loads((site.directory / "stuck.json").read_text()) == {}


def test_a_source_that_has_left_something_is_not_run(site: Site) -> None:
    site.plugin("disk", "@hookimpl\ndef steward_diagnose():\n    yield Finding('disk', 'Ok')")
    site.configure("disk")
    site.directory.mkdir(mode=0o700)
    with subprocess.Popen(["sleep", "3600"]) as other:
        started = since_boot(other.pid)
        for known, is_run in ((started, False), (started + 2, True)):
            write_stuck(str(site.directory), {"disk": frozenset([Process(other.pid, known)])})
            results = [one for source in site.run().sources for one in source.results]
            assert (results == [Finding("disk", "Ok")]) == is_run
            assert isinstance(results[0], Unknown) != is_run
        other.send_signal(signal.SIGKILL)
    # A process that has ended, reaped or not, is not there.
    assert not is_there(Process(other.pid, started))
    pid = os.fork()
    if not pid:
        os._exit(0)
    wait_until(lambda: state(pid) == "Z", "the end of the child")
    started = since_boot(pid)
    assert not is_there(Process(pid, started))
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"a": 5}', '{"a": [[1]]}', '{"a": [["x", 1]]}']
)
def test_a_file_that_is_not_understood(tmp_path: Path, content: str) -> None:
    (tmp_path / "stuck.json").write_text(content)
    assert read_stuck(str(tmp_path)) == {}


def test_nothing_is_written_where_nothing_is_left(tmp_path: Path) -> None:
    write_stuck(str(tmp_path), {"disk": frozenset()})
    assert list(tmp_path.iterdir()) == []
