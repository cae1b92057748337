"""The parts of the Debian package; test_built_packages builds it."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asserting import some
from packaging_tools import PACKAGING, UNITS, run
from paths import ROOT

from ganeti_steward.core.version import VERSION

if TYPE_CHECKING:
    from front import Front

DEBIAN = ROOT / "debian"
#: What makes the tree one for Debian 12.
OLDER = PACKAGING / "debian12"
SCRIPTS = ("postinst", "prerm", "postrm")


def text(name: str) -> str:
    return (DEBIAN / name).read_text()


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_maintainer_scripts_name_units_that_exist(name: str) -> None:
    run("sh", "-n", str(DEBIAN / f"ganeti-steward.{name}"))
    named = set(
        re.findall(r"gnt-steward-[a-z]+\.(?:service|timer)", text(f"ganeti-steward.{name}"))
    )
    assert named <= UNITS


def test_an_upgrade_restarts_every_unit_that_runs() -> None:
    (command,) = re.findall(r"try-restart ((?:.*\\\n)*.*)", text("ganeti-steward.postinst"))
    restarted = set(re.findall(r"\S+\.(?:service|timer)", command))
    assert restarted == {one for one in UNITS if one != "gnt-steward-diagnose.service"}


def test_a_removal_stops_every_unit() -> None:
    (command,) = re.findall(
        r"deb-systemd-invoke stop ((?:.*\\\n)*.*)", text("ganeti-steward.prerm")
    )
    assert set(re.findall(r"\S+\.(?:service|timer)", command)) == UNITS


def test_every_unit_is_packaged() -> None:
    (names,) = re.findall(r"^units = (.*)$", text("rules"), re.MULTILINE)
    packaged = {f"gnt-steward-{name}" for name in names.split()}
    assert packaged == {name.partition(".")[0] for name in UNITS}


def test_the_package_has_the_version_of_the_program() -> None:
    (version,) = re.findall(r"^ganeti-steward \((.*)-\d+\)", text("changelog"))
    assert version == project()["version"] == VERSION


def test_every_dependency_is_one_of_the_package() -> None:
    (depends,) = re.findall(r"\nDepends:\n(.*?)\nRecommends", text("control"), re.DOTALL)
    for one in some(project()["dependencies"]):
        (name,) = re.findall(r"^[a-z0-9-]+", one)
        for part in (depends, text("control").partition("\n\n")[0]):
            assert re.search(rf"^ python3-{name}[ ,]", part, re.MULTILINE), name


def test_programs_find_modules_of_the_package_of_debian_and_of_the_site_only() -> None:
    launcher = text("launcher")
    assert launcher.startswith("#!/usr/bin/python3 -IS\n")
    assert "--no-shebang-rewrite" in text("rules")
    assert set(re.findall(r'"(/[^"]*)"', launcher)) == {
        "/usr/share/ganeti-steward",
        "/usr/lib/ganeti-steward",
        "/usr/lib/python3/dist-packages",
        "/usr/local/lib/ganeti-steward",
    }


def test_every_warning_that_is_overridden_has_its_reason() -> None:
    for file in some(sorted(DEBIAN.glob("*.lintian-overrides"))):
        lines = file.read_text().splitlines()
        before = [above for above, line in pairwise(lines) if not line.startswith("#")]
        assert before
        assert all(line.startswith("# ") for line in before)


@pytest.mark.parametrize(
    ("patch", "file"), [("packaging", "debian/control"), ("setuptools", "pyproject.toml")]
)
def test_patches_for_debian_12_apply(patch: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes((ROOT / file).read_bytes())
    run("patch", "--fuzz=0", "-p1", "-d", str(tmp_path), "-i", str(OLDER / f"{patch}.patch"))
    changed = (tmp_path / file).read_text()
    assert changed != (ROOT / file).read_text()
    if patch == "packaging":
        for name in pinned():
            assert f"python3-{name}" not in changed
    else:
        tomllib.loads(changed)


def test_licences_of_what_the_package_for_debian_12_brings() -> None:
    licences = (OLDER / "copyright").read_text()
    for name in some(sorted(pinned())):
        assert f"Files: debian/vendor/{name}-*\n" in licences
    used = re.findall(r"\nFiles:.*\nCopyright:.*\nLicense: (.*)", licences)
    for licence in some({one for line in used for one in re.findall(r"[A-Z][A-Za-z0-9.-]+", line)}):
        assert re.search(rf"\nLicense: {re.escape(licence)}\n ", licences), licence


def test_the_default_configuration_is_only_comments(front: Front) -> None:
    file = DEBIAN / "steward.toml"
    lines = file.read_text().splitlines()
    assert all(line.startswith("#") for line in lines)
    done = front("check-config", str(file))
    assert (done.status, done.out) == (0, f"{file}: OK\n")


def test_the_configuration_in_its_comments_is_usable(front: Front) -> None:
    file = DEBIAN / "steward.toml"
    (section,) = re.findall(r"^#   \[.*(?:\n#   .*)*", file.read_text(), re.MULTILINE)
    new = front.path / "shown.toml"
    new.write_text(re.sub(r"^#   ", "", section, flags=re.MULTILINE))
    done = front("check-config", str(new))
    assert (done.status, done.out) == (0, f"{new}: OK\n")


def pinned() -> dict[str, tuple[str, list[str]]]:
    """Library -> its version in the package, and the hashes of its files."""
    pins = (OLDER / "libraries.txt").read_text().replace("\\\n", "")
    lines = [line.split() for line in pins.splitlines() if not line.startswith("#")]
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
    assert "--require-hashes" in (OLDER / "prepare").read_text()


def test_every_pinned_library_is_within_its_bounds() -> None:
    bounds = [one for one in project()["dependencies"] if one.partition(">")[0] in pinned()]
    assert len(bounds) == len(pinned())
    for bound in bounds:
        found = re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)(?:,<([0-9.]+))?", bound)
        assert found is not None, bound
        version, _ = pinned()[found[1]]
        assert numbers(found[2]) <= numbers(version)
        assert not found[3] or numbers(version) < numbers(found[3])


def test_pinned_libraries_need_no_others() -> None:
    for name in some(sorted(pinned())):
        needed = importlib.metadata.requires(name) or ()
        assert [one for one in needed if "extra ==" not in one] == []


#: Library -> the oldest version without a fault that concerns a client or server of ours.
SAFE = {"jinja2": "3.1.6", "orjson": "3.11.6", "requests": "2.33", "urllib3": "2.8"}


@pytest.mark.parametrize("name", SAFE)
def test_no_library_with_a_known_fault_is_enough(name: str) -> None:
    bounds = " ".join(project()["dependencies"])
    (least,) = re.findall(rf"\b{name}>=([0-9.]+)", bounds)
    assert numbers(least) >= numbers(SAFE[name])


@pytest.mark.parametrize(
    ("words", "status"), [(["--debian", "12"], 2), (["--unknown"], 2), (["--revision"], 1)]
)
def test_build_deb_refuses(words: list[str], status: int, tmp_path: Path) -> None:
    run(str(PACKAGING / "build-deb"), *words, cwd=tmp_path, status=status)
    assert list(tmp_path.iterdir()) == []
