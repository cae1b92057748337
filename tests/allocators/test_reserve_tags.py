"""Reserves as people meet them: tags, the configuration, sentences, commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from ask import outcome, steward
from asserting import some
from messages import message as small
from messages import wanted
from reserves import TAG

from ganeti_steward.allocators.state.reserves import Amount, parse_amount
from ganeti_steward.core.config.parse import read_config

if TYPE_CHECKING:
    from front import Front

Message = dict[str, Any]

NODES: Final = ("n1.test", "n2.test", "n3.test", "n4.test")


def full(*tags: str, memory: int = 6656) -> Message:
    """A request on nodes with 6144 MiB unallocated beside what is on them, with cluster tags."""
    message = small()
    message["request"] |= {"memory": 4096}
    message["instances"] = {}
    for node in message["nodes"].values():
        node |= {"total_memory": memory, "free_memory": memory - 512}
    message["cluster_tags"] = [f"{TAG}{tag}" for tag in tags]
    return message


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("4g", Amount(4096)),
        ("1.5t", Amount(1536 * 1024)),
        ("512", Amount(512)),
        ("0.5g", Amount(512)),
        ("0.05", Amount(share=0.05)),
        ("5%", Amount(share=0.05)),
        ("12.5%", Amount(share=0.125)),
        ("0", Amount()),
    ],
)
def test_amounts(text: str, amount: Amount) -> None:
    assert parse_amount(text) == amount


FAULTS: Final = {
    "memory:4x": "an amount such as 4g, or a share such as 5% or 0.05, is expected, found '4x'",
    "memory": "this is not a reserve (known behind steward:reserve:",
    "memory:": "an amount such as 4g",
    "cpus:4": "this is not a reserve",
    "volume-group:4g": "this is not a reserve",
    "volume-group::4g": "this is not a reserve",
    "hosts:0.5": "a whole number of nodes is expected, found '0.5'",
    "hosts:-1": "a whole number of nodes is expected, found '-1'",
}


@pytest.mark.parametrize("tag", FAULTS)
@pytest.mark.parametrize("place", ["cluster", "group", "node"])
def test_a_tag_that_cannot_be_read(tag: str, place: str) -> None:
    """It is ignored, and the info says so; what it would override holds."""
    message = full("memory:3g")
    places = {
        "cluster": ("the cluster", message["cluster_tags"]),
        "group": ("node group group", message["nodegroups"]["uuid-g"]["tags"]),
        "node": ("node n2.test", message["nodes"]["n2.test"]["tags"]),
    }
    name, tags = places[place]
    tags.append(TAG + tag)
    answer = steward(message)
    assert not answer["success"]
    assert "4 memory reserve" in answer["info"]
    text = FAULTS[tag]
    if tag.startswith("hosts") and place == "node":
        text = "hosts are kept free in node groups, not on a node"
    assert f"({name}: tag {TAG + tag!r} is ignored: {text}" in answer["info"]


def test_the_most_specific_place_wins() -> None:
    """Each node has the value of the place before it; they differ in what they leave."""
    message = full("memory:3g", "memory:2g")
    assert not steward(message)["success"]
    message["nodegroups"]["uuid-g"]["tags"] = [f"{TAG}memory:1g"]
    assert steward(message)["success"]
    message["nodegroups"]["uuid-g"]["tags"] = [f"{TAG}memory:2g"]
    assert not steward(message)["success"]
    message["nodes"]["n3.test"]["tags"] = [f"{TAG}memory:0"]
    assert steward(message)["result"] == ["n3.test"]


@pytest.mark.parametrize(("reserve", "fits"), [("2044", True), ("2045", False), ("2048", False)])
def test_the_limit_of_memory(reserve: str, fits: bool) -> None:
    """Of 6144 MiB an instance of 4096 leaves 2048, and 1 MiB is to spare; 2045 are read as 2048."""
    message = full()
    for node in message["nodes"].values():
        node["tags"] = [f"{TAG}memory:{reserve}"]
    assert steward(message)["success"] == fits


def test_the_sentences() -> None:
    """With the numbers of one node in the refusal, and of each in the explanation."""
    message = full("memory:4g")
    info = steward(message)["info"]
    reason = "has 6144 MiB unallocated, 4096 of these in reserve, needs 4096"
    assert info == f"Request failed: 0/4 nodes fit: 4 memory reserve (e.g. n1.test {reason})"
    (explained,) = outcome(message, explain=True).explanations
    (group,) = explained.groups  # type: ignore[union-attr]
    assert {(one.node, one.rule, one.reason) for one in group.nodes} == {
        (name, "memory reserve", reason) for name in NODES
    }
    message["request"] |= {"disk_template": "plain", "memory": 128}
    message["cluster_tags"] = [f"{TAG}disk:95g"]
    text = "has 102400 MiB of disk free, 97280 of these in reserve, needs 10240"
    assert f"4 disk reserve (e.g. n1.test {text})" in steward(message)["info"]
    message["cluster_tags"] = [f"{TAG}disk:1.0t"]
    text = "has 102400 MiB of disk free, all in the reserve of 1048576 MiB"
    assert f"4 disk reserve (e.g. n1.test {text})" in steward(message)["info"]


def test_hosts() -> None:
    """Four nodes of 6144 MiB: three hosts' worth stay free as long as one can be filled."""
    message = full("hosts:3", memory=8704)
    message["request"] = {
        "type": "multi-allocate",
        "instances": [{**wanted(f"new{at}.test"), "memory": 4000} for at in range(3)],
    }
    message["nodegroups"]["uuid-g"]["tags"] = []
    info = steward(message)["info"]
    text = "its group group has 24768 MiB unallocated, 24576 of these in reserve for 3 nodes"
    assert "1 of 3 instances has no place" in info
    assert f"{text}, needs 4000" in info
    message["nodegroups"]["uuid-g"]["tags"] = [f"{TAG}hosts:2"]
    assert steward(message)["success"]


