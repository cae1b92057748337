"""Requests a real Ganeti sent: hail's verdict, and its nodes or others that score the same."""

from __future__ import annotations

import json
import re
from typing import Any

import messages
import pytest
from paths import CAPTURES

NAMES = sorted(file.name.removesuffix(".in.json") for file in CAPTURES.glob("*.in.json"))
MOVES = [name for name in NAMES if name.startswith(("node-evacuate", "change-group"))]

Json = dict[str, Any]

#: hail refuses a batch as a whole; here what fits is placed.
PARTIAL = "multi-allocate-refused"


def _capture(name: str) -> tuple[bytes, Json, tuple[str, ...]]:
    raw = (CAPTURES / f"{name}.in.json").read_bytes()
    hail: Json = json.loads((CAPTURES / f"{name}.out.json").read_bytes())
    index = {entry["name"]: entry for entry in json.loads((CAPTURES / "index.json").read_bytes())}
    return raw, hail, tuple(index[name]["arguments_after_file"])


def _score(answer: Json) -> str:
    """The score of the chosen place as the info gives it."""
    chosen = re.search(r"Selected group: ([^,]+),", answer["info"])
    assert chosen
    score = re.search(rf"Group {chosen[1]} \(\w+\): score: ([\d.]+),", answer["info"])
    assert score
    return score[1]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*MOVES, PARTIAL)])
def test_capture(name: str) -> None:
    raw, hail, options = _capture(name)
    answer = messages.answer(raw, *options)
    assert answer["success"] == hail["success"], answer["info"]
    # hail's order of the nodes decides ties, ours is by name.
    assert answer["result"] == hail["result"] or _score(answer) == _score(hail)


def test_batch_that_fits_in_part() -> None:
    raw, hail, options = _capture(PARTIAL)
    answer = messages.answer(raw, *options)
    assert (hail["success"], hail["result"]) == (False, [])
    assert (answer["success"], answer["result"]) == (False, [])
    begin = "Request failed: 1 of 2 instances has no place, so none is placed ("
    assert answer["info"].startswith(begin)
    assert "; m4.lab: " in answer["info"]
    assert messages.answer(raw, *options, "--partial-batches=no") == answer
    answer = messages.answer(raw, *options, "--partial-batches")
    assert (answer["success"], answer["result"]) == (
        True,
        [[["m3.lab", ["node6.lab"]]], ["m4.lab"]],
    )


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    raw, hail, options = _capture(name)
    answer = messages.answer(raw, *options)
    assert answer["success"] == hail["success"] is True
    (moved, failed, jobs), (theirs, their_failed, their_jobs) = answer["result"], hail["result"]
    assert [name for name, _ in failed] == [name for name, _ in their_failed]
    assert all(f"{name}: {reason}" in answer["info"] for name, reason in failed)
    if name == "node-evacuate-primary-diskless":
        # Two empty nodes are equal; hail's order of the nodes decides, ours is by name.
        assert [(name, group) for name, group, _ in moved] == [(n, g) for n, g, _ in theirs]
    else:
        assert (moved, jobs) == (theirs, their_jobs)
