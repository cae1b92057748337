"""The parts of the Debian package; test_built_packages builds it."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asserting import some
from packaging_tools import PACKAGING, UNITS, run
from paths import ROOT

if TYPE_CHECKING:
    from front import Front

SCRIPTS = ("postinst", "prerm", "postrm", "simulation.postinst", "simulation.prerm")


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


def pinned() -> dict[str, tuple[str, list[str]]]:
    """Library -> its version in the package, and the hashes of its files."""
    text = (PACKAGING / "libraries.txt").read_text().replace("\\\n", "")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {
        name: (version, [one.removeprefix("--hash=sha256:") for one in hashes])
        for first, *hashes in lines
        for name, _, version in [first.partition("==")]
    }


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_the_libraries_of_the_package_are_pinned_by_hash() -> None:
    for name, (version, hashes) in pinned().items():
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert numbers(version)
        assert hashes
        assert all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes)
    assert "--require-hashes" in (PACKAGING / "build-deb").read_text()


def test_every_library_is_pinned_within_its_bounds() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        bounds = tomllib.load(file)["project"]["dependencies"]
    for bound in some(bounds):
        found = re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)(?:,<([0-9.]+))?", bound)
        assert found is not None, bound
        version, _ = pinned()[found[1]]
        assert numbers(found[2]) <= numbers(version)
        assert not found[3] or numbers(version) < numbers(found[3])


def test_what_pinned_libraries_need_is_pinned() -> None:
    """Nothing is installed beside them."""
    pairs = [(name, one) for name in pinned() for one in importlib.metadata.requires(name) or ()]
    for name, needed in some(pair for pair in pairs if "extra ==" not in pair[1]):
        (other,) = re.findall(r"^[A-Za-z0-9_.-]+", needed)
        assert re.sub("[_.]", "-", other).lower() in pinned(), f"{name} needs {needed}"


#: Library -> the oldest version without a fault that concerns a client or server of ours.
SAFE = {"jinja2": "3.1.6", "orjson": "3.11.6", "requests": "2.33", "urllib3": "2.8"}


@pytest.mark.parametrize("name", SAFE)
def test_no_library_with_a_known_fault_is_enough(name: str) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    (least,) = re.findall(rf'"{name}>=([0-9.]+)', text)
    assert numbers(least) >= numbers(SAFE[name])


@pytest.mark.parametrize(
    ("words", "status"), [(["--debian", "11"], 1), (["--unknown"], 2), (["--revision"], 1)]
)
def test_build_deb_refuses(words: list[str], status: int, tmp_path: Path) -> None:
    run(str(PACKAGING / "build-deb"), *words, cwd=tmp_path, status=status)
    assert list(tmp_path.iterdir()) == []
