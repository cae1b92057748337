"""The Debian package, the wheel and the source distribution, built as a whole; with --thorough."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

from installed import need
from packaging_tools import PACKAGING, UNITS, run
from paths import CAPTURES, ROOT
from sources import copy_sources, sources

ROOMS = ("core", "allocators", "plugins", "diagnose")


def test_the_debian_package(tmp_path: Path) -> None:
    need("dpkg-deb", "dpkg")
    file = run(str(PACKAGING / "build-deb"), "--output", str(tmp_path)).strip()
    tree = tmp_path / "tree"
    run("dpkg-deb", "-x", file, str(tree))
    assert run("dpkg-deb", "-f", file, "Package").strip() == "ganeti-steward"
    own = tree / "usr" / "lib" / "ganeti-steward"
    allocator = tree / "usr" / "lib" / "ganeti" / "iallocators" / "steward"
    assert allocator.resolve() == own / "bin" / "steward-iallocator"
    assert (tree / "usr" / "sbin" / "gnt-steward").resolve() == own / "bin" / "gnt-steward"
    assert {unit.name for unit in (tree / "usr/lib/systemd/system").iterdir()} == UNITS
    for unit in (tree / "usr/lib/systemd/system").glob("*.service"):
        assert "ExecStart=/usr/sbin/gnt-steward " in unit.read_text()
        assert "/opt/" not in unit.read_text()
    for room in ROOMS:
        for source in (ROOT / room).rglob("*.py"):
            (there,) = own.glob(f"lib/python3.*/site-packages/ganeti_steward/{room}")
            assert (there / source.relative_to(ROOT / room)).read_bytes() == source.read_bytes()
    freeze = (tree / "usr/share/doc/ganeti-steward/libraries").read_text()
    freeze = freeze.lower().replace("_", "-")
    libraries = {line for line in freeze.splitlines() if not line.startswith("ganeti-steward")}
    pins = (PACKAGING / "libraries.txt").read_text()
    assert libraries == set(re.findall(r"^([a-z0-9-]+==\S+)", pins, re.MULTILINE))
    # The environment is usable wherever it is: it answers with its own libraries.
    answer = run(
        str(own / "bin" / "python3"),
        "-I",
        str(own / "bin" / "steward-iallocator"),
        str(CAPTURES / "allocate-drbd.in.json"),
        cwd=tmp_path,
        GNT_STEWARD_CONFIG=str(_no_history(tmp_path)),
    )
    assert answer.startswith('{"success":true')


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


def _no_history(directory: Path) -> Path:
    config = directory / "steward.toml"
    config.write_text('[history]\nkeep = 0\n[log]\nfile = ""\n')
    return config
