"""The commands of the tutorial that need a cluster, typed as the page has them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from paths import DOCS
from sources import copy_sources

from ..cluster import PROGRAMS, until
from ..drbd_lab import NODES
from .maintained_lab import MaintainedLab

PAGE: Final = DOCS / "tutorial" / "first-hour.md"
INSTALLED: Final = "/opt/ganeti-steward/bin/"
#: Needs the package registries, which a node of the lab does not reach.
INSTALLING: Final = ("python3 -m venv ", f"{INSTALLED}pip install ")
NAME: Final = "test1.example.com"
#: What the page names in its sentences.
TAKING_BACK: Final = (
    "gnt-cluster modify --default-iallocator hail",
    f"{INSTALLED}gnt-steward install-iallocator --remove",
)


def commands(page: Path = PAGE) -> list[str]:
    """The indented commands of the sections about a cluster."""
    text = page.read_text()
    return re.findall(r"^    (\S.*)$", text[text.index("## 4. ") :], re.M)


@pytest.fixture
def opt(maintained: MaintainedLab) -> Iterator[Path]:
    """/opt of the master; nothing is installed there or linked yet."""
    folder = maintained.directory / "opt"
    folder.mkdir()
    maintained.on(NODES[0], "mount", "--bind", str(folder), "/opt")
    link = maintained.iallocators / "steward"
    program = link.readlink()
    link.unlink()
    try:
        yield folder
    finally:
        link.unlink(missing_ok=True)
        link.symlink_to(program)
        maintained.on(NODES[0], "umount", "/opt")
        shutil.rmtree(folder)


def installed(line: str, opt: Path, clone: Path) -> subprocess.CompletedProcess[str]:
    """Typed in a clone of the project on a machine whose /opt is the master's."""
    script = f'mount --bind "$0" /opt && {line}'
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(opt)],
        cwd=clone,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=False,
    )


def typed(lab: MaintainedLab, line: str) -> subprocess.CompletedProcess[str]:
    # No one answers questions.
    if line.startswith("gnt-instance remove"):
        line = line.replace("remove", "remove -f")
    return subprocess.run(
        [str(PROGRAMS / "lab-run"), "-n", NODES[0], "sh", "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        env=lab.environment,
        check=False,
    )


def logged(lab: MaintainedLab, line: str) -> bool:
    return typed(lab, line).returncode == 0


def test_each_command_of_the_page(maintained: MaintainedLab, opt: Path, tmp_path: Path) -> None:
    clone = copy_sources(tmp_path / "clone")
    printed: dict[str, str] = {}
    config = maintained.etc(NODES[0]) / "steward.toml"
    before = config.read_text()
    (sections,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    config.write_text(before + sections)
    for line in (*commands(), *TAKING_BACK):
        if line.startswith("grep "):
            # The comparison is made after the answer, by a process of its own.
            until(partial(logged, maintained, line))
            config.write_text(before)
            continue
        if line.startswith(INSTALLING):
            done = installed(line, opt, clone)
        else:
            done = typed(maintained, line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        printed[line.removeprefix(INSTALLED)] = done.stdout
    assert config.read_text() == before
    page = PAGE.read_text()
    assert all(line.removeprefix(INSTALLED) in page for line in TAKING_BACK)
    assert len(printed) >= 14
    assert f"-> {INSTALLED}steward-iallocator" in printed["gnt-steward install-iallocator"]
    assert printed["gnt-steward maintd plan"].startswith("nothing is done\n")
    assert NAME in printed["gnt-steward explain --last"]
    assert NAME in printed["gnt-steward replay --list"]
    assert "drbd" in printed["gnt-steward capacity --disk-template drbd"]
