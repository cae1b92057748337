"""The console blocks of the tutorial and of the README: each command prints what is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from paths import ROOT
from sources import copy_sources

PAGES: Final = (ROOT / "README.md", ROOT / "docs" / "tutorial" / "first-hour.md")
PROGRAMS: Final = Path(sys.executable).parent


def blocks() -> list[tuple[str, str]]:
    """Command and shown output of each block, the prompt removed."""
    return [
        (command, shown)
        for page in PAGES
        for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.DOTALL | re.M)
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
    ]


def pattern(shown: str) -> str:
    """``...`` stands for anything, at the end of a line for the rest of it, alone for lines."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"[ ]*\n"
        for line in shown.splitlines()
    ]
    return "".join(lines) + r"\Z"


def test_there_are_blocks() -> None:
    assert len(blocks()) >= 3


@pytest.mark.parametrize(("command", "shown"), blocks())
def test_block(command: str, shown: str, tmp_path: Path) -> None:
    config = tmp_path / "steward.toml"
    config.write_text("[history]\nkeep = 0\n[log]\nfile = ''\n")
    done = subprocess.run(
        command.split(),
        cwd=ROOT,
        env={"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "GNT_STEWARD_CONFIG": str(config)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(pattern(shown), done.stdout), done.stdout


def test_the_first_command_in_a_clean_copy(tmp_path: Path) -> None:
    """It begins with what the tutorial types first.  The demo is played faster."""
    readme, tutorial = (page.read_text() for page in PAGES)
    (command,) = re.findall(r"^    (contrib/setup && .* demo)$", readme, re.M)
    assert "\n    contrib/setup\n" in tutorial
    done = subprocess.run(
        f"{command} --speed 20",
        shell=True,
        cwd=copy_sources(tmp_path / "clone"),
        env={**os.environ, "GNT_STEWARD_CONFIG": os.devnull},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "node0001 is empty and offline" in done.stdout
    assert "setup: ready: .venv/bin/gnt-steward" in done.stderr
