"""What a refusal says: the amounts that count, and the node that was already chosen."""

from __future__ import annotations

import pytest
from messages import Json, message, outcome, put, wanted

from ganeti_steward.core.config.values import Allocators, Config
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.model.answer import Answer, Refusal
from ganeti_steward.core.model.cluster_reader import read_cluster
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance, MultiAllocate


def filled(state: str) -> Json:
    """Each node has an instance of 12 GiB in this state, and also 3.5 to 4 GiB of others."""
    sent = message()
    for name, node in sent["nodes"].items():
        instance = {**wanted(f"full-{name}"), "memory": 12288, "admin_state": state}
        sent["instances"][f"full-{name}"] = {**instance, "nodes": [name]}
        node["free_memory"] -= 12288 if state == "up" else 0
    return sent


@pytest.mark.parametrize(
    ("state", "memory"),
    [
        ("up", "4 memory (8192 MiB needed, most free 4096 MiB)"),
        (
            "down",
            "4 memory (8192 MiB needed, most free 4096 MiB with stopped and forthcoming instances ",
        ),
    ],
)
def test_memory_of_stopped_instances(state: str, memory: str) -> None:
    info = outcome(put(filled(state), "request/memory", 8192)).info
    assert info.startswith(f"0/4 nodes fit: {memory}")


def test_the_largest_amount_is_of_a_node_that_was_refused_for_it() -> None:
    sent = put(filled("down"), "request/memory", 8192)
    node = sent["nodes"]["n4.test"]
    node.update(total_memory=4608, free_memory=4096)
    sent["instances"].pop("full-n4.test")
    sent["instances"]["full-n1.test"]["memory"] = 10240
    assert "(8192 MiB needed, most free 6144 MiB with stopped and" in outcome(sent).info


def test_the_primary_without_a_secondary_is_named() -> None:
    sent = message()
    sent["request"] = {"type": "allocate", **wanted("new.test", "drbd")}
    for name in ("n1.test", "n2.test", "n4.test"):
        sent["nodes"][name]["free_disk"] = 100
    refused = outcome(sent).info
    assert refused.startswith("1/4 nodes fit as primary (3 disk ")
    assert ", no secondary goes with n3.test: 3 disk " in refused


def test_the_primary_that_stays_is_named() -> None:
    sent = message("relocate")
    for name in ("n3.test", "n4.test"):
        sent["nodes"][name]["offline"] = True
    assert outcome(sent).info == "beside its primary n1.test 0/2 nodes fit: 2 offline"
    sent = put(message("allocate-secondary"), "instances/p1.test/admin_state", "down")
    for name in ("n1.test", "n2.test", "n4.test"):
        sent["nodes"][name]["offline"] = True
    assert "beside its primary n3.test 0/3 nodes fit: 3 offline" in outcome(sent).info


@pytest.mark.parametrize(("space", "fits"), [(10240, True), (102399, True), (102400, False)])
def test_a_relocation_uses_the_disk_space_of_its_request(space: int, fits: bool) -> None:
    found = outcome(put(message("relocate"), "request/disk_space_total", space))
    assert isinstance(found, Answer) is fits
    assert fits or "0/2 nodes fit: 2 disk (102401 MiB needed, most free 102400 MiB" in found.info


def test_no_allocator_for_a_type() -> None:
    cluster = read_cluster(message())
    config = Config(Allocators({"balance": (), "multi-allocate": ()}))
    for request, name in ((Balance(), "balance"), (MultiAllocate(()), "multi-allocate")):
        found = dispatch(request, cluster, config, Options(), explain=False)
        assert isinstance(found, Refusal)
        assert found.info == (
            f"the configuration names no allocator for requests of type {name}: name one in its "
            "section [allocators], or call Ganeti's command with nodes or with another iallocator"
        )