def test_soft_rules_can_be_dropped() -> None:
    message = full("memory:4g", "hosts:4")
    assert not steward(message)["success"]
    assert steward(message, "--ignore-soft-errors")["success"]


def test_faults_of_the_configuration(front: Front) -> None:
    text = """
    [reserve]
    memory = "4x"
    disk = 4096
    volume-groups = { ssd = "2%%", hdd = "1g" }
    hosts = 1.5
    """
    front.configure(text)
    done = front("check-config")
    assert done.status == 1
    lines = done.out.splitlines()
    expected = "an amount such as 4g, or a share such as 5% or 0.05, is expected, found"
    for fault in some(
        [
            f"reserve.memory: {expected} '4x'",
            f"reserve.disk: {expected} the number 4096",
            f"reserve.volume-groups: ssd: {expected} '2%%'",
            "reserve.hosts: a whole number",
        ]
    ):
        assert any(fault in line for line in lines), (fault, lines)
    assert len(lines) == 4
    good = b'[reserve]\nmemory = "5%"\nvolume-groups = {"a:b" = "0"}'
    assert not read_config("x", good)[1]["reserve"]


def test_check_names_what_is_below(front: Front) -> None:
    """With the configuration's reserves, too; malformed tags are named."""
    message = full()
    message["nodes"]["n1.test"]["tags"] = [f"{TAG}memory:7g", f"{TAG}disk:10g"]
    message["nodes"]["n2.test"]["tags"] = [f"{TAG}disk:200g"]
    message["nodes"]["n4.test"] |= {"tags": [f"{TAG}disk:200g"], "drained": True}
    message["nodegroups"]["uuid-g"]["tags"] = [f"{TAG}cpus:1"]
    del message["request"]
    front.configure('[reserve]\nhosts = 4\nmemory = "7g"')
    message["nodes"]["n2.test"]["tags"] += [f"{TAG}memory:0"]
    done = front("check", f"--file={front.message(message)}", "--json", "--no-simulation")
    assert done.status == 1
    found = {one["kind"]: one["items"] for one in json.loads(done.out)["troubles"]}
    below = {(one["name"], one["detail"]) for one in found["reserve"]}
    memory = "memory: 6144 MiB free, 7168 MiB in reserve"
    assert below == {
        ("n1.test", memory),
        ("n2.test", "disk: 102400 MiB free, 204800 MiB in reserve"),
        ("n3.test", memory),
    }
    assert [one["name"] for one in found["reserve-tags"]] == ["node group group"]
    assert "host-reserve" not in found
    front.configure("[reserve]\nhosts = 3")
    message["nodes"]["n3.test"]["free_memory"] = 1000
    done = front("check", f"--file={front.message(message)}", "--json", "--no-simulation")
    found = {one["kind"]: one["items"] for one in json.loads(done.out)["troubles"]}
    (item,) = found["host-reserve"]
    assert item["detail"] == "13288 MiB unallocated, 18432 MiB in reserve for 3 nodes"


