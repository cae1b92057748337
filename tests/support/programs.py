"""Small real programs that do to their caller what programs do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent

#: Seconds a test waits for something that happens soon.
TIME_LIMIT = 300


def program(directory: Path, name: str, source: str, *, shell: str = "/bin/sh") -> str:
    """Write an executable script; its path.  ``NOTES`` in it is a file beside it."""
    file = directory / name
    text = dedent(source).replace("NOTES", str(directory / f"{name}.notes"))
    file.write_text(f"#!{shell}\n{text}")
    file.chmod(0o755)
    return str(file)


def notes(path: str) -> str:
    """What a script has written into its notes so far."""
    file = Path(f"{path}.notes")
    return file.read_text() if file.exists() else ""


def is_running(pid: int) -> bool:
    """Whether a process exists and is more than an entry that was not reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_until(happened: object, what: str) -> None:
    """Wait for a function to be true; fails the test when it never is."""
    assert callable(happened)
    last = time.monotonic() + TIME_LIMIT
    while not happened():
        assert time.monotonic() < last, f"{what} never happened"
        time.sleep(0.02)


@contextmanager
def ended_at_last(path: str) -> Iterator[None]:
    """Whatever comes, the processes a script has noted (one id per line) are ended."""
    try:
        yield
    finally:
        for line in notes(path).split():
            with suppress(ProcessLookupError):
                os.kill(int(line), signal.SIGKILL)


#: Ignores the request to end, and so does its child, which holds the pipes open.
HANGING = """
    trap '' TERM
    sleep 3600 &
    echo $$ > NOTES
    echo $! >> NOTES
    while :; do sleep 3600; done
"""
