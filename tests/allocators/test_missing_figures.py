"""Nodes that do not report all figures: null in Ganeti's message, whatever the request."""

from __future__ import annotations

import copy
import itertools
import json
import math
import subprocess
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final
from unittest.mock import patch

import orjson
import pytest
from ask import need_hail, steward
from asserting import some
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CAPTURES, DATA
from thorough import often

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator import dispatch as dispatching
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.iallocator.request_types import outcome_fault
from ganeti_steward.core.model.answer import Answer, Refusal
from ganeti_steward.core.model.explanation import Explanation
from ganeti_steward.core.model.options import Options
from ganeti_steward.plugins.shadow.shadows import places

Json = dict[str, Any]

HYPERVISOR: Final = (
    "total_memory",
    "reserved_memory",
    "free_memory",
    "total_cpus",
    "reserved_cpus",
)
DISK: Final = ("total_disk", "free_disk")
SPINDLES: Final = ("total_spindles", "free_spindles")
#: What Ganeti sends beside them; null there has no effect on an answer.
OTHER: Final = (
    "i_pri_memory",
    "i_pri_up_memory",
    "primary_ip",
    "secondary_ip",
    "master_candidate",
    "master_capable",
    "vm_capable",
    "hv_state",
    "disk_state",
    "tags",
)
#: Requests of a real Ganeti after node3.lab had lost its volume group (``lab-storage lose-vg``).
LOST: Final = DATA / "lost-volume-group"
PARAMS: Final = ("exclusive_storage", "spindle_count", "cpu_speed", "oob_program", "ovs")
LOCAL: Final = ("drbd", "plain")

NODES: Final = tuple(f"node{number}.lab" for number in range(1, 7))

#: Requests of a real Ganeti, all on the cluster of six nodes in two groups.
CAPTURED: Final = (
    "allocate-drbd",
    "allocate-ext",
    "allocate-plain-with-spindles",
    "allocate-sharedfile",
    "allocate-secondary-plain-to-drbd",
    "multi-allocate-two",
    "relocate-drbd",
    "relocate-sharedfile",
    "node-evacuate-all-drbd",
    "node-evacuate-primary-drbd",
    "node-evacuate-primary-diskless",
    "node-evacuate-secondary-drbd",
    "change-group-drbd",
    "change-group-sharedfile-named-group",
)
REQUESTS: Final = (*CAPTURED, "balance", "capacity-drbd", "capacity-ext")


def captured(name: str) -> Json:
    """A captured message; balance and capacity are requested of captured clusters."""
    if name == "balance":
        return captured("node-evacuate-all-drbd") | {"request": {"type": "balance"}}
    if name.startswith("capacity"):
        found = captured(name.replace("capacity", "allocate"))
        # Large enough for a few to fill the cluster.
        found["request"] |= {"type": "capacity", "memory": 12000}
        return found
    found = json.loads((CAPTURES / f"{name}.in.json").read_bytes())
    assert set(found["nodes"]) == set(NODES)
    return found


def without(message: Json, node: str, keys: Collection[str]) -> Json:
    """The message with null for some of a node's figures."""
    sent = copy.deepcopy(message)
    entry = sent["nodes"][node]
    entry |= dict.fromkeys(key for key in keys if key not in PARAMS)
    entry["ndparams"] |= dict.fromkeys(key for key in keys if key in PARAMS)
    return sent


def checked(message: Json) -> Answer | Refusal:
    """The outcome, after its check against the message."""
    cluster, request = read_message(orjson.dumps(message))
    with patch.object(dispatching, "log_failure", side_effect=AssertionError):
        outcome = dispatching.dispatch(request, cluster, Config(), Options(), explain=True)
    assert outcome_fault(outcome, request, cluster) == ""
    assert "nan" not in outcome.info
    for one in outcome.explanations:
        if isinstance(one, Explanation):
            assert math.isfinite(one.score_before)
    if isinstance(outcome, Answer):
        for template, nodes, before in _placed(message, outcome, request, cluster):
            _check_targets(message, template, nodes, before)
    return outcome


@cache
def unchanged(name: str) -> Answer | Refusal:
    """The outcome of a captured message as it is."""
    return checked(captured(name))


