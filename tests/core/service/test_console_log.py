"""A log whose file cannot be written any more goes to the console."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from unkillable import frozen_filesystem, needs_freezing

from ganeti_steward.core.log import set_up
from ganeti_steward.core.service.console_log import ConsoleLog


class Told:
    """A log with a stand-in console."""

    def __init__(self, file: str, console: Path) -> None:
        self.handler = ConsoleLog(file, str(console))
        self.console = console
        self.logger = logging.Logger("told")
        self.logger.addHandler(self.handler)

    def on_the_console(self) -> str:
        return self.console.read_text() if self.console.exists() else ""


@pytest.fixture
def console(tmp_path: Path) -> Path:
    path = tmp_path / "console"
    path.touch()
    return path


@pytest.fixture
def told(tmp_path: Path, console: Path) -> Iterator[Told]:
    told = Told(str(tmp_path / "steward.log"), console)
    yield told
    told.handler.close()


def test_to_the_file(told: Told, tmp_path: Path) -> None:
    told.logger.info("a %s", "word")
    told.logger.info("strange \udcff")
    assert (tmp_path / "steward.log").read_text() == "a word\nstrange \\udcff\n"
    assert told.on_the_console() == ""
    assert os.stat(tmp_path / "steward.log").st_mode & 0o007 == 0


def test_a_full_device(console: Path) -> None:
    told = Told("/dev/full", console)
    told.logger.error("the disk is dead")
    told.logger.error("still")
    told.handler.close()
    assert told.on_the_console() == (
        "steward: /dev/full cannot be written (No space left on device): the disk is dead\n"
        "steward: /dev/full cannot be written (No space left on device): still\n"
    )


def test_a_file_that_cannot_be_opened_and_then_can(told: Told, tmp_path: Path) -> None:
    (tmp_path / "steward.log").mkdir()
    told.logger.error("one")
    (tmp_path / "steward.log").rmdir()
    told.logger.error("two")
    assert "(Is a directory): one\n" in told.on_the_console()
    assert "two" not in told.on_the_console()
    assert (tmp_path / "steward.log").read_text() == "two\n"


@pytest.mark.parametrize("console", ["/dev/full", "/nowhere/console"])
def test_nor_a_console(console: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What nobody takes is lost without a word, and the log goes on."""
    told = Told(str(tmp_path / "steward.log"), Path(console))
    (tmp_path / "steward.log").mkdir()
    told.logger.error("lost")
    (tmp_path / "steward.log").rmdir()
    told.logger.error("kept")
    told.handler.close()
    assert (tmp_path / "steward.log").read_text() == "kept\n"
    assert capfd.readouterr() == ("", "")


def test_a_console_that_takes_nothing(tmp_path: Path) -> None:
    """A full pipe stands for a serial line that is held."""
    fifo = tmp_path / "console"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    told = Told("/dev/full", fifo)
    for _ in range(2000):
        told.logger.error("x" * 100)
    told.handler.close()
    assert os.read(reader, 2**20).startswith(b"steward: /dev/full cannot be written")
    os.close(reader)


@needs_freezing
def test_a_disk_that_answers_nothing(tmp_path: Path, console: Path) -> None:
    """Who logs does not wait for it, however much it is; all of that is on the console."""
    lines = [f"line {number}" for number in range(300)]
    with frozen_filesystem(tmp_path) as frozen:
        told = Told(str(frozen / "steward.log"), console)
        for line in lines:
            told.logger.error(line)
        note = f"steward: {frozen}/steward.log is not written: "
        assert told.on_the_console() == "".join(f"{note}{line}\n" for line in lines)
    told.handler.close()


def test_a_log_that_is_moved_away(told: Told, tmp_path: Path) -> None:
    told.logger.error("before")
    (tmp_path / "steward.log").rename(tmp_path / "steward.log.1")
    told.logger.error("after")
    assert (tmp_path / "steward.log.1").read_text() == "before\n"
    assert (tmp_path / "steward.log").read_text() == "after\n"


def test_a_message_that_cannot_be_made(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    told.logger.error("%d", "no number")
    told.logger.error("fine")
    assert told.on_the_console() == ""


def test_by_several_threads(told: Told, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=lambda: [told.logger.error("y" * 200) for _ in range(50)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "steward.log").read_text().splitlines() == ["y" * 200] * 400


def test_as_the_programs_log(
    tmp_path: Path, console: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger("ganeti_steward")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "propagate", False)
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    set_up("/dev/full", "info", lambda path: ConsoleLog(path, str(console)))
    logging.getLogger("ganeti_steward.diagnose").warning("refused")
    root.handlers[0].close()
    assert console.read_text().endswith(" WARNING refused\n")
