"""The parts of the Debian package; test_built_packages builds it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging_tools import PACKAGING, UNITS, run

if TYPE_CHECKING:
    from front import Front

SCRIPTS = ("postinst", "prerm", "postrm")


@pytest.mark.parametrize("name", SCRIPTS)
def test_maintainer_scripts_name_units_that_exist(name: str) -> None:
    script = PACKAGING / "debian" / name
    run("sh", "-n", str(script))
    named = set(re.findall(r"gnt-steward-[a-z]+\.(?:service|timer)", script.read_text()))
    assert named <= UNITS


def test_an_upgrade_restarts_and_a_removal_stops_every_unit_that_runs() -> None:
    running = {one for one in UNITS if one != "gnt-steward-diagnose.service"}
    for name in ("postinst", "prerm"):
        (units,) = re.findall(r'^units="(.*)"$', (PACKAGING / "debian" / name).read_text(), re.M)
        assert set(units.split()) == running


def test_the_default_configuration_is_only_comments(front: Front) -> None:
    file = PACKAGING / "debian" / "steward.toml"
    lines = file.read_text().splitlines()
    assert all(line.startswith("#") for line in lines)
    done = front("check-config", str(file))
    assert (done.status, done.out) == (0, f"{file}: OK\n")


def test_the_configuration_in_its_comments_is_usable(front: Front) -> None:
    file = PACKAGING / "debian" / "steward.toml"
    (section,) = re.findall(r"^#   \[.*(?:\n#   .*)*", file.read_text(), re.MULTILINE)
    new = front.path / "shown.toml"
    new.write_text(re.sub(r"^#   ", "", section, flags=re.MULTILINE))
    done = front("check-config", str(new))
    assert (done.status, done.out) == (0, f"{new}: OK\n")


@pytest.mark.parametrize(
    ("words", "status"), [(["--debian", "11"], 1), (["--unknown"], 2), (["--revision"], 1)]
)
def test_build_deb_refuses(words: list[str], status: int, tmp_path: Path) -> None:
    run(str(PACKAGING / "build-deb"), *words, cwd=tmp_path, status=status)
    assert list(tmp_path.iterdir()) == []
