"""A whitelist in which things are swapped between check and run."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from whitelisted import (
    OTHER_USER,
    run_script,
    says,
)
from whitelists import needs_root

from ganeti_steward.core.process.following import Ended
from ganeti_steward.core.process.program import run_program
from ganeti_steward.core.process.trusted_program import Forbidden
from ganeti_steward.diagnose.sources import whitelist as tested

pytestmark = needs_root


def _other_file(commands: Path) -> None:
    says(commands, "new", "bad").rename(commands / "raid")


def _other_link(commands: Path) -> None:
    (commands / "new").symlink_to(says(commands, "bad", "bad"))
    (commands / "new").rename(commands / "raid")


def _other_directory(commands: Path) -> None:
    commands.rename(commands.parent / "old")
    commands.mkdir()
    says(commands, "raid", "bad")


def _nothing(commands: Path) -> None:
    shutil.rmtree(commands)
    commands.mkdir()


SWAPS = [_other_file, _other_link, _other_directory, _nothing]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("kind", ["script", "binary"])
def test_swapped_between_check_and_run(
    commands: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[Path], None],
    kind: str,
) -> None:
    """The file that was checked is the one that runs."""
    if kind == "script":
        says(commands, "raid", "good")
    else:
        shutil.copy("/bin/pwd", commands / "raid")
    original = run_program

    def too_late(*args: object, **kwargs: object) -> Ended:
        swap(commands)
        return original(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(tested, "run_program", too_late)
    assert run_script(commands).output == (b"good\n" if kind == "script" else b"/\n")


def test_a_link_swapped_between_check_and_run(
    commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (commands / "raid").symlink_to(says(commands.parent, "tool", "good"))
    original = run_program

    def too_late(*args: object, **kwargs: object) -> Ended:
        _other_link(commands)
        return original(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(tested, "run_program", too_late)
    assert run_script(commands).output == b"good\n"
    monkeypatch.undo()
    assert run_script(commands).output == b"bad\n"


@pytest.mark.parametrize("swap", [_other_directory, _nothing])
def test_the_directory_swapped_while_it_is_checked(
    commands: Path, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Path], None]
) -> None:
    """The file is looked for in the directory that was checked, wherever that is now."""
    says(commands, "raid", "good")
    original = tested._directory

    def then_swapped(*args: object) -> int:
        place = original(*args)  # type: ignore[arg-type]
        swap(commands)
        return place

    monkeypatch.setattr(tested, "_directory", then_swapped)
    if swap is _nothing:
        with pytest.raises(Forbidden, match="No such file or directory"):
            run_script(commands)
    else:
        assert run_script(commands).output == b"good\n"


def test_a_user_who_swaps_all_the_time(commands: Path) -> None:
    """One name, now a good file, now one of another user, now a link to where all can write."""
    says(commands, "good", "good")
    os.chown(says(commands, "foreign", "bad"), OTHER_USER, OTHER_USER)
    open_to_all = commands.parent / "open"
    open_to_all.mkdir()
    says(open_to_all, "tool", "bad")
    open_to_all.chmod(0o777)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for make in ("good", "foreign"):
                os.link(commands / make, commands / "new")
                os.rename(commands / "new", commands / "raid")
            os.symlink("../open/tool", commands / "new")
            os.rename(commands / "new", commands / "raid")
            # A rename to another name of the same file does nothing.
            (commands / "raid").unlink()

    swapping = threading.Thread(target=swap)
    swapping.start()
    outcomes: list[str] = []
    try:
        while len(outcomes) < 100 or len(set(outcomes)) < 2:
            try:
                outcomes.append(run_script(commands).output.decode())
            except Forbidden:
                outcomes.append("refused")
    finally:
        done.set()
        swapping.join()
    assert set(outcomes) == {"good\n", "refused"}
