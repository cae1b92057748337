"""Types and lint of the whole project, with the project's own settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ganeti_steward.core

ROOT = Path(__file__).parent.parent
ROOMS = ("core", "allocators", "plugins", "diagnose")


def _run(*command: str, cwd: Path = ROOT, mypy_path: str = "") -> None:
    environment = {"PATH": "/usr/bin:/bin", "MYPYPATH": mypy_path}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_code_is_typed(tmp_path: Path) -> None:
    # The checkout's folders under their import names, however the package is installed.
    package = tmp_path / "ganeti_steward"
    package.mkdir()
    for room in ROOMS:
        (package / room).symlink_to(ROOT / room)
    packages = [f"-pganeti_steward.{room}" for room in ROOMS]
    cache = f"--cache-dir={tmp_path}/cache"
    config = f"--config-file={ROOT}/pyproject.toml"
    _run("mypy", "--strict", cache, config, *packages, cwd=tmp_path, mypy_path=str(tmp_path))


def test_the_code_is_lint_free() -> None:
    _run("ruff", "check", "--no-cache", ".")


def test_the_code_is_formatted() -> None:
    _run("ruff", "format", "--no-cache", "--check", *ROOMS, "tests")


def test_the_tests_run_on_this_checkout() -> None:
    """An older installation must not pass for the checkout."""
    installed = Path(ganeti_steward.core.__file__).parent
    for file in (ROOT / "core").rglob("*.py"):
        there = installed / file.relative_to(ROOT / "core")
        assert there.read_bytes() == file.read_bytes(), f"{file} is not what is installed"
