"""Where the demos of tests have their files; which tests take long."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Each plays several demos.
collect_ignore = [] if os.environ.get("STEWARD_THOROUGH") else ["test_demo_endings.py"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a name that is short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="demo-") as directory:
        yield Path(directory)
