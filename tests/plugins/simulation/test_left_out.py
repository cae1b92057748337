"""The simulation need not be installed: nothing else needs it, and its commands say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from ganeti_steward.core.commands.registry import built_in_commands

#: Loads what ``--help`` of a command does, for each command that is named.
HELP = """\
import sys
from ganeti_steward.core.commands.main import main
for name in sys.argv[1:]:
    sys.argv = ["gnt-steward", name, "--help"]
    try:
        main()
    except SystemExit as err:
        assert not err.code, name
"""

COMMAND = "import sys; from ganeti_steward.core.commands.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package, without the folder."""
    directory = tmp_path_factory.mktemp("without")
    package = directory / "ganeti_steward"
    (package / "plugins").mkdir(parents=True)
    for room in ("core", "allocators", "diagnose"):
        (package / room).symlink_to(ROOT / room)
    for path in (ROOT / "plugins").iterdir():
        if path.name not in ("simulation", "__pycache__"):
            (package / "plugins" / path.name).symlink_to(path)
    return directory


def run(directory: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", source, *arguments],
        capture_output=True,
        check=False,
        text=True,
        env={"PYTHONPATH": str(directory), "GNT_STEWARD_CONFIG": "/dev/null"},
        timeout=300,
    )


@pytest.mark.parametrize("name", ["simulate", "demo"])
def test_its_commands_name_the_package(without: Path, name: str) -> None:
    done = run(without, COMMAND, name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"gnt-steward {name}: this command is in the package ganeti-steward-simulation, "
        "which is not installed\n"
    )


def test_all_other_commands_work(without: Path) -> None:
    others = sorted(set(built_in_commands()) - {"simulate", "demo"})
    done = run(without, HELP, *others)
    assert (done.returncode, done.stderr) == (0, "")
    assert [f"usage: gnt-steward {name}" in done.stdout for name in others] == [True] * len(others)
