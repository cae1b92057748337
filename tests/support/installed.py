"""Programs of Debian packages that tests compare with."""

from __future__ import annotations

import shutil

import pytest


def need(program: str, package: str = "ganeti") -> str:
    """The path of a program; skips the test where it is not installed (a failure in CI)."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed (Debian package {package})")
    return path
