"""Where the demos of tests have their files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a name that is short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="demo-") as directory:
        yield Path(directory)
