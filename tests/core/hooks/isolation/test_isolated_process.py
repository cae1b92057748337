"""The child that runs site plugins: when there is one, what it holds, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from programs import is_running, wait_until
from rogue import plugin

if TYPE_CHECKING:
    from sites import Capture, Site


def test_a_thread_that_was_left_behind(site: Site, capture: Capture) -> None:
    """It ends the process while ``balanced`` is at work; the plugin is named."""
    body = """
        import threading
        threading.Timer(0, os._exit, (7,)).start()
        return []
        """
    plugin(site, "steward_constrain", body)
    site.configure("rogue")
    answer = site.run(capture("allocate-drbd"))
    assert answer["info"] == "Request failed: plugin rogue: its process ended with exit status 7"


def test_the_limit_of_the_allocator_ends_first(site: Site, capture: Capture) -> None:
    plugin(site, "steward_constrain", "import ctypes; ctypes.PyDLL(None).sleep(3600)")
    site.configure("rogue", limit=60, more="[allocators]\ntime-limit = 1\n")
    info = site.run(capture("allocate-drbd"))["info"]
    assert info == (
        "Request failed: plugin rogue: was running when the 1 s of balanced were over and was "
        "stopped"
    )


def test_nothing_is_forked_for_built_in_plugins(site: Site, capture: Capture) -> None:
    trace = "import os, sys\nos.fork = lambda: sys.exit('forked')\n"
    (site.modules / "sitecustomize.py").write_text(trace)
    site.configure("balanced", "packed")
    assert site.run(capture("allocate-drbd"))["success"] is True
    plugin(site, "steward_constrain", "return []")
    site.configure("rogue")
    with pytest.raises(AssertionError, match="forked"):
        site.run(capture("allocate-drbd"))


def test_processes_left_behind_do_not_keep_the_caller(site: Site, capture: Capture) -> None:
    """Ganeti reads until the last copy of the descriptors is closed."""
    note = site.path / "pid"
    body = f"""
        import subprocess
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        open({str(note)!r}, "w").write(str(process.pid))
        return []
        """
    plugin(site, "steward_constrain", body)
    site.configure("rogue")
    started = time.monotonic()
    assert site.run(capture("allocate-drbd"))["success"] is True
    assert time.monotonic() - started < 30
    assert not is_running(int(note.read_text())), "it was ended with the plugin's process"


def test_what_a_plugin_prints_is_cut(site: Site, capture: Capture) -> None:
    plugin(site, "steward_constrain", "print('x' * 10**6)\nreturn []")
    site.configure("rogue")
    output, errors = _started(site, capture).communicate(timeout=300)
    assert json.loads(output)["success"] is True
    assert errors == b"x" * 2**16


def test_of_an_ended_allocator_nothing_is_left(site: Site, capture: Capture) -> None:
    """SIGTERM, and SIGKILL: the child ends with it, and whatever that has started."""
    note = site.path / "pid"
    body = f"""
        import subprocess
        process = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        with open({str(note)!r}, "w") as file:
            file.write(f"{{os.getpid()}} {{process.pid}} .")
        while True: pass
        """
    plugin(site, "steward_constrain", body)
    site.configure("rogue", limit=600)
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = _started(site, capture)
        wait_until(lambda: note.exists() and note.read_text().endswith("."), "the plugin's start")
        child, grandchild = map(int, note.read_text().split()[:2])
        process.send_signal(number)
        process.communicate(timeout=300)
        assert process.returncode == -number
        wait_until(lambda pid=child: not is_running(pid), "the end of the child")
        wait_until(lambda pid=grandchild: not is_running(pid), "the end of its program")
        note.unlink()


def _started(site: Site, capture: Capture) -> subprocess.Popen[bytes]:
    file = site.path / "message.json"
    file.write_text(json.dumps(capture("allocate-drbd")))
    environment = {
        "GNT_STEWARD_CONFIG": str(site.config_file),
        "PYTHONPATH": str(site.modules),
        "PATH": os.environ["PATH"],
    }
    command = [Path(sys.executable).parent / "steward-iallocator", file]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment, cwd="/")
