"""``gnt-steward install-iallocator``: a link where Ganeti looks for allocators."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from front import capture
from standin import StandIn
from standin_server import serving
from workspace import PROGRAMS

from ganeti_steward.allocators.cli import install_iallocator
from ganeti_steward.core.errors import StewardError

if TYPE_CHECKING:
    from front import Front

SCRIPT = PROGRAMS / "steward-iallocator"


@pytest.fixture(autouse=True)
def no_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run where Ganeti's users cannot look; one test is about that."""
    monkeypatch.setattr(install_iallocator, "_DAEMON_USER", "no-such-user")


def test_a_place_that_ganeti_cannot_see(
    front: Front, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = front.path / "closed"
    (closed / "bin").mkdir(parents=True)
    script = closed / "bin" / "steward-iallocator"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    closed.chmod(0o700)
    monkeypatch.setattr(install_iallocator, "own_script", lambda: str(script))
    assert front("install-iallocator", "--dir", str(directory)).status == 0
    (directory / "steward").unlink()
    monkeypatch.setattr(install_iallocator, "_DAEMON_USER", "daemon")
    done = front("install-iallocator", "--dir", str(directory))
    assert done.status == 1
    assert f"{closed} is closed to others (mode 0700)" in done.err
    assert not (directory / "steward").exists()


@pytest.fixture
def directory(front: Front) -> Path:
    """A directory of allocators with another one in it."""
    directory = front.path / "iallocators"
    directory.mkdir()
    (directory / "hail").write_text("#!/bin/sh\n")
    return directory


@pytest.fixture
def ganeti(front: Front, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """An installed Ganeti with a search path of two directories."""
    paths = [front.path / "local", front.path / "distribution"]
    paths[1].mkdir()
    write_constants(front.path / "share" / "3.0", *paths)
    pattern = str(front.path / "share" / "[0-9]*" / "ganeti" / "_constants.py")
    monkeypatch.setattr(install_iallocator, "_CONSTANTS", ("/nonexistent/*.py", pattern))
    return paths


def write_constants(version: Path, *paths: Path) -> None:
    """The line as Debian's Ganeti has it, between others."""
    (version / "ganeti").mkdir(parents=True)
    shown = ",".join(f'"{path}"' for path in paths)
    text = f'IALLOCATOR_NEVAC = "node-evacuate"\nIALLOCATOR_SEARCH_PATH = [{shown}]\nX = []\n'
    (version / "ganeti" / "_constants.py").write_text(text)


def test_install(front: Front, directory: Path) -> None:
    done = front("install-iallocator", f"--dir={directory}")
    link = directory / "steward"
    assert (done.status, done.out, done.err) == (0, f"{link} -> {SCRIPT}\n", "")
    assert link.readlink() == SCRIPT
    assert sorted(entry.name for entry in directory.iterdir()) == ["hail", "steward"]


def test_the_link_answers(front: Front, directory: Path) -> None:
    """What Ganeti would call is the allocator."""
    front("install-iallocator", f"--dir={directory}")
    file = front.message(capture("allocate-drbd"))
    answer = front.process(str(directory / "steward"), file)
    assert answer.status == 0
    assert answer == front.allocate(file)


def test_twice(front: Front, directory: Path) -> None:
    front("install-iallocator", f"--dir={directory}")
    before = (directory / "steward").lstat()
    done = front("install-iallocator", f"--dir={directory}")
    assert (done.status, done.out) == (0, f"{directory}/steward -> {SCRIPT} (as before)\n")
    assert (directory / "steward").lstat().st_ino == before.st_ino


def test_another_installation_of_ours(front: Front, directory: Path) -> None:
    """The link points to the installation that set it last; a dead link is no obstacle."""
    (directory / "steward").symlink_to("/opt/old/bin/steward-iallocator")
    done = front("install-iallocator", f"--dir={directory}")
    assert done.status == 0
    assert (directory / "steward").readlink() == SCRIPT


def test_directory_is_not_made(front: Front) -> None:
    """A typo must not leave directories behind where Ganeti never looks."""
    directory = front.path / "usr" / "lib" / "iallocators"
    done = front("install-iallocator", "--dir", str(directory))
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith(f"{directory}: there is no such directory; it is not created\n")
    assert not (front.path / "usr").exists()


@pytest.mark.parametrize("default", ["steward", "hail", "", None])
def test_the_cluster_still_names_it(
    front: Front, directory: Path, monkeypatch: pytest.MonkeyPatch, default: str | None
) -> None:
    stand_in = StandIn(capture("allocate-drbd"))
    stand_in.ganeti.info["default_iallocator"] = default
    front("install-iallocator", f"--dir={directory}")
    with serving(front.path, stand_in) as client:
        socket = client.where.removeprefix("luxid at ")
        monkeypatch.setattr(install_iallocator, "SOCKET", socket)
        done = front("install-iallocator", f"--dir={directory}", "--remove")
    assert (done.status, done.out) == (0, f"removed {directory}/steward\n")
    note = (
        "Note: the cluster still names steward as its default allocator, so commands without -I "
        "will fail; name another one: gnt-cluster modify -I hail\n"
    )
    assert done.err == (note if default == "steward" else "")


def test_the_cluster_cannot_be_queried(
    front: Front, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_iallocator, "SOCKET", f"{front.path}/nosuch")
    done = front("install-iallocator", f"--dir={directory}", "--remove")
    assert done.err == (
        "Note: it is not known whether the cluster's default allocator is steward: there is no "
        f"socket {front.path}/nosuch: luxid runs on the master only\n"
    )


def test_remove(front: Front, directory: Path) -> None:
    front("install-iallocator", f"--dir={directory}")
    done = front("install-iallocator", f"--dir={directory}", "--remove")
    assert (done.status, done.out) == (0, f"removed {directory}/steward\n")
    assert sorted(entry.name for entry in directory.iterdir()) == ["hail"]
    again = front("install-iallocator", f"--dir={directory}", "--remove")
    assert (again.status, again.out) == (0, f"no allocator steward of ours in {directory}\n")


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
@pytest.mark.parametrize("option", [[], ["--remove"]], ids=["install", "remove"])
def test_foreign_file_in_the_way(
    front: Front, directory: Path, kind: str, option: list[str]
) -> None:
    there = directory / "steward"
    if kind == "file":
        there.write_text("precious")
    elif kind == "link":
        there.symlink_to("/usr/lib/ganeti/iallocators/hail")
    else:
        there.mkdir()
    before = there.lstat()
    done = front("install-iallocator", f"--dir={directory}", *option)
    assert (done.status, done.out) == (1, "")
    assert str(there) in done.err
    after = there.lstat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(entry.name for entry in directory.iterdir()) == ["hail", "steward"]


def test_impossible_directory(front: Front) -> None:
    (front.path / "file").write_text("")
    for impossible in (f"{front.path}/file", f"{front.path}/file/below", ""):
        done = front("install-iallocator", "--dir", impossible)
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith("gnt-steward install-iallocator: ")
    assert sorted(path.name for path in front.path.iterdir()) == ["file", "modules", "steward.toml"]


def test_search_path_of_ganeti(front: Front, ganeti: list[Path]) -> None:
    """The first directory, as it is searched first."""
    done = front("install-iallocator")
    assert done.status == 0
    assert done.out.splitlines()[0] == f"{ganeti[0]}/steward -> {SCRIPT}"
    assert "gnt-cluster modify -I steward" in done.out
    assert (ganeti[0] / "steward").readlink() == SCRIPT
    assert list(ganeti[1].iterdir()) == []


def test_remove_from_the_search_path(front: Front, ganeti: list[Path]) -> None:
    """Wherever it is on the path."""
    front("install-iallocator", f"--dir={ganeti[1]}")
    done = front("install-iallocator", "--remove")
    assert (done.status, done.out) == (0, f"removed {ganeti[1]}/steward\n")


def test_newest_ganeti(front: Front, ganeti: list[Path]) -> None:
    for version in ("2.16", "3.9", "3.10"):
        write_constants(front.path / "share" / version, front.path / version)
    done = front("install-iallocator")
    assert done.out.startswith(f"{front.path}/3.10/steward -> ")
    assert not ganeti[0].exists()


def test_constants_without_a_path(front: Front, ganeti: list[Path]) -> None:
    """A version whose file has no search path is skipped."""
    share = front.path / "share"
    write_constants(share / "3.1")
    (share / "3.2" / "ganeti").mkdir(parents=True)
    (share / "3.2" / "ganeti" / "_constants.py").write_bytes(b"# \xff\nNOTHING = 1\n")
    (share / "3.3" / "ganeti" / "_constants.py").mkdir(parents=True)
    assert front("install-iallocator").out.startswith(f"{ganeti[0]}/steward -> ")


@pytest.mark.parametrize("line", ["[ '/a/b' , \"/c\" ]", "['/a/b',\n    '/c',\n]"])
def test_forms_of_the_constant(tmp_path: Path, line: str) -> None:
    file = tmp_path / "_constants.py"
    file.write_text(f"IALLOCATOR_SEARCH_PATH = {line}\n")
    assert install_iallocator.search_path([str(file)]) == ["/a/b", "/c"]


def test_no_ganeti(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = (str(front.path / "nowhere" / "*.py"),)
    with pytest.raises(StewardError, match="Ganeti is not installed here"):
        install_iallocator.search_path(nowhere)
    monkeypatch.setattr(install_iallocator, "_CONSTANTS", nowhere)
    for arguments in ([], ["--remove"]):
        done = front("install-iallocator", *arguments)
        assert (done.status, done.out) == (1, "")
        assert "Ganeti is not installed here; name the directory with --dir" in done.err


def test_process(front: Front, directory: Path) -> None:
    """Also when the command itself is called by a link in another directory."""
    (front.path / "sbin").mkdir()
    (front.path / "sbin" / "gnt-steward").symlink_to(PROGRAMS / "gnt-steward")
    program = str(front.path / "sbin" / "gnt-steward")
    done = front.process(program, "install-iallocator", f"--dir={directory}")
    if _closed_to_ganeti(PROGRAMS):
        assert done.status == 1
        assert "is closed to others" in done.err
        return
    assert done.status == 0
    assert os.access(directory / "steward", os.X_OK)
    assert (directory / "steward").readlink().name == "steward-iallocator"


def _closed_to_ganeti(directory: Path) -> bool:
    """Whether this checkout lies where Ganeti's users, if there are any, cannot look."""
    users = [entry.pw_name for entry in pwd.getpwall()]
    places = [directory, *directory.parents]
    return "gnt-masterd" in users and any(not place.stat().st_mode & 0o001 for place in places)
