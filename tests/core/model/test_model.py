"""The snapshot of a cluster."""

from __future__ import annotations

import json

import pytest
from messages import Json, message

from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Disk, Instance


def _instance(**more: object) -> Instance:
    sent = message()
    sent["instances"]["e1.test"] |= more
    cluster, _ = read_message(json.dumps(sent).encode())
    return cluster.instances[cluster.instance_index["e1.test"]]


def test_everything_is_in_the_order_of_its_name() -> None:
    sent = message()
    sent["nodegroups"]["a-uuid"] = {**sent["nodegroups"]["uuid-g"], "name": "zz"}
    sent["nodegroups"]["b-uuid"] = {**sent["nodegroups"]["uuid-g"], "name": "zz"}
    for part in ("nodes", "instances", "nodegroups"):
        sent[part] = dict(reversed(sent[part].items()))
    cluster, _ = read_message(json.dumps(sent).encode())
    assert [group.uuid for group in cluster.groups] == ["uuid-g", "a-uuid", "b-uuid"]
    assert [node.name for node in cluster.nodes] == sorted(sent["nodes"])
    assert [instance.name for instance in cluster.instances] == sorted(sent["instances"])
    assert all(cluster.nodes[at].name == name for name, at in cluster.node_index.items())
    assert cluster.groups_named("zz") == [1, 2]
    assert cluster.groups_named("a-uuid") == [1]
    assert cluster.groups_named("nowhere") == []


def test_a_snapshot_cannot_be_changed() -> None:
    cluster, _ = read_message(json.dumps(message()).encode())
    with pytest.raises(AttributeError, match="cannot be changed"):
        cluster.nodes = ()


@pytest.mark.parametrize(
    ("flags", "live", "usable", "condition"),
    [
        ({}, True, True, ""),
        ({"offline": True, "drained": True}, False, False, "offline"),
        ({"vm_capable": False, "drained": True}, False, False, "not vm_capable"),
        ({"drained": True}, True, False, "drained"),
    ],
)
def test_condition_of_a_node(flags: Json, live: bool, usable: bool, condition: str) -> None:
    sent = message()
    sent["nodes"]["n1.test"] |= flags
    cluster, _ = read_message(json.dumps(sent).encode())
    node = cluster.nodes[0]
    assert (node.live, node.usable, node.condition) == (live, usable, condition)
    # A drained node keeps its figures, one that is not live has none.
    assert (node.free_memory, node.total_disk) == ((16384, 102400) if live else (0, 0))


@pytest.mark.parametrize(
    ("state", "uses", "counts", "reserved"),
    [
        ("up", True, True, 1024),
        ("down", False, True, 1024),
        ("offline", False, False, 0),
        ("strange", True, True, 1024),
        (None, True, True, 1024),
        ([], True, True, 1024),
    ],
)
def test_state_of_an_instance(state: object, uses: bool, counts: bool, reserved: int) -> None:
    instance = _instance(admin_state=state)
    assert (instance.uses_memory, instance.counts_vcpus, instance.reserved) == (
        *(uses, counts),
        reserved,
    )


def test_announced_instance_uses_no_memory_yet() -> None:
    assert _instance(forthcoming=True).uses_memory is False


@pytest.mark.parametrize(
    ("disks", "spindles"),
    [
        ([], 0),
        ([{"size": 1, "spindles": 2}, {"size": 1, "spindles": 0}], 2),
        ([{"size": 1, "spindles": 2}, {"size": 1}], None),
        ([{"size": 1, "spindles": None}], None),
    ],
)
def test_spindles(disks: list[Json], spindles: int | None) -> None:
    instance = _instance(disks=disks)
    assert instance.spindles == spindles
    assert instance.disks == tuple(Disk(1, disk.get("spindles")) for disk in disks)


@pytest.mark.parametrize(
    ("nics", "networks"),
    [
        ([], ()),
        ([{"mode": "bridged"}, {"mode": None, "network": None}, {}], ()),
        ([{"network": "a"}, {"mode": "routed", "network": "b"}, {"network": "a"}], ("a", "b", "a")),
    ],
)
def test_networks(nics: list[Json], networks: tuple[str, ...]) -> None:
    assert _instance(nics=nics).networks == networks
