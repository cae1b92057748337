"""Colours and the line of progress: on a terminal that can show them, and nowhere else."""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from ganeti_steward.allocators.cli.texts import BAD, painted
from ganeti_steward.core.commands.output import shown
from ganeti_steward.core.commands.terminal import progress


class Terminal:
    """A terminal whose other end is read by the test."""

    def __init__(self) -> None:
        self._end, line = os.openpty()
        self.stream: TextIO = os.fdopen(line, "w", buffering=1)

    def until(self, text: str) -> str:
        """Everything printed until this comes."""
        found = ""
        while text not in found:
            ready, _, _ = select.select([self._end], [], [], 300)
            assert ready, found
            found += os.read(self._end, 4096).decode()
        return found

    def print_done(self) -> str:
        """Print a word; everything printed until then."""
        self.stream.write("done\n")
        return self.until("done").rstrip()

    def close(self) -> None:
        self.stream.close()
        os.close(self._end)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield terminal
    terminal.close()


def test_words_are_painted(terminal: Terminal) -> None:
    text = painted("fai\x1bled\n", BAD, terminal.stream)
    assert shown(text) == "\x1b[31;1mfai\\u001bled\x1b[0m\n"
    assert painted("failed", "", terminal.stream) == "failed"
    assert painted("\n", BAD, terminal.stream) == "\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", None)])
def test_terminals_without_colours(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    assert painted("failed", BAD, terminal.stream) == "failed"


def test_an_empty_no_color_means_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert painted("failed", BAD, terminal.stream) != "failed"


def test_a_pipe_gets_no_colours() -> None:
    assert painted("failed", BAD, io.StringIO()) == "failed"


def test_progress_is_shown_and_removed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    number = iter(range(100))
    with progress(lambda: f"counting {next(number)}", quiet=0.01, clock=lambda: 7.0):
        shown = terminal.until("counting 1")
    assert shown.startswith("\r\x1b[Kcounting 0 ... 0 s\r\x1b[Kcounting 1")
    assert terminal.print_done().endswith("\r\x1b[Kdone")


def test_nothing_is_shown_of_what_is_quick(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    with progress("planning", quiet=3600):
        pass
    assert terminal.print_done() == "done"


def test_progress_ends_with_an_error(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)

    def divide() -> float:
        with progress("dividing", quiet=0.01):
            terminal.until("dividing")
            return 1 / 0

    with pytest.raises(ZeroDivisionError):
        divide()
    assert terminal.print_done().endswith("\r\x1b[Kdone")
    assert "progress" not in {one.name for one in threading.enumerate()}


def test_no_progress_on_dumb_terminals(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    with progress("planning", quiet=0):
        assert "progress" not in {one.name for one in threading.enumerate()}


def test_no_progress_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("planning", quiet=0):
        assert "progress" not in {one.name for one in threading.enumerate()}
    assert stream.getvalue() == ""
