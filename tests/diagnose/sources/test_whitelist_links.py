"""Symbolic links in, to and out of a whitelist."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from whitelisted import (
    BAD_FILES,
    BAD_PARENTS,
    run_script,
    says,
)
from whitelists import needs_root

from ganeti_steward.core.process.trusted_program import Forbidden
from ganeti_steward.diagnose.sources.whitelist import listing

pytestmark = needs_root


@pytest.mark.parametrize(("spoil", "fault"), BAD_FILES)
def test_links_to_files_that_are_not_run(
    commands: Path, spoil: Callable[[Path], None], fault: str
) -> None:
    """A link is as good as its target."""
    target = says(commands.parent, "tool", "bad")
    (commands / "raid").symlink_to(target)
    assert run_script(commands).output == b"bad\n"
    spoil(target)
    with pytest.raises(Forbidden) as caught:
        run_script(commands)
    assert str(caught.value) == fault.format(target)


def test_links_outside(commands: Path) -> None:
    """To where only root can change anything: absolute, relative, over other links."""
    away = commands.parent / "away" / "deep"
    away.mkdir(parents=True)
    says(away, "tool", "good")
    (commands / "absolute").symlink_to(away / "tool")
    (commands / "relative").symlink_to(".././away//deep/tool")
    (commands.parent / "over").symlink_to("away")
    (commands / "over").symlink_to("../over/deep/tool")
    (commands / "again").symlink_to("over")
    for name in ("absolute", "relative", "over", "again"):
        assert run_script(commands, name).output == b"good\n"


def test_a_whitelist_that_is_a_link(commands: Path) -> None:
    says(commands, "raid", "good")
    link = commands.parent / "link"
    link.symlink_to("commands")
    assert run_script(link).output == b"good\n"
    assert listing(f"{link}/") == ["raid"]


@pytest.mark.parametrize(("spoil", "fault"), BAD_PARENTS)
@pytest.mark.parametrize("target", ["bad/tool", "bad/deep/tool", "bad/../good/tool", "bad/link"])
def test_links_over_where_others_can_write(
    commands: Path, target: str, spoil: Callable[[Path], None], fault: str
) -> None:
    """However good what lies there today: tomorrow it is something else."""
    bad, good = commands.parent / "bad", commands.parent / "good"
    (bad / "deep").mkdir(parents=True)
    good.mkdir()
    for place in (bad, bad / "deep", good):
        says(place, "tool", "bad")
    (bad / "link").symlink_to("../good/tool")
    (commands / "raid").symlink_to(f"../{target}")
    assert run_script(commands).output == b"bad\n"
    spoil(bad)
    with pytest.raises(Forbidden) as caught:
        run_script(commands)
    assert str(caught.value) == fault.format(bad)


def test_a_whitelist_reached_over_where_others_can_write(commands: Path) -> None:
    says(commands, "raid", "bad")
    open_to_all = commands.parent / "open"
    open_to_all.mkdir()
    (open_to_all / "link").symlink_to(commands)
    assert run_script(open_to_all / "link").output == b"bad\n"
    open_to_all.chmod(0o777)
    with pytest.raises(Forbidden, match="open can be written to by others than root"):
        run_script(open_to_all / "link")


@pytest.mark.parametrize("target", ["raid", "../commands/raid", "other"])
def test_links_in_a_ring(commands: Path, target: str) -> None:
    (commands / "raid").symlink_to(target)
    (commands / "other").symlink_to("raid")
    with pytest.raises(Forbidden, match="leads over too many symbolic links"):
        run_script(commands)


def test_dangling_link(commands: Path) -> None:
    (commands / "raid").symlink_to("nosuch")
    with pytest.raises(Forbidden, match="nosuch cannot be opened: No such file"):
        run_script(commands)


def test_a_link_to_a_file_of_the_process(commands: Path) -> None:
    """What /proc shows of an open file has a way of its own past all directories."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as below,
        open(says(Path(below), "tool", "bad")) as file,
    ):
        (commands / "raid").symlink_to(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        with pytest.raises(Forbidden, match="/tmp can be written to by others than root"):
            run_script(commands)
