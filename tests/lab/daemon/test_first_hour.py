"""The commands of the tutorial that need a cluster, typed as the page has them."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

from paths import DOCS

from ..cluster import PROGRAMS, until
from .maintained_lab import NODES, MaintainedLab

PAGE: Final = DOCS / "tutorial" / "first-hour.md"
#: What the page installs into, and what is there in the lab: no names of other domains resolve.
INSTALLED: Final = "/opt/ganeti-steward/bin/"
NAME: Final = "test1.example.com"
#: What the page names in its sentences.
TAKING_BACK: Final = (
    "gnt-cluster modify --default-iallocator hail",
    f"{INSTALLED}gnt-steward install-iallocator --remove",
)


def commands(page: Path = PAGE) -> list[str]:
    """The indented commands of the sections about a cluster, without making the environment."""
    text = page.read_text()
    cluster = text[text.index("## 4. ") : text.index("## 7. ")]
    found = re.findall(r"^    (\S.*)$", cluster, re.M)
    return [line for line in found if "python3 -m venv" not in line and "pip install" not in line]


def typed(lab: MaintainedLab, line: str) -> subprocess.CompletedProcess[str]:
    line = line.replace(INSTALLED, f"{lab.programs}/")
    if line.startswith("gnt-instance add"):
        line = line.replace(NAME, f"--no-name-check --no-ip-check {NAME}")
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


def test_each_command_of_the_page(maintained: MaintainedLab) -> None:
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
        done = typed(maintained, line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        printed[line.removeprefix(INSTALLED)] = done.stdout
    assert config.read_text() == before
    page = PAGE.read_text()
    assert all(line.removeprefix(INSTALLED) in page for line in TAKING_BACK)
    assert len(printed) >= 12
    assert printed["gnt-steward maintd plan"].startswith("nothing is done\n")
    assert NAME in printed["gnt-steward explain --last"]
    assert NAME in printed["gnt-steward replay --list"]
    assert "drbd" in printed["gnt-steward capacity --disk-template drbd"]
