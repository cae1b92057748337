"""Damaged input gives one sentence or one valid answer, never anything else.

``contrib/test --thorough`` tries 100 000 messages; a failure names its seed, from which
``mutation.damaged`` makes the same message again.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import mutation
import pytest
from thorough import seeds

from ganeti_steward.core.config.values import Allocators, Config
from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.iallocator.dispatch import answer_message
from ganeti_steward.core.iallocator.message import read_message, write_answer
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.model.requests import (
    Allocate,
    AllocateSecondary,
    Balance,
    Capacity,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
    Request,
)

BLOCK = 250

#: A request of this size takes milliseconds; one that hangs must not hang the tests.
CONFIG = Config(allocators=Allocators(time_limit=60))


@pytest.mark.parametrize("first", [BLOCK * at for at in seeds(2, 400)])
def test_damaged_message(first: int) -> None:
    met = Counter(_judge(seed) for seed in range(first, first + BLOCK))
    # Damage that never (or always) prevents an answer would test little.
    assert len(met) == 3, met


@pytest.mark.parametrize("seed", [10158])
def test_messages_that_were_not_answered_once(seed: int) -> None:
    """A drbd instance whose spindles are not known, on nodes with dedicated ones."""
    assert _judge(seed) == "answer"


def _judge(seed: int) -> str:
    raw, options = mutation.damaged(seed)
    try:
        outcome = answer_message(raw, parse_options(options), CONFIG, explain=seed % 4 == 0)
    except BadInput as err:
        sentence = str(err)
        assert sentence.isprintable(), f"seed {seed}: {sentence!r}"
        assert 0 < len(sentence) < 3000, f"seed {seed}: {sentence!r}"
        return "fault"
    written = write_answer(outcome)
    assert written.count(b"\n") == 1, f"seed {seed}: {written!r}"
    answer = json.loads(written)
    assert list(answer) == ["success", "info", "result"], f"seed {seed}"
    assert isinstance(answer["info"], str), f"seed {seed}"
    # The dispatcher turns a crash of the engine into a refusal; here it is a failure.
    assert "plugin balanced" not in answer["info"], f"seed {seed}: {answer['info']}"
    if not answer["success"]:
        assert (answer["success"], answer["result"]) == (False, []), f"seed {seed}"
        return "refusal"
    assert answer["success"] is True, f"seed {seed}"
    cluster, request = read_message(raw)
    assert _fits(answer["result"], request, cluster), f"seed {seed}: {answer}"
    return "answer"


def _fits(result: object, request: Request, cluster: Cluster) -> bool:
    if isinstance(request, AllocateSecondary):
        return _are_usable([result], 1, cluster)
    if isinstance(request, Allocate | Relocate):
        return _are_usable(result, request.required_nodes, cluster)
    if isinstance(request, Capacity):
        return _are_copies(result, request, cluster)
    assert isinstance(result, list)
    if isinstance(request, NodeEvacuate | ChangeGroup):
        return _are_moved(result, request, cluster)
    if isinstance(request, Balance):
        return _is_plan(result, request, cluster)
    assert isinstance(request, MultiAllocate)
    placed, failed = result
    names = [item.instance.name for item in request.items]
    return Counter([*(name for name, _ in placed), *failed]) == Counter(names) and all(
        _are_usable(nodes, len(nodes), cluster)
        and any(_requests(item, name, len(nodes)) for item in request.items)
        for name, nodes in placed
    )


def _are_copies(result: object, request: Capacity, cluster: Cluster) -> bool:
    assert isinstance(result, dict)
    placements, required = result["placements"], request.item.required_nodes
    return result["count"] == len(placements) and all(
        _are_usable(nodes, required, cluster) for nodes in placements
    )


def _is_plan(result: list[Any], request: Balance, cluster: Cluster) -> bool:
    moved, failed, jobs = result
    limit = len(jobs) if request.max_moves is None else request.max_moves
    return (
        failed == []
        and len(moved) == len(jobs) <= limit
        and all(
            name in cluster.instance_index and {op["instance_name"] for op in job} == {name}
            for (name, _, _), job in zip(moved, jobs, strict=True)
        )
    )


def _are_moved(result: list[Any], request: NodeEvacuate | ChangeGroup, cluster: Cluster) -> bool:
    """Whether each instance is moved to usable nodes, or named with a reason."""
    moved, failed, jobs = result
    names = [*(name for name, _, _ in moved), *(name for name, _ in failed)]
    return (
        Counter(names) == Counter(request.instances)
        and len(jobs) == len(moved)
        and all(reason for _, reason in failed)
        and all(
            _are_usable(
                [n for n in nodes if n not in old], len(nodes) - len(set(nodes) & set(old)), cluster
            )
            for name, _, nodes in moved
            for old in [cluster.instances[cluster.instance_index[name]].nodes]
        )
    )


def _requests(item: Allocate, name: str, nodes: int) -> bool:
    return item.instance.name == name and item.required_nodes == nodes


def _are_usable(names: object, number: int, cluster: Cluster) -> bool:
    """Whether Ganeti would accept these nodes: known, usable, different, as many."""
    return (
        isinstance(names, list)
        and len(set(names)) == len(names) == number
        and all(cluster.nodes[cluster.node_index[name]].usable for name in names)
    )
