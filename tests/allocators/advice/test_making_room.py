"""Moves of other instances with which a refused request succeeds."""

from __future__ import annotations

import pytest
from advised import (
    advised,
    allocate,
    crowded,
    message,
    put,
    wanted,
)

from ganeti_steward.allocators.advice import case as kinds
from ganeti_steward.allocators.advice import make_room


def test_one_move() -> None:
    found = advised(allocate(wanted(memory=8000)), crowded())
    (moves,) = found[kinds.MOVES]
    assert moves.text == "with small moved from a to c (copies nothing)"
    (move,) = moves.moves
    assert (move.instance, move.before, move.after, move.copied) == ("small", ("a",), ("c",), 0)
    assert [operation["OP_ID"] for operation in move.job] == ["OP_INSTANCE_MIGRATE"]


def test_a_move_of_disks_counts_what_it_copies() -> None:
    data = message(a={"drained": True}, c={"free_disk": 70000})
    put(data, "pair", ["a", "b"], memory=2048, disk_space_total=60000, disks=[{"size": 59872}])
    (moves,) = advised(allocate(wanted("plain", disk=80000)), data)[kinds.MOVES]
    assert moves.text == "with pair moved from a/b to c/a (copies 58.6 GiB)"
    assert moves.case.cluster.instance("pair").nodes == ("c", "a")
    free = [(one.free_disk, one.free_memory) for one in moves.case.cluster.nodes]
    assert free == [(42400, 16384), (102400, 16384), (10000, 14336)]


def test_two_moves() -> None:
    data = message("a", "b", "c")
    for name in ("i1", "i2"):
        put(data, name, ["a"], memory=4000)
    put(data, "j", ["b"], memory=12000)
    put(data, "k", ["c"], memory=12000)
    (moves,) = advised(allocate(wanted(memory=16000)), data)[kinds.MOVES]
    assert len(moves.moves) == 2
    assert moves.text.startswith("with ")
    assert ", then " in moves.text
    # No single move is enough.
    data["nodes"]["c"]["drained"] = True
    assert kinds.MOVES not in advised(allocate(wanted(memory=16000)), data)


def test_moves_that_make_others_stuck_are_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are suggested, with what they do, where no others help."""
    stuck = "other could no longer leave b"
    monkeypatch.setattr(make_room._Search, "_stuck", lambda self, steps: stuck)
    (harmful,) = advised(allocate(wanted(memory=8000)), crowded())[kinds.MOVES]
    assert harmful.text == f"with small moved from a to c (copies nothing); but then {stuck}"
    seen = iter([stuck])
    monkeypatch.setattr(make_room._Search, "_stuck", lambda self, steps: next(seen, ""))
    (harmless,) = advised(allocate(wanted(memory=8000)), crowded())[kinds.MOVES]
    assert harmless.moves != harmful.moves
    assert "but then" not in harmless.text


@pytest.mark.parametrize("template", ["plain", "file"])
def test_what_cannot_be_moved_is_not_suggested(template: str) -> None:
    data = crowded()
    for instance in data["instances"].values():
        instance["disk_template"] = template
    assert kinds.MOVES not in advised(allocate(wanted(memory=8000)), data)
