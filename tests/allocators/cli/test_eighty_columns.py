"""What commands about placement print fits a terminal of 80 columns, with long names of nodes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import clusters
import pytest

from ganeti_steward.core.commands import tables

if TYPE_CHECKING:
    from front import Front

WIDTH = 80


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both outputs are a terminal without colours, from now on in this test."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def cluster() -> Any:
    """Two groups with a drained and an offline node; all names have a domain."""
    return clusters.generate(
        *("--nodes=10", "--groups=2", "--mix=drbd=2,plain=1", "--seed=7", "--per-node=3"),
        *("--fill=.3", "--drained=1", "--offline=1"),
    )


@pytest.mark.parametrize(
    "command",
    [
        "balance",
        "balance -E",
        "balance -O group01",
        "check",
        "check -v",
        "check -O group00",
        "check -o +names",
        "capacity -t drbd",
        "capacity -t plain",
        "capacity -t drbd -s 20g --memory 4g",
        "place -t drbd -s 20g",
        "place -t drbd -s 20g -v",
        "place -t drbd -s 9000g",
        "group-evacuate group00",
        "maintenance plan --all --stop",
        "maintenance plan --all --stop --moves",
    ],
)
def test_no_line_is_wider(front: Front, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    use_terminal(monkeypatch)
    done = front(*command.split(), "-I", front.message(cluster()))
    assert done.out
    assert [line for line in done.out.splitlines() if len(line) > WIDTH] == []
    assert [line for line in done.err.splitlines() if len(line) > WIDTH] == []


def test_messages_of_a_failure_are_wrapped(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    refused = "place -t drbd -s 9000g --make-room"
    lines = front(*refused.split(), "-I", front.message(cluster())).err.splitlines()
    assert lines[0].startswith("no place: ")
    assert lines[-1].startswith("no moves of up to three instances")
    assert max(map(len, lines)) <= WIDTH


def test_notes_are_wrapped_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe gets each in one line, which grep finds whole."""
    note = "the capacity test refused moves to a node; " * 3
    tables.print_notes([note, "short"])
    whole = capsys.readouterr().err
    assert whole == f"Note: {note}\nNote: short\n"
    use_terminal(monkeypatch)
    tables.print_notes([note, "short"])
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= WIDTH < len(note)
    assert lines[0].startswith("Note: the capacity")
    assert all(line.startswith("  ") for line in lines[1:-1])
    assert lines[-1] == "Note: short"
    assert " ".join(" ".join(lines).split()) == " ".join(whole.split())


def test_the_terminal_of_standard_error_counts_where_output_is_a_file(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(os, "get_terminal_size", sized_by_standard_error)
    tables.print_notes(["word " * 20])
    assert max(map(len, capfd.readouterr().err.splitlines())) <= 40


def sized_by_standard_error(descriptor: int) -> os.terminal_size:
    if descriptor == sys.stderr.fileno():
        return os.terminal_size((40, 24))
    raise OSError("not a terminal")


def test_the_table_of_moves_stays_aligned(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has short names, and the columns that fit; the others are named."""
    use_terminal(monkeypatch)
    text = front("balance", "-G", "group00", "-I", front.message(cluster())).out
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("# "))
    end = next(at for at, line in enumerate(lines) if line.startswith("Not shown: Lowers, Total"))
    assert end > start + 1
    target = lines[start].index("To")
    for line in lines[start + 1 : end]:
        assert line[:1].isdigit()
        assert line[target - 1] == " "
        assert line[target:].startswith("node")
    assert ".example.com" not in "".join(lines[start:end])


def test_a_pipe_gets_all_columns(front: Front) -> None:
    text = front("balance", "-G", "group00", "-I", front.message(cluster())).out
    assert "Not shown" not in text
    assert "Lowers" in text
    assert ".example.com" in text
