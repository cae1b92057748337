"""The pages and the unit of the maintenance daemon say what the program does."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from worlds import node, world

from ganeti_steward.core.config.parse import parse_config
from ganeti_steward.plugins.maintenance.cli import incident, maintd
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.recording import MomentLines
from ganeti_steward.plugins.maintenance.daemon.replay import read_moments
from ganeti_steward.plugins.maintenance.engine.decision import Inputs

ROOT: Final = Path(__file__).parents[2]
COMMANDS: Final = ROOT / "docs" / "reference" / "commands"
PAGES: Final = [
    *(COMMANDS / f"{name}.md" for name in ("incident", "maintd")),
    ROOT / "docs" / "how-to" / "repair-nodes.md",
    ROOT / "docs" / "explanation" / "incidents.md",
]
SYSTEMD: Final = ROOT / "contrib" / "systemd"
UNIT: Final = (SYSTEMD / "gnt-steward-maintd.service").read_text()


@pytest.mark.parametrize("name", ["maintd", "exporter"])
def test_the_unit(tmp_path: Path, name: str) -> None:
    """systemd understands it, with the program where it is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    own = str(Path(sys.executable).parent / "gnt-steward")
    text = (SYSTEMD / f"gnt-steward-{name}.service").read_text()
    unit = tmp_path / f"gnt-steward-{name}.service"
    unit.write_text(text.replace("/opt/ganeti-steward/bin/gnt-steward", own))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    about_us = [line for line in done.stderr.splitlines() if "gnt-steward" in line]
    assert (done.returncode, about_us) == (0, [])


def test_the_unit_allows_what_is_written() -> None:
    setting = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
    places = [
        *setting["ReadWritePaths"].replace("-/", "/").split(),
        f"/var/lib/{setting['StateDirectory']}",
        f"/run/{setting['RuntimeDirectory']}",
    ]
    assert "/run" not in places
    # Which calls are under way outlives a restart.
    assert setting["RuntimeDirectoryPreserve"] == "yes"
    written = (Maintd().lock_file, Maintd().audit_file, "/var/log/ganeti/steward.log")
    assert all(any(path.startswith(f"{place}/") for place in places) for path in written)


def test_the_configuration_of_the_how_to() -> None:
    text = PAGES[2].read_text()
    found = re.search(r"^ +\[maintd\]\n(?: +.*\n)+", text, re.MULTILINE)
    assert found is not None
    lines = "\n".join(line.strip() for line in found[0].splitlines())
    settings = parse_config("steward.toml", lines.encode()).section(Maintd)
    assert settings.mode == "act"
    assert len(settings.windows) == 3


def test_the_line_of_a_recording() -> None:
    first = MomentLines().line(Inputs(world([node("n1")])), Maintd()).decode()
    (example,) = re.findall(r"`(\{\"world\".*?\})`", (COMMANDS / "maintd.md").read_text())
    _, second = read_moments([first, example])
    assert second.continued
    assert second.inputs.world.now == 1767787800000000000


@pytest.mark.parametrize(("name", "module"), [("incident", incident), ("maintd", maintd)])
def test_every_sub_command_and_option_is_described(name: str, module: object) -> None:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)  # type: ignore[attr-defined]
    page = (COMMANDS / f"{name}.md").read_text()
    (commands,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    for word in commands.choices:
        assert f"    gnt-steward {name} {word}" in page
    for action in parser._actions:
        assert action.dest in ("help", "what") or action.option_strings[0] in page