def _placed(
    message: Json, answer: Answer, request: Any, cluster: Any
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each placed instance: its template, its nodes, and those it had."""
    if message["request"]["type"] == "capacity":
        result: Any = answer.result
        template = message["request"]["disk_template"]
        yield from ((template, list(nodes), []) for nodes in result["placements"])
        return
    for instance, nodes in places(answer, request, cluster):
        before = message["instances"].get(instance.name, {"nodes": []})["nodes"]
        yield instance.template, list(nodes), before


def _check_targets(message: Json, template: str, nodes: list[str], before: list[str]) -> None:
    """New nodes, and a new primary among the old ones, report what the instance needs."""
    for role, name in enumerate(nodes):
        if name in before and (role > 0 or name == before[0]):
            continue
        node = message["nodes"][name]
        assert all(node[key] is not None for key in HYPERVISOR)
        if template in LOCAL:
            exclusive = node["ndparams"]["exclusive_storage"]
            needed = (*DISK, *SPINDLES) if exclusive else DISK
            assert all(node[key] is not None for key in needed)


def figures_and_requests() -> list[tuple[str, str]]:
    """Every request with each figure that counts, and usually a third of those that do not."""
    without_effect = [
        (figure, name)
        for at, figure in enumerate((*OTHER, *PARAMS))
        for name in REQUESTS[at % often(3, 1) :: often(3, 1)]
    ]
    counting = (*HYPERVISOR, *DISK, *SPINDLES)
    return [*itertools.product(counting, REQUESTS), *without_effect]


@pytest.mark.parametrize(("figure", "name"), figures_and_requests())
@pytest.mark.parametrize("node", ["node5.lab", "node1.lab"][: often(1, 2)])
def test_each_figure(figure: str, node: str, name: str) -> None:
    message = captured(name)
    outcome = checked(without(message, node, [figure]))
    if figure in (*SPINDLES, *OTHER, *PARAMS):
        assert outcome == unchanged(name)


@pytest.mark.parametrize("name", REQUESTS)
@settings(max_examples=often(5, 200))
@given(data=st.data())
def test_each_subset(name: str, data: st.DataObject) -> None:
    message = captured(name)
    for instance in message["instances"].values():
        for disk in instance["disks"]:
            disk["spindles"] = 1
    if data.draw(st.booleans()):
        # Figures that can be about drbd and plain.
        for entry in message["nodes"].values():
            if "free_disk" in entry:
                entry["free_disk"] -= min(entry["free_disk"], 200_000)
    for node in data.draw(st.lists(st.sampled_from(NODES), unique=True)):
        entry = message["nodes"][node]
        entry["ndparams"]["exclusive_storage"] = data.draw(st.booleans())
        entry["drained"] = data.draw(st.booleans())
        figures = st.sampled_from((*HYPERVISOR, *DISK, *SPINDLES, *OTHER, *PARAMS[1:]))
        message = without(message, node, data.draw(st.lists(figures, unique=True)))
    checked(message)


def only(message: Json, *nodes: str) -> Json:
    """An allocation that may use these nodes only."""
    return message | {"request": message["request"] | {"restrict-to-nodes": list(nodes)}}


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("allocate-drbd", ["node6.lab", "node5.lab"]),
        (
            "node-evacuate-primary",
            {"dl1.lab": ["node2.lab"], "drbd3.lab": ["node1.lab", "node3.lab"]},
        ),
        ("node-evacuate-secondary", {"drbd2.lab": ["node2.lab", "node1.lab"]}),
    ],
)
def test_a_node_that_lost_its_volume_group(name: str, result: object) -> None:
    message = json.loads((LOST / f"{name}.in.json").read_bytes())
    null = {key for key, value in message["nodes"]["node3.lab"].items() if value is None}
    assert null == set(DISK)
    found: Any = checked(message).result  # type: ignore[union-attr]
    if isinstance(result, dict):
        moved, failed, _ = found
        assert failed == []
        found = {name: nodes for name, _, nodes in moved}
    assert found == result


def test_hail_refuses_everything_then() -> None:
    """As the table of differences says."""
    for file in some(LOST.glob("*.in.json")):
        done = subprocess.run(
            [need_hail(), str(file)], capture_output=True, text=True, check=False, timeout=300
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "node 'node3.lab': key 'total_disk': Unable to read Double" in done.stderr


@pytest.mark.parametrize("figure", HYPERVISOR)
def test_no_instance_without_memory_and_cpus(figure: str) -> None:
    message = without(captured("allocate-ext"), "node1.lab", [figure])
    refusal = steward(only(message, "node1.lab"))
    assert refusal["success"] is False
    lack = f"node1.lab does not report its {figure.replace('_', ' ')}"
    assert f"1 silent (e.g. {lack})" in refusal["info"]


@pytest.mark.parametrize("figures", [DISK, DISK[:1], DISK[1:]])
def test_no_local_storage_without_disk_figures(figures: tuple[str, ...]) -> None:
    drbd = without(captured("allocate-drbd"), "node1.lab", figures)
    refusal = steward(only(drbd, "node1.lab", "node2.lab"))
    lack = f"node1.lab does not report its {', '.join(figures).replace('_', ' ')}"
    assert refusal["success"] is False
    assert f"1 disk not reported (e.g. {lack})" in refusal["info"]
    ext = without(captured("allocate-ext"), "node1.lab", figures)
    assert steward(only(ext, "node1.lab"))["result"] == ["node1.lab"]


def test_the_reason_in_an_explanation() -> None:
    message = without(captured("allocate-drbd"), "node1.lab", DISK)
    message = without(message, "node2.lab", HYPERVISOR)
    (explanation,) = checked(message).explanations
    assert isinstance(explanation, Explanation)
    texts = {
        (node.node, node.rule, node.reason) for group in explanation.groups for node in group.nodes
    }
    assert ("node1.lab", "disk not reported", "does not report its total disk, free disk") in texts
    assert ("node2.lab", "silent", "the node is silent: it does not report its figures") in texts


def test_a_whole_cluster_without_figures() -> None:
    message = captured("allocate-drbd")
    for node in NODES:
        message = without(message, node, (*HYPERVISOR, *DISK, *SPINDLES))
    outcome = checked(message)
    assert isinstance(outcome, Refusal)
    assert outcome.info.count("3 silent (e.g. node") == 2


@pytest.mark.parametrize("mode", ["primary-only", "secondary-only", "all"])
@pytest.mark.parametrize("keys", [DISK, HYPERVISOR, (*HYPERVISOR, *DISK)])
@pytest.mark.parametrize("drained", [False, True])
def test_evacuation_of_the_node_itself(drained: bool, keys: tuple[str, ...], mode: str) -> None:
    message = without(captured("node-evacuate-all-drbd"), "node1.lab", keys)
    message["nodes"]["node1.lab"]["drained"] = drained
    at = {"primary-only": [0], "secondary-only": [1], "all": [0, 1]}[mode]
    names = [
        name
        for name, instance in message["instances"].items()
        if instance["disk_template"] == "drbd" and "node1.lab" in [instance["nodes"][i] for i in at]
    ]
    message["request"] |= {"instances": names, "evac_mode": mode}
    moved, failed, _ = checked(message).result  # type: ignore[union-attr,misc]
    assert failed == []
    assert sorted(name for name, _, _ in moved) == sorted(names) != []
    for _, _, nodes in moved:
        assert "node1.lab" not in (nodes if mode == "all" else [nodes[i] for i in at])


def test_relocation_off_the_node() -> None:
    message = captured("relocate-drbd")
    (leave,) = message["request"]["relocate_from"]
    (new,) = checked(without(message, leave, DISK)).result  # type: ignore[union-attr]
    assert new != leave


def test_nothing_is_copied_from_a_primary_without_disk_figures() -> None:
    message = captured("relocate-drbd")
    primary, _ = message["instances"][message["request"]["name"]]["nodes"]
    outcome = checked(without(message, primary, DISK))
    assert isinstance(outcome, Refusal)
    lack = "does not report its total disk, free disk"
    assert outcome.info == f"its primary {primary} cannot keep it: {lack}"


def test_balancing_leaves_disks_on_the_node() -> None:
    message = captured("balance")
    moved = checked(message).result[0]  # type: ignore[union-attr,index]
    names = {name for name, _, _ in moved}
    assert names
    away = {message["instances"][name]["nodes"][0] for name in names}
    for node in away:
        result: Any = checked(without(message, node, DISK)).result  # type: ignore[union-attr]
        for name, _, _ in result[0]:
            assert node not in message["instances"][name]["nodes"]


def test_the_node_adds_nothing_to_the_spread() -> None:
    """It counts with the average share of free disk, as long as nothing else changes."""
    message = captured("allocate-drbd")
    for node in message["nodes"].values():
        node["free_disk"] = node["total_disk"] // 2
    even = checked(message)
    outcome = checked(without(message, "node6.lab", DISK))
    for one in (*even.explanations, *outcome.explanations):
        assert isinstance(one, Explanation)
    before = [one.score_before for one in (*even.explanations, *outcome.explanations)]  # type: ignore[union-attr]
    assert before[0] == pytest.approx(before[1], abs=1e-12)


@pytest.mark.parametrize("value", ["100", True, [], {}])
@pytest.mark.parametrize("key", ["free_memory", "total_disk"])
def test_a_wrong_type_stays_a_fault(key: str, value: object) -> None:
    message = without(captured("allocate-drbd"), "node1.lab", ["reserved_memory", "free_disk"])
    message["nodes"]["node1.lab"][key] = value
    with pytest.raises(Exception, match=f"node 'node1.lab': key '{key}': a (whole )?number"):
        read_message(orjson.dumps(message))


@pytest.mark.parametrize("key", ["offline", "drained", "group"])
def test_what_ganeti_never_sends_as_null_stays_a_fault(key: str) -> None:
    message = captured("allocate-drbd")
    message["nodes"]["node1.lab"][key] = None
    with pytest.raises(Exception, match=f"node 'node1.lab': key '{key}': .* found null"):
        read_message(orjson.dumps(message))


def test_null_beside_the_nodes() -> None:
    """What Ganeti can leave empty of instances and requests."""
    message = captured("allocate-drbd")
    expected = checked(message)
    for instance in message["instances"].values():
        instance.update(dict.fromkeys(("os", "hypervisor", "disks_active", "admin_state")))
        for disk in instance["disks"]:
            disk.update(dict.fromkeys(("spindles", "mode", "dev_type", "name")))
        for nic in instance["nics"]:
            nic.update(dict.fromkeys(("ip", "mac", "mode", "link", "bridge", "network")))
    request = message["request"]
    request |= dict.fromkeys(("group_name", "restrict-to-nodes", "os", "hypervisor"))
    request["nics"] = [dict.fromkeys(("ip", "mac", "name", "network", "uuid", "nicparams"))]
    assert checked(message) == expected
