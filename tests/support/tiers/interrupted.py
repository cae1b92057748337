"""A run of tests that is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psutil
from paths import ROOT

RUN: Final = ROOT / "tests/support/tiers/run_tier.py"
TESTS: Final = "tests/support/tiers/hanging_tests.py"
#: Seconds that an interrupted run has to end in order, and to end at all.  A user waits 10 s at
#: most, but these tests may run on a machine that is busy.
TO_END: Final = 240
ENDS: Final = 300


class Interrupted:
    """Tests that hang, run as `contrib/test` runs them, with two workers."""

    def __init__(self, notes: Path, test: str) -> None:
        self._notes = notes
        # In a session of its own, so that its group is not that of these tests.
        self.process = subprocess.Popen(
            [sys.executable, RUN, "-n", "2", f"{TESTS}::{test}"],
            cwd=ROOT,
            env=os.environ | {"STEWARD_HANGING": str(notes), "STEWARD_TO_END": str(TO_END)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """If it was not interrupted, it is now."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()

    def notes(self, word: str) -> list[str]:
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [line for line in lines if line.startswith(word)]

    def wait_until_started(self, number: int) -> None:
        while len(self.notes("started")) < number:
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.05)

    def interrupt(self, whom: str) -> None:
        """Ctrl-C for all processes, or for one of them only."""
        # Orphans are also children of the run.
        children = psutil.Process(self.process.pid).children()
        pytest_itself = next(one for one in children if "pytest" in one.cmdline())
        {
            "all": lambda: os.killpg(self.process.pid, signal.SIGINT),
            "contrib/test": lambda: self.process.send_signal(signal.SIGINT),
            "the main process of pytest": lambda: pytest_itself.send_signal(signal.SIGINT),
            "a worker": lambda: pytest_itself.children()[0].send_signal(signal.SIGINT),
        }[whom]()

    def end(self) -> str:
        """Wait for its end; what it printed."""
        output, _ = self.process.communicate(timeout=ENDS)
        assert self.process.returncode != 0, output
        return output

    def left(self) -> list[str]:
        """Its processes that are still there."""
        found = []
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                if one.environ().get("STEWARD_HANGING") == str(self._notes):
                    found.append(" ".join(one.cmdline()))
        return found
