"""Whose a process is that cannot be killed, and what is known of its source then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from programs import wait_until
from unkillable import frozen_filesystem, needs_freezing, state

from ganeti_steward.core.model.finding import Finding, Unknown
from ganeti_steward.core.process.descendants import is_there, stuck

if TYPE_CHECKING:
    from pathlib import Path

    from diagnosing import Site

#: Leaves a process that writes a moment later, in a session of its own.
LATER = """
@hookimpl
def steward_diagnose(machine):
    yield Finding("later", "Ok")
    if not os.fork():
        os.setsid()
        time.sleep(0.5)
        open("{place}/later", "wb").write(b"x" * 10000)
        os._exit(0)
"""

#: Writes and cannot be killed.
DISK = """
@hookimpl
def steward_diagnose(machine):
    yield Finding("disk", "Ok")
    open("{place}/disk", "wb").write(b"x" * 10000)
"""

SLOW = """
@hookimpl
def steward_diagnose(machine):
    time.sleep(2)
    yield Finding({name!r}, "live-repair")
"""


@needs_freezing
def test_a_leftover_is_not_put_down_to_another_source(site: Site) -> None:
    """It is ended with its own source, before it waits for the disk."""
    with frozen_filesystem(site.path) as place:
        site.plugin("later", LATER.format(place=place))
        site.plugin("slow", SLOW.format(name="slow"))
        site.configure("later", "slow", limit=30, more="appear-after = 1\nparallel = 1")
        for _ in range(2):
            run = site.run()
            assert [one.stuck for one in run.sources] == [frozenset(), frozenset()]
            assert run.diagnosis.unknown == ()
            assert run.diagnosis.object is not None
            assert run.diagnosis.object["status"] == "live-repair"


@needs_freezing
def test_side_by_side_it_is_its_own_source_that_is_not_run(site: Site) -> None:
    """And that is unknown; those that ended before, with and after it are not concerned."""
    names = ("one", "two", "three")
    for name in names:
        site.plugin(name, SLOW.format(name=name).replace("time.sleep(2)", "time.sleep(0.2)"))
    site.configure("one", "disk", "two", "three", limit=8, more="appear-after = 1\nparallel = 3")
    with frozen_filesystem(site.path) as place:
        site.plugin("disk", DISK.format(place=place))
        first = site.run()
        (process,) = first.sources[1].stuck
        assert [name for name, left in _kept(site).items() if left] == ["disk"]
        second = site.run()
        reason = f"not run: a process of an earlier run cannot be killed ({process.pid})"
        assert second.diagnosis.unknown == (Unknown("disk", reason),)
        for run in (first, second):
            others = [one for source in run.sources for one in source.results]
            found = [one for one in others if isinstance(one, Finding) and one.source in names]
            assert found == [Finding(name, "live-repair") for name in names]
    wait_until(lambda: not is_there(process), "the end of the process")


def _kept(site: Site) -> dict[str, list[object]]:
    kept: dict[str, list[object]] = json.loads((site.directory / "stuck.json").read_text())
    return kept


@needs_freezing
def test_waiting_is_not_being_stuck(tmp_path: Path) -> None:
    """Only what was killed and is there all the same is."""
    with frozen_filesystem(tmp_path) as place:
        # Nothing else that it does can wait for a disk.
        writer = os.fork()
        if not writer:
            os.close(os.open(place / "x", os.O_WRONLY | os.O_CREAT))
            os._exit(0)
        wait_until(lambda: state(writer) == "D", "that it waits")
        assert stuck(writer) is None
        os.kill(writer, signal.SIGKILL)
        wait_until(lambda: stuck(writer), "that it is stuck")
        found = stuck(writer)
        assert found is not None
        assert is_there(found)
        subprocess.run(["fsfreeze", "--unfreeze", place], check=True)
        os.waitpid(writer, 0)
        subprocess.run(["fsfreeze", "--freeze", place], check=True)
    assert stuck(writer) is None
    assert not is_there(found)


def test_a_sleeping_process_is_not_stuck() -> None:
    pid = os.fork()
    if not pid:
        time.sleep(3600)
        os._exit(0)
    assert stuck(pid) is None
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert stuck(pid) is None
