"""What collectors keep from run to run, as files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ganeti_steward.diagnose.run.loading import sources, this_machine
from ganeti_steward.diagnose.run.local_machine import LocalMachine
from ganeti_steward.diagnose.sources.isolated import run

if TYPE_CHECKING:
    from diagnosing import Site


def test_kept_until_the_next_run(tmp_path: Path) -> None:
    directory = tmp_path / "diagnose"
    assert this_machine(9, str(directory)).recalled("edac") == b""
    this_machine(9, str(directory)).remember("edac", b"1")
    this_machine(9, str(directory)).remember("edac", b"2")
    assert this_machine(9, str(directory)).recalled("edac") == b"2"
    (file,) = directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_nothing_is_kept_without_a_directory(tmp_path: Path) -> None:
    this_machine(9).remember("edac", b"1")
    assert this_machine(9).recalled("edac") == b""


def test_files_of_others_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "kept-edac").symlink_to(tmp_path / "secret")
    memory = LocalMachine(9, str(tmp_path))
    with pytest.raises(OSError, match="kept-edac"):
        memory.recalled("edac")
    with pytest.raises(OSError, match="not a regular file"):
        memory.remember("edac", b"1")
    assert (tmp_path / "secret").read_bytes() == b"secret"
    os.unlink(tmp_path / "kept-edac")
    os.mkfifo(tmp_path / "kept-edac")
    with pytest.raises(OSError, match="kept-edac"):
        memory.recalled("edac")


def test_a_directory_that_others_write_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(OSError, match="closed to the writing of others"):
        LocalMachine(9, str(tmp_path)).remember("edac", b"1")
    assert not list(tmp_path.iterdir())


def test_a_collector_finds_what_its_last_run_kept(site: Site) -> None:
    site.plugin(
        "counting",
        """
        @hookimpl
        def steward_diagnose(machine):
            before = machine.recalled("counting")
            machine.remember("counting", before + b"x")
            yield Finding("counting", "live-repair", "", before.decode())
        """,
    )
    site.configure("counting")
    seen = []
    for _ in range(3):
        (source,) = sources(site.config, commands="/nonexistent")
        seen += [getattr(one, "details", one) for one in run(source)]
    assert seen == ["", "x", "xx"]
