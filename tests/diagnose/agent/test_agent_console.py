"""What the agent reports where its user is: on its terminal, and on standard error."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from agents import PROGRAM, configure
from programs import TIME_LIMIT, wait_until
from repair_requests import KEY


class Printed:
    """What is read from a descriptor that does not block."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self.text = ""

    def holds(self, *parts: str) -> bool:
        """Whether all of these were printed so far."""
        # Perhaps nothing is there at the moment, or the other end of the terminal is closed.
        with suppress(OSError):
            self.text += os.read(self._descriptor, 65536).decode()
        return all(part in self.text for part in parts)


@contextmanager
def agent(path: Path, *, terminal: bool) -> Iterator[Printed]:
    """The agent as a process, and its standard error."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    (path / "diagnose").mkdir(mode=0o700, exist_ok=True)
    process = subprocess.Popen(
        [PROGRAM, "agent", "--bind", "127.0.0.1", "--port", "0", "--no-mlock"],
        env={"GNT_STEWARD_CONFIG": str(path / "steward.toml"), "PATH": os.environ["PATH"]},
        stderr=writing,
    )
    os.close(writing)
    try:
        yield Printed(reading)
    finally:
        process.terminate()
        process.wait(TIME_LIMIT)
        os.close(reading)


def test_on_a_terminal(tmp_path: Path) -> None:
    """Its log lines, which go to the file as well."""
    configure(tmp_path)
    (tmp_path / "hmac.key").write_bytes(KEY)
    with agent(tmp_path, terminal=True) as printed:
        wait_until(lambda: printed.holds(" INFO agent begins address=127.0.0.1 port="), "a line")
    assert " INFO agent begins address=127.0.0.1 port=" in (tmp_path / "steward.log").read_text()
    assert "no report is signed" not in printed.text


def test_without_a_terminal(tmp_path: Path) -> None:
    """Nothing, when nothing is wrong."""
    configure(tmp_path)
    (tmp_path / "hmac.key").write_bytes(KEY)
    log = tmp_path / "steward.log"
    with agent(tmp_path, terminal=False) as printed:
        wait_until(lambda: log.exists() and "agent begins" in log.read_text(), "the log")
        printed.holds()
    assert printed.text == ""


@pytest.mark.parametrize("terminal", [False, True])
def test_what_it_cannot_use(tmp_path: Path, terminal: bool) -> None:
    """Each once: the log, and the key."""
    file = configure(tmp_path, "repair = true")
    file.write_text(file.read_text().replace("/steward.log", "/missing/steward.log"))
    fault = (
        "no report is signed and no repair command is run as long as there is no key: there is no "
        f"key {tmp_path}/hmac.key"
    )
    log = f"The log {tmp_path}/missing/steward.log cannot be used: No such file or directory"
    with agent(tmp_path, terminal=terminal) as printed:
        wait_until(lambda: printed.holds(fault, log), "both sentences")
    assert (printed.text.count(fault), printed.text.count(log)) == (1, 1)


def test_a_log_of_another_user(tmp_path: Path) -> None:
    configure(tmp_path)
    (tmp_path / "hmac.key").write_bytes(KEY)
    (tmp_path / "steward.log").symlink_to("/etc/passwd")
    with agent(tmp_path, terminal=False) as printed:
        text = "steward.log cannot be used: it is a symbolic link, which is not followed"
        wait_until(lambda: printed.holds(text), "a sentence")
