"""Tests that end only when they are interrupted (`interrupted.py`)."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

_HANG = [sys.executable, "-c", "import time; time.sleep(3600)"]


def _note(text: str) -> None:
    with Path(os.environ["STEWARD_HANGING"]).open("a") as file:
        file.write(f"{text}\n")


@pytest.mark.parametrize("number", [1, 2])
def test_hangs(number: int) -> None:
    """With a child, a child of its own session, and one that has lost its parent."""
    with (
        subprocess.Popen(_HANG),
        subprocess.Popen(_HANG, start_new_session=True),
        subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.Popen({_HANG})"]),
    ):
        _note(f"started {number}")
        try:
            time.sleep(3600)
        finally:
            _note(f"cleaned up {number}")


def test_hangs_in_a_lab() -> None:
    lab = importlib.import_module("lab.drbd_lab").DrbdLab("hanging", nodes=1)
    lab.make()
    _note(f"started {lab.directory}")
    time.sleep(3600)
