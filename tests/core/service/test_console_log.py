"""A log whose file cannot be written any more goes to the console."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import wait_until
from unkillable import frozen_filesystem, needs_freezing

from ganeti_steward.core.log import set_up
from ganeti_steward.core.service.console_log import ConsoleLog


class Log:
    """A log with a stand-in console."""

    def __init__(self, file: str, console: Path) -> None:
        self.handler = ConsoleLog(file, str(console))
        self.console = console
        self.logger = logging.Logger("tested")
        self.logger.addHandler(self.handler)

    def on_the_console(self) -> str:
        return self.console.read_text() if self.console.exists() else ""


@pytest.fixture
def console(tmp_path: Path) -> Path:
    path = tmp_path / "console"
    path.touch()
    return path


@pytest.fixture
def tested(tmp_path: Path, console: Path) -> Iterator[Log]:
    tested = Log(str(tmp_path / "steward.log"), console)
    yield tested
    tested.handler.close()


def test_to_the_file(tested: Log, tmp_path: Path) -> None:
    tested.logger.info("a %s", "word")
    tested.logger.info("strange \udcff")
    assert (tmp_path / "steward.log").read_text() == "a word\nstrange \\udcff\n"
    assert tested.on_the_console() == ""
    assert os.stat(tmp_path / "steward.log").st_mode & 0o007 == 0


def test_a_full_device(console: Path) -> None:
    tested = Log("/dev/full", console)
    tested.logger.error("the disk is dead")
    tested.logger.error("still")
    tested.handler.close()
    assert tested.on_the_console() == (
        "steward: /dev/full cannot be written (No space left on device): the disk is dead\n"
        "steward: /dev/full cannot be written (No space left on device): still\n"
    )


def test_a_file_that_cannot_be_opened_and_then_can(tested: Log, tmp_path: Path) -> None:
    (tmp_path / "steward.log").mkdir()
    tested.logger.error("one")
    (tmp_path / "steward.log").rmdir()
    tested.logger.error("two")
    assert "(Is a directory): one\n" in tested.on_the_console()
    assert "two" not in tested.on_the_console()
    assert (tmp_path / "steward.log").read_text() == "two\n"


@pytest.mark.parametrize("console", ["/dev/full", "/nowhere/console"])
def test_nor_a_console(console: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Lines that are not read are lost silently, and the log goes on."""
    tested = Log(str(tmp_path / "steward.log"), Path(console))
    (tmp_path / "steward.log").mkdir()
    tested.logger.error("lost")
    (tmp_path / "steward.log").rmdir()
    tested.logger.error("kept")
    tested.handler.close()
    assert (tmp_path / "steward.log").read_text() == "kept\n"
    assert capfd.readouterr() == ("", "")


def test_a_console_that_takes_nothing(tmp_path: Path) -> None:
    """A full pipe stands for a serial line that is held."""
    fifo = tmp_path / "console"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    tested = Log("/dev/full", fifo)
    for _ in range(2000):
        tested.logger.error("x" * 100)
    tested.handler.close()
    assert os.read(reader, 2**20).startswith(b"steward: /dev/full cannot be written")
    os.close(reader)


@needs_freezing
def test_a_disk_that_answers_nothing(tmp_path: Path, console: Path) -> None:
    """Who logs does not wait for it, however much it is; all of that is on the console."""
    lines = [f"line {number}" for number in range(300)]
    before = threading.active_count()
    with frozen_filesystem(tmp_path) as frozen:
        tested = Log(str(frozen / "steward.log"), console)
        for line in lines:
            tested.logger.error(line)
        note = f"steward: {frozen}/steward.log is not written: "
        assert tested.on_the_console() == "".join(f"{note}{line}\n" for line in lines)
        # As a reload does; the thread that writes ends as soon as the disk lets it.
        tested.handler.close()
    wait_until(lambda: threading.active_count() == before, "the end of the thread that writes")


def test_a_log_that_is_moved_away(tested: Log, tmp_path: Path) -> None:
    tested.logger.error("before")
    (tmp_path / "steward.log").rename(tmp_path / "steward.log.1")
    tested.logger.error("after")
    assert (tmp_path / "steward.log.1").read_text() == "before\n"
    assert (tmp_path / "steward.log").read_text() == "after\n"


def test_a_message_that_cannot_be_made(tested: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    tested.logger.error("%d", "no number")
    tested.logger.error("fine")
    assert tested.on_the_console() == ""


def test_by_several_threads(tested: Log, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=lambda: [tested.logger.error("y" * 200) for _ in range(50)])
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
