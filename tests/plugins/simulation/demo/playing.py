"""``gnt-steward demo`` as a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from programs import wait_until
from workspace import PROGRAMS


@contextmanager
def playing(
    path: Path, *options: str, prefix: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A fast demo whose temporary files lie in ``path``; ended when the test is over."""
    with subprocess.Popen(
        [*prefix, PROGRAMS / "gnt-steward", "demo", "--speed", "20", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(path), "COLUMNS": "1000"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], part: str) -> str:
    """The line that holds some words."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if part in line:
            return line
    assert process.stderr is not None
    raise AssertionError("".join([*lines, process.stderr.read()]))


def below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Everything it has started."""
    return psutil.Process(process.pid).children(recursive=True)


def wait_for_the_end(processes: Sequence[psutil.Process]) -> None:
    """Wait until none of them runs."""
    wait_until(lambda: not any(_runs(one) for one in processes), "that all processes have ended")


def _runs(one: psutil.Process) -> bool:
    try:
        return one.is_running() and one.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
