"""Figures of single nodes that contradict its instances, or are 0: judged node by node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ask import hail, steward
from messages import message as sent
from messages import put
from paths import DATA

if TYPE_CHECKING:
    from front import Front

FIGURES = DATA / "figures"
ODD = "(n2.test used last: less disk in use than instances have)"


def message(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FIGURES / f"{name}.json").read_bytes())
    return loaded


def test_one_odd_node_leaves_the_disk_check_of_all_others(tmp_path: Path) -> None:
    """n2 reports 4 MiB less in use than its instances have; n3 has 100 MiB free."""
    request = message("evacuate-one-odd-node")
    ours, theirs = steward(request), hail(request, tmp_path)
    assert ours["result"] == theirs["result"]
    assert ours["result"][0] == [["i1.test", "g1", ["n1.test", "n4.test"]]]
    assert ours["info"].endswith(ODD)


def test_an_odd_node_takes_no_disks() -> None:
    (placed,), failed = steward(message("multi-allocate-one-odd-node"))["result"]
    assert placed[1] == ["n4.test", "n1.test"]
    assert failed == []


def test_a_request_for_a_local_template_has_the_right_figures(tmp_path: Path) -> None:
    request = message("allocate-one-odd-node")
    assert steward(request)["result"] == hail(request, tmp_path)["result"] == ["n4.test", "n2.test"]


def test_figures_mean_the_same_on_all_nodes_and_on_few(tmp_path: Path) -> None:
    """Nothing is in use on any node: what is free is what the node says."""
    request = message("evacuate-one-odd-node")
    for node in request["nodes"].values():
        node["free_disk"] = node["total_disk"]
    assert steward(request)["result"] == hail(request, tmp_path)["result"]
    for node in request["nodes"].values():
        node["free_disk"] = node["total_disk"] = 0
    answer = steward(request)
    assert answer["result"][1] == []
    assert answer["info"].endswith("was not checked: the request has no figures on it)")


def test_balance_copies_no_disks_beyond_what_is_free(front: Front) -> None:
    done = front("balance", "--text-data", str(FIGURES / "balance-one-odd-node.data"))
    assert not any("-n n2" in line or "-n n3" in line for line in done.out.splitlines()), done.out


def test_a_node_without_cpus_takes_no_vcpus(tmp_path: Path) -> None:
    request = message("node-without-cpus")
    ours = steward(request)
    assert ours["result"][0] == hail(request, tmp_path)["result"][0] == "n3.test"
    assert "FailCPU: 3" in ours["info"]


@pytest.mark.parametrize(("vcpus", "fits"), [(8, True), (9, False)])
def test_the_last_vcpu_of_the_ratio_can_be_used(vcpus: int, fits: bool, tmp_path: Path) -> None:
    """Nodes of 8 CPUs without instances, at most one vcpu for each CPU."""
    request = sent("allocate")
    request["instances"] = {}
    for node in request["nodes"].values():
        node.update(total_cpus=8, reserved_cpus=0)
    for group in request["nodegroups"].values():
        group["ipolicy"]["vcpu-ratio"] = 1.0
    put(request, "request/vcpus", vcpus)
    ours = steward(request)
    assert (ours["success"], "vcpus" in ours["info"]) == (fits, not fits), ours["info"]
    assert hail(request, tmp_path)["success"] == fits


def test_one_of_several_ranges_is_enough(tmp_path: Path) -> None:
    """The first one is too small for the memory, the second one is not."""
    request = sent("allocate")
    memory = request["request"]["memory"]
    for group in request["nodegroups"].values():
        policy = group["ipolicy"]
        (wide,) = policy["minmax"]
        narrow = {"min": wide["min"], "max": wide["max"] | {"memory-size": memory - 1}}
        policy["minmax"] = [narrow, wide]
    assert steward(request)["success"]
    assert hail(request, tmp_path)["success"]
    for group in request["nodegroups"].values():
        group["ipolicy"]["minmax"].pop()
    assert not steward(request)["success"]


@pytest.mark.parametrize("node", ["n1.test", "n4.test"])
def test_a_negative_vcpu_ratio_switches_the_rule_off(node: str, tmp_path: Path) -> None:
    request = message("node-without-cpus")
    request["nodes"][node]["total_cpus"] = 0
    for group in request["nodegroups"].values():
        group["ipolicy"]["vcpu-ratio"] = -1.0
    assert "FailCPU" not in steward(request)["info"]
    assert "FailCPU" not in hail(request, tmp_path)["info"]


def test_tiered_capacity_goes_on_when_only_the_capacity_test_refuses(front: Front) -> None:
    """A smaller disk lets a fifth in, as with hspace, and all nodes stay evacuable."""
    done = front(
        *("capacity", "--text-data", str(FIGURES / "tiered.data"), "--disk-template=plain"),
        *("--only=tiered", "--json"),
    )
    (tiered,) = json.loads(done.out)["runs"]
    assert tiered["count"] == 5
