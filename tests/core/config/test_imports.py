"""What reading the configuration imports: an allocator's start pays for each module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from ganeti_steward.core.config import load
load.DEFAULT_PATH = sys.argv[1]
load.load_config(sys.argv[1])
names = [name.removeprefix("ganeti_steward.") for name in sys.modules]
print(*[name for name in names if name.startswith(("core.config.", "diagnose.", "plugins."))])
"""


def imported(path: Path) -> set[str]:
    command = [sys.executable, "-c", SCRIPT, str(path)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


START = {"core.config.load", "core.config.values"}
READ = START | {"core.config.declaration", "core.config.kinds", "core.config.parse"}


def test_no_file(tmp_path: Path) -> None:
    assert imported(tmp_path / "missing.toml") == START


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("[history]\nkeep = 5\n[plugin.x]\na = 1\n[collector.smart]\nwear-above = 90", set()),
        (
            "[aggregates]\ncombine = 'placement'",
            {"plugins.aggregates", "plugins.aggregates.config"},
        ),
        ("[shadow]\nallocate = ['packed']", {"plugins.shadow", "plugins.shadow.config"}),
    ],
)
def test_only_declarations_of_sections_in_the_file(
    tmp_path: Path, text: str, more: set[str]
) -> None:
    file = tmp_path / "steward.toml"
    file.write_text(text)
    assert imported(file) == READ | more
