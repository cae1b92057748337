"""What commands about placement print fits a terminal of 80 columns, with long names of nodes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import clusters
import pytest

if TYPE_CHECKING:
    from front import Front

WIDTH = 80


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is a terminal without colours, from now on in this test."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


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
