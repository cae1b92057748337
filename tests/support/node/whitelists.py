"""Directories in which only root can change anything, as whitelists have to lie in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

#: For tests that make root's files and give files away.
needs_root: Final = pytest.mark.skipif(os.geteuid() != 0, reason="the files have to be root's")


@contextmanager
def safe_directory() -> Iterator[Path]:
    """A directory of root's, not below ``/tmp``, where everybody may make things."""
    path = Path(tempfile.mkdtemp(prefix="gnt-steward-test.", dir="/var/lib"))
    try:
        path.chmod(0o755)
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def whitelist() -> Iterator[Path]:
    """An empty whitelist, in a directory of its own."""
    with safe_directory() as parent:
        path = parent / "commands"
        path.mkdir()
        path.chmod(0o755)
        yield path
