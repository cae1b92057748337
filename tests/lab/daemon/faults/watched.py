"""Where instances really run, watched from outside, without Ganeti."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ...cluster import PROGRAMS, until


class Seen(NamedTuple):
    """One line of ``lab-watch``."""

    at: float
    """s since the epoch"""
    running: dict[str, list[str]]
    """instance -> the nodes on which it ran"""


class Runs(NamedTuple):
    """What the watcher has seen until now."""

    file: Path

    @property
    def double(self) -> list[Seen]:
        """Each look at which instances ran on several nodes, with those instances only."""
        return [Seen(one["at"], one["double"]) for one in self._lines() if "double" in one]

    @property
    def changes(self) -> list[Seen]:
        """Where everything ran, after each change."""
        return [Seen(one["at"], one["running"]) for one in self._lines() if "running" in one]

    def nodes(self, instance: str) -> set[str]:
        """All nodes on which an instance ever ran."""
        return {node for one in self.changes for node in one.running.get(instance, ())}

    def absences(self, instance: str) -> list[tuple[float, float]]:
        """When it ran nowhere since it was first seen: begin and end, s since the epoch."""
        found, since, seen = list[tuple[float, float]](), 0.0, False
        for one in self.changes:
            runs = bool(one.running.get(instance))
            if seen and not runs and not since:
                since = one.at
            elif runs and since:
                found.append((since, one.at))
                since = 0.0
            seen = seen or runs
        return [*found, (since, float("inf"))] if since else found

    def now(self, instance: str) -> list[str]:
        """The nodes on which an instance ran at the last look."""
        return self.changes[-1].running.get(instance, [])

    def forget(self) -> None:
        """What was seen until now counts no more."""
        os.truncate(self.file, 0)

    def _lines(self) -> list[dict[str, Any]]:
        whole = self.file.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]


@contextmanager
def watched(directory: Path) -> Iterator[Runs]:
    """A process that looks at all nodes of a lab 20 times a second, until the end of the block."""
    number = len([*directory.glob("watched-*.jsonl")])
    runs = Runs(directory / f"watched-{number}.jsonl")
    with (
        runs.file.open("ab") as out,
        subprocess.Popen(
            [sys.executable, str(PROGRAMS / "lab-watch")],
            stdin=subprocess.DEVNULL,
            stdout=out,
            env={**os.environ, "LAB_DIR": str(directory)},
        ) as watcher,
    ):
        until(lambda: bool(runs.changes), every=0.05)
        try:
            yield runs
        finally:
            watcher.terminate()
    # It looked until the end, and not only at the beginning.
    assert watcher.returncode == 0, f"the watcher ended with {watcher.returncode}"
    assert "looks" in runs.file.read_text().splitlines()[-1]
