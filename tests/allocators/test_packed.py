"""The allocator ``packed``: legal as `balanced` is, but empty nodes stay empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ask import hail, need_hail, outcome
from clusters import KINDS, cluster, generate
from thorough import seeds

from ganeti_steward.core.config.values import Allocators, Config
from ganeti_steward.core.model.answer import Answer

Message = dict[str, Any]

PACKED = Config(
    allocators=Allocators(
        dict.fromkeys(("allocate", "multi-allocate", "relocate", "allocate-secondary"), ("packed",))
    )
)


def packed(message: Message, *options: str) -> Any:
    """The result of a request that can be answered."""
    answer = outcome(message, *options, config=PACKED)
    assert isinstance(answer, Answer), answer.info
    return answer.result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(3, 12))
def test_answers_where_balanced_does(kind: str, seed: int) -> None:
    message = cluster(seed, kind)
    assert type(outcome(message, config=PACKED)) is type(outcome(message))


@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
@pytest.mark.parametrize("seed", seeds(10, 40))
def test_hail_takes_the_same_nodes(tmp_path: Path, kind: str, seed: int) -> None:
    """Where nothing else is left to it, hail finds the place legal."""
    need_hail()
    message = cluster(seed, kind)
    answer = outcome(message, config=PACKED)
    if not isinstance(answer, Answer):
        return
    nodes = answer.result
    assert isinstance(nodes, list)
    options = ["--no-capacity-checks", f"--restrict-allocation-to={','.join(map(str, nodes))}"]
    verdicts = hail(message, tmp_path, *options)
    assert verdicts["success"], verdicts["info"]
    assert sorted(verdicts["result"]) == sorted(map(str, nodes))


def _grown(message: Message, name: str, nodes: list[str]) -> Message:
    """The cluster with the requested instance placed, and a request for the next one."""
    new: Message = json.loads(json.dumps(message))
    request = new["request"]
    body = {key: value for key, value in request.items() if key not in ("type", "required_nodes")}
    body.update(nodes=nodes, admin_state="up", hypervisor="kvm", spindle_use=1)
    new["instances"][request["name"]] = body
    for at, node in enumerate(nodes):
        new["nodes"][node]["free_disk"] -= request["disk_space_total"]
        if at == 0:
            new["nodes"][node]["free_memory"] -= request["memory"]
    request["name"] = name
    return new


@pytest.mark.parametrize(("template", "expected"), [("diskless", 1), ("drbd", 2)])
def test_empty_nodes_stay_empty(template: str, expected: int) -> None:
    """On a cluster without instances the first few share their nodes."""
    request = ["--request=allocate", f"--new-template={template}"]
    message = generate("--nodes=8", "--per-node=0", "--seed=3", *request)
    assert not message["instances"]
    used = set()
    for number in range(4):
        nodes = packed(message, "--no-capacity-checks")
        used.update(nodes)
        message = _grown(message, f"next{number}.example.com", nodes)
    assert len(used) == expected


def test_batch_shares_nodes() -> None:
    request = ["--request=multi-allocate", "--count=4", "--new-mix=diskless=1"]
    message = generate("--nodes=8", "--per-node=0", "--seed=3", *request)
    placed, failed = packed(message, "--no-capacity-checks")
    assert failed == []
    assert len({node for _, nodes in placed for node in nodes}) == 1


def test_batch_that_does_not_fit() -> None:
    request = ["--request=multi-allocate", "--count=4", "--new-mix=diskless=1"]
    message = generate("--nodes=8", "--per-node=0", "--seed=3", *request)
    last = message["request"]["instances"][-1]
    last["memory"] = 2**30
    placed, failed = packed(message, "--partial-batches")
    assert (len(placed), failed) == (3, [last["name"]])


def test_fullest_new_secondary() -> None:
    """The instance's disks go to a node that has some already, not to the empty one."""
    message = generate("--nodes=5", "--per-node=0", "--seed=3", "--request=allocate")
    request = message["request"]
    assert request["required_nodes"] == 2
    first, second, third, *_ = sorted(message["nodes"])
    message = _grown(message, "other.example.com", [first, second])
    message = _grown(message, "third.example.com", [third, second])
    message["request"] = {
        "type": "relocate",
        "name": request["name"],
        "required_nodes": 1,
        "relocate_from": [second],
        "disk_space_total": request["disk_space_total"],
    }
    assert packed(message) == [third]


def test_the_score_is_explained() -> None:
    message = generate("--nodes=5", "--per-node=2", "--seed=3", "--request=allocate")
    answer = outcome(message, config=PACKED)
    assert answer.info.endswith("(packed: the score is the primary's free share)")
