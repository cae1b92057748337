"""The score after an answer is what the search announced for its place, and what hail did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from ask import announced_score, hail, need_hail, steward
from clusters import cluster
from thorough import seeds

from ganeti_steward.allocators.score.cluster_score import score_after
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.requests import Allocate, Relocate
from ganeti_steward.plugins.shadow.shadows import places

Message = dict[str, Any]


def score(message: Message, result: Any) -> float:
    snapshot, request = read_message(orjson.dumps(message))
    found = places(Answer(result, ""), request, snapshot)
    known = isinstance(request, Allocate | Relocate)
    return score_after(snapshot, found, found[0][0].template if known else None, 4096)


@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
@pytest.mark.parametrize("seed", range(25))
def test_as_announced(tmp_path: Path, kind: str, seed: int) -> None:
    need_hail()
    message = cluster(seed, kind)
    for answer in (steward(message), hail(message, tmp_path)):
        if not answer["success"] or "score: ([" in answer["info"]:
            continue
        place = answer["result"]
        assert score(message, place) == pytest.approx(announced_score(answer, place), abs=1e-7)


@pytest.mark.parametrize("seed", seeds(4, 10))
def test_the_order_does_not_matter(seed: int) -> None:
    message = cluster(seed, "multi-allocate")
    placed, failed = steward(message)["result"] or ([], [])
    if not placed:
        return
    assert score(message, [placed, failed]) == pytest.approx(
        score(message, [placed[::-1], failed]), abs=1e-9
    )


def test_all_leave_before_the_first_arrives() -> None:
    """Two instances that change places: neither is in the other's way, nothing else changes."""
    message = cluster(2, "relocate")
    moving = [
        (name, one["nodes"]) for name, one in message["instances"].items() if len(one["nodes"]) == 2
    ]
    name, nodes = moving[0]
    message["request"] = {"type": "node-evacuate", "instances": [name], "evac_mode": "all"}
    stays = score(message, [[[name, "", nodes]], [], []])
    turned = score(message, [[[name, "", nodes[::-1]]], [], []])
    back = score(message, [[[name, "", nodes[::-1]], [name, "", nodes]], [], []])
    assert stays == pytest.approx(back, abs=1e-12)
    assert stays != pytest.approx(turned, abs=1e-6)