def test_explain_proposes_the_reserve(front: Front) -> None:
    """A single reserve that is enough; else all; also one of the configuration."""
    message = full("memory:4g")
    message["nodes"]["n2.test"]["tags"] = [f"{TAG}memory:4g"]
    proposed = proposals(front, message)
    assert "without the reserve memory:4g of the cluster" in proposed
    assert "without the reserve memory:4g of node n2.test" not in proposed
    for name in NODES:
        message["nodes"][name]["tags"] = [f"{TAG}memory:5g"]
    assert "without any reserve" in proposals(front, message)
    front.configure('[reserve]\nmemory = "50%"')
    assert "without the reserve memory:50% of the cluster" in proposals(front, full())


def proposals(front: Front, message: Message) -> list[str]:
    """What ``explain`` proposes for a refused request."""
    done = front("explain", front.message(message), "--json")
    found: list[Message] = json.loads(done.out)["suggestions"]["found"]
    return [one["text"] for one in found]


def test_capacity_counts_beside_the_reserve(front: Front) -> None:
    message = full("memory:2g")
    del message["request"]
    file = front.message(message)
    options = ("-t", "ext", "--memory=1g", "--disk=0:size=1g", "--no-capacity-checks", "--json")
    done = front("capacity", f"--file={file}", *options)
    assert done.status == 0, done.err
    run = json.loads(done.out)["runs"][0]
    # 4096 MiB beside the reserve hold 3 of 1024 and 1 MiB to spare.
    assert run["count"] == 12
    assert "memory reserve" in json.dumps(run)


def test_capacity_counts_beside_the_reserve_of_disk(front: Front) -> None:
    """10240 of 102400 MiB are kept: 8 copies of 10 GiB, 1 MiB to spare; 4 in the other group."""
    message = full("disk:10g", memory=65536)
    del message["request"]
    message["volume_group"] = "xenvg"
    for node in message["nodes"].values():
        node["volume_groups"] = {"ssd": {"total": 60000, "free": 51300}}
    file = front.message(message)
    for group, count in (("xenvg", 32), ("ssd", 16)):
        disk = f"--disk=0:size=10g,vg={group}"
        options = ("-t", "plain", "--memory=128", disk, "--no-capacity-checks", "--json")
        done = front("capacity", f"--file={file}", *options)
        assert json.loads(done.out)["runs"][0]["count"] == count


def test_aggregates_take_no_notice(front: Front) -> None:
    message = full("memory:1g", "hosts:1", "cpus:3")
    message["cluster_tags"].append("steward:unclaimable:a")
    message["nodes"]["n2.test"]["tags"] = [f"{TAG}memory:1g", "steward:aggregate:a"]
    file = front.message(message)
    done = front("aggregate", "check", f"--file={file}")
    assert TAG not in done.out + done.err
    assert "closed" not in steward(message)["info"]
