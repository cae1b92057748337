"""The Debian packages, the wheel and the source distribution, built as a whole; with --thorough."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from asserting import some
from installed import need
from packaging_tools import PACKAGING, UNITS, run
from paths import CAPTURES, ROOT
from sources import copy_sources, sources

from ganeti_steward.core.commands.registry import built_in_commands

ROOMS = ("core", "allocators", "plugins", "diagnose")
SIMULATION = ROOT / "plugins" / "simulation"
#: Its commands.
OPTIONAL = ("demo", "simulate")
OWN = Path("usr/lib/ganeti-steward")


class Packages(NamedTuple):
    """The files of both, and trees they are unpacked in."""

    main: Path
    simulation: Path
    #: With the first only.
    node: Path
    #: With both.
    desk: Path


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    need("dpkg-deb", "dpkg")
    directory = tmp_path_factory.mktemp("packages")
    printed = run(str(PACKAGING / "build-deb"), "--output", str(directory))
    main, simulation = map(Path, printed.splitlines())
    node, desk = directory / "node", directory / "desk"
    for file, tree in ((main, node), (main, desk), (simulation, desk)):
        run("dpkg-deb", "-x", str(file), str(tree))
    return Packages(main, simulation, node, desk)


def field(file: Path, name: str) -> str:
    return run("dpkg-deb", "-f", str(file), name).strip()


def program(tree: Path, name: str, *arguments: str, status: int = 0) -> str:
    """What a program of a tree prints; the trees are usable wherever they are."""
    own = tree / OWN / "bin"
    config = tree.parent / "steward.toml"
    config.write_text('[history]\nkeep = 0\n[log]\nfile = ""\n')
    return run(
        *(str(own / "python3"), "-I", str(own / name), *arguments),
        cwd=tree.parent,
        status=status,
        GNT_STEWARD_CONFIG=str(config),
    )


def modules(tree: Path) -> Path:
    """The directory of the import package."""
    (found,) = (tree / OWN).glob("lib/python3.*/site-packages/ganeti_steward")
    return found


def test_the_debian_package(packages: Packages) -> None:
    tree, own = packages.node, packages.node / OWN
    assert field(packages.main, "Package") == "ganeti-steward"
    allocator = tree / "usr" / "lib" / "ganeti" / "iallocators" / "steward"
    assert allocator.resolve() == own / "bin" / "steward-iallocator"
    assert (tree / "usr" / "sbin" / "gnt-steward").resolve() == own / "bin" / "gnt-steward"
    assert {unit.name for unit in (tree / "usr/lib/systemd/system").iterdir()} == UNITS
    for unit in (tree / "usr/lib/systemd/system").glob("*.service"):
        assert "ExecStart=/usr/sbin/gnt-steward " in unit.read_text()
        assert "/opt/" not in unit.read_text()
    for room in ROOMS:
        for source in (ROOT / room).rglob("*.py"):
            there = modules(tree) / source.relative_to(ROOT)
            if source.is_relative_to(SIMULATION):
                assert not there.exists()
            else:
                assert there.read_bytes() == source.read_bytes()
    freeze = (tree / "usr/share/doc/ganeti-steward/libraries").read_text()
    freeze = freeze.lower().replace("_", "-")
    libraries = {line for line in freeze.splitlines() if not line.startswith("ganeti-steward")}
    pins = (PACKAGING / "libraries.txt").read_text()
    assert libraries == set(re.findall(r"^([a-z0-9-]+==\S+)", pins, re.MULTILINE))
    # It answers with its own libraries.
    answer = program(tree, "steward-iallocator", str(CAPTURES / "allocate-drbd.in.json"))
    assert answer.startswith('{"success":true')


def test_the_package_of_the_simulation_has_its_folder_only(
    packages: Packages, tmp_path: Path
) -> None:
    run("dpkg-deb", "-x", str(packages.simulation), str(tmp_path))
    files = {one for one in tmp_path.rglob("*") if one.is_file()}
    folder = modules(tmp_path) / "plugins" / "simulation"
    sources_ = {one for one in SIMULATION.rglob("*") if "__pycache__" not in one.parts}
    expected = {folder / one.relative_to(SIMULATION) for one in sources_ if one.is_file()}
    licence = tmp_path / "usr/share/doc/ganeti-steward-simulation/copyright"
    assert files == expected | {licence}
    assert all(
        one.read_bytes() == (SIMULATION / one.relative_to(folder)).read_bytes() for one in expected
    )
    version = field(packages.main, "Version")
    assert field(packages.simulation, "Package") == "ganeti-steward-simulation"
    assert field(packages.simulation, "Depends") == f"ganeti-steward (= {version})"
    for name in ("Version", "Architecture"):
        assert field(packages.simulation, name) == field(packages.main, name)


def test_its_scripts_name_its_folder(packages: Packages, tmp_path: Path) -> None:
    run("dpkg-deb", "-e", str(packages.simulation), str(tmp_path))
    folder = modules(packages.desk).relative_to(packages.desk) / "plugins" / "simulation"
    for name in ("postinst", "prerm"):
        run("sh", "-n", str(tmp_path / name))
        assert f" /{folder}" in (tmp_path / name).read_text()


def test_the_command_of_the_manual_installs_the_first_only(packages: Packages) -> None:
    directory = packages.main.parent
    assert [*directory.glob("ganeti-steward_*.deb")] == [packages.main]
    assert {*directory.glob("*.deb")} == {packages.main, packages.simulation}


def test_all_other_commands_work_without_it(packages: Packages) -> None:
    for name in some(sorted(built_in_commands())):
        if name in OPTIONAL:
            assert program(packages.node, "gnt-steward", name, status=1) == ""
        else:
            shown = program(packages.node, "gnt-steward", name, "--help")
            assert shown.startswith(f"usage: gnt-steward {name}")


def test_its_commands_work_with_it(packages: Packages) -> None:
    shown = program(packages.desk, "gnt-steward", "simulate", "--days", "2", "--nodes", "6")
    assert "availability" in shown.lower()
    assert "is empty and offline" in program(packages.desk, "gnt-steward", "demo", "--speed", "20")


def test_source_distribution_and_wheel(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    tools, source = tmp_path / "tools", tmp_path / "source"
    run(*pip, "install", "--target", str(tools), "build")
    files = sources()
    copy_sources(source)
    # The wheel is built from the source distribution.
    run(sys.executable, "-m", "build", str(source), PYTHONPATH=str(tools))
    (archive,) = (source / "dist").glob("*.tar.gz")
    (wheel,) = (source / "dist").glob("*.whl")
    with tarfile.open(archive) as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    assert {*files} <= packed
    inside = set(zipfile.ZipFile(wheel).namelist())
    for room in ROOMS:
        in_room = [name for name in files if name.startswith(f"{room}/")]
        assert in_room
        assert {f"ganeti_steward/{name}" for name in in_room} <= inside
    assert any(name.endswith("LICENSE") for name in inside)
    target = tmp_path / "installed"
    run(*pip, "install", "--no-deps", "--target", str(target), str(wheel))
    shown = run(
        sys.executable,
        "-c",
        "import ganeti_steward.core.version as v; print(v.__file__)",
        cwd=tmp_path,
        PYTHONPATH=str(target),
    )
    assert shown.startswith(str(target))
    assert run(str(target / "bin" / "gnt-steward"), "-V", PYTHONPATH=str(target)).startswith("gnt-")
