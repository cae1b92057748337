"""The Debian packages, the wheel and the source distribution, built as a whole; with --thorough."""

from __future__ import annotations

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
OWN = Path("usr/share/ganeti-steward")
#: Directories that programs are started with, which have to be below a tree here.
OF_THE_PACKAGE = ("/usr/share/ganeti-steward", "/usr/lib/ganeti-steward")


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
    directory = tmp_path_factory.mktemp("packages")
    main, simulation = build(directory)
    node, desk = directory / "node", directory / "desk"
    for file, tree in ((main, node), (main, desk), (simulation, desk)):
        run("dpkg-deb", "-x", str(file), str(tree))
    return Packages(main, simulation, node, desk)


def build(directory: Path) -> tuple[Path, Path]:
    """Both packages, in a directory."""
    need("dpkg-buildpackage", "dpkg-dev")
    printed = run(str(PACKAGING / "build-deb"), "--output", str(directory))
    main, simulation = map(Path, printed.splitlines())
    return main, simulation


def field(file: Path, name: str) -> str:
    return run("dpkg-deb", "-f", str(file), name).strip()


def program(tree: Path, name: str, *arguments: str, status: int = 0) -> str:
    """What a program of a tree prints, with the directories of that tree."""
    config = tree.parent / "steward.toml"
    config.write_text('[history]\nkeep = 0\n[log]\nfile = ""\n')
    source = (tree / "usr" / "sbin" / name).read_text()
    for directory in OF_THE_PACKAGE:
        source = source.replace(f'"{directory}"', f'"{tree}{directory}"')
    moved = tree.parent / name
    moved.write_text(source)
    return run(
        *("/usr/bin/python3", "-I", "-S", str(moved), *arguments),
        cwd=tree.parent,
        status=status,
        GNT_STEWARD_CONFIG=str(config),
    )


def modules(tree: Path) -> Path:
    """The directory of the import package."""
    return tree / OWN / "ganeti_steward"


def test_the_debian_package(packages: Packages) -> None:
    tree = packages.node
    assert field(packages.main, "Package") == "ganeti-steward"
    allocator = tree / "usr" / "lib" / "ganeti" / "iallocators" / "steward"
    assert allocator.resolve() == tree / "usr" / "sbin" / "steward-iallocator"
    units = {unit.name: unit for unit in tree.glob("**/lib/systemd/system/*")}
    assert set(units) == UNITS
    for name in some(sorted(one for one in UNITS if one.endswith(".service"))):
        assert "ExecStart=/usr/sbin/gnt-steward " in units[name].read_text()
        assert "/opt/" not in units[name].read_text()
    for room in ROOMS:
        for source in (ROOT / room).rglob("*.py"):
            there = modules(tree) / source.relative_to(ROOT)
            if source.is_relative_to(SIMULATION):
                assert not there.exists()
            else:
                assert there.read_bytes() == source.read_bytes()
    answer = program(tree, "steward-iallocator", str(CAPTURES / "allocate-drbd.in.json"))
    assert answer.startswith('{"success":true')


def test_two_builds_are_identical(packages: Packages, tmp_path: Path) -> None:
    first, second = (packages.main, packages.simulation), build(tmp_path)
    assert [one.name for one in first] == [one.name for one in second]
    assert [one.read_bytes() for one in first] == [one.read_bytes() for one in second]


def test_lintian_finds_no_error_and_no_warning(packages: Packages) -> None:
    lintian = need("lintian", "lintian")
    changes = [str(one) for one in packages.main.parent.glob("*.changes")]
    assert run(lintian, "--fail-on", "error,warning", "--allow-root", *changes) == ""


def test_the_package_of_the_simulation_has_its_folder_only(
    packages: Packages, tmp_path: Path
) -> None:
    run("dpkg-deb", "-x", str(packages.simulation), str(tmp_path))
    files = {one for one in tmp_path.rglob("*") if one.is_file()}
    folder = modules(tmp_path) / "plugins" / "simulation"
    sources_ = {one for one in SIMULATION.rglob("*") if "__pycache__" not in one.parts}
    expected = {folder / one.relative_to(SIMULATION) for one in sources_ if one.is_file()}
    beside = tmp_path / "usr" / "share"
    others = {one for one in files if not one.is_relative_to(folder)}
    kinds = {one.relative_to(beside).parts[0] for one in others}
    assert kinds == {"doc", "lintian", "python3"}
    assert beside / "doc" / "ganeti-steward-simulation" / "copyright" in others
    assert files - others == expected
    assert all(
        one.read_bytes() == (SIMULATION / one.relative_to(folder)).read_bytes() for one in expected
    )
    version = field(packages.main, "Version")
    assert field(packages.simulation, "Package") == "ganeti-steward-simulation"
    # Python: its postinst compiles the modules.
    assert field(packages.simulation, "Depends") == f"ganeti-steward (= {version}), python3:any"
    for name in ("Version", "Architecture"):
        assert field(packages.simulation, name) == field(packages.main, name)


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
