"""Every request type is described; what is also sent is read, and never fails a request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from paths import CAPTURES

from ganeti_steward.allocators import balanced
from ganeti_steward.core.hooks import hookspecs
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.iallocator.request_types import type_of
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.instance_details import DiskDetails, Nic
from ganeti_steward.core.model.requests import KINDS, Allocate, Kind, Request


def capture(name: str) -> dict[str, Any]:
    message: dict[str, Any] = json.loads((CAPTURES / f"{name}.in.json").read_text())
    return message


def read(message: dict[str, Any]) -> tuple[Cluster, Request]:
    return read_message(json.dumps(message).encode())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_is_described(kind: Kind) -> None:
    """By its hook, by the default allocator, and by the module of its name."""
    for room in (hookspecs, balanced):
        assert getattr(room, kind.hook).__annotations__["request"] == kind.value.__name__
    message = capture("allocate-drbd")
    message["request"] = {
        **message["request"],
        "type": kind.name,
        "instances": [],
        "relocate_from": [],
        "evac_mode": "all",
        "target_groups": [],
    }
    if kind.name in ("relocate", "allocate-secondary"):
        message["request"]["name"] = next(iter(message["instances"]))
    _, request = read(message)
    assert type(request) is kind.value
    assert all(isinstance(name, str) for name in type_of(request).instances(request))


def test_what_is_sent_of_a_request() -> None:
    _, request = read(capture("allocate-drbd"))
    assert isinstance(request, Allocate)
    instance = request.instance
    assert (instance.os, instance.hypervisor) == ("noop", "fake")
    assert instance.nics == (Nic("aa:00:00:8a:42:f8", "", "", "", "", ""),)
    assert instance.disk_details == (DiskDetails("rw", "labvg", "", ""),)


def test_what_is_sent_of_the_cluster() -> None:
    sent = capture("allocate-drbd")
    cluster, _ = read(sent)
    assert cluster.name == sent["cluster_name"]
    assert cluster.policy is not None
    assert cluster.policy.vcpu_ratio == sent["ipolicy"]["vcpu-ratio"]
    node = cluster.nodes[cluster.node_index["node5.lab"]]
    assert (node.primary_ip, node.secondary_ip) == ("10.77.0.15", "10.77.0.15")
    assert (node.master_candidate, node.master_capable) == (False, True)
    assert (node.primaries_memory, node.primaries_up_memory) == (3072, 3072)
    (instance,) = [one for one in cluster.instances if one.nodes[:1] == (node.name,)][:1]
    assert (instance.os, instance.hypervisor) == ("noop", "fake")
    nic = instance.nics[0]
    assert (nic.mode, nic.link, nic.bridge) == ("bridged", "lab0", "lab0")
    assert instance.disk_details[0].mode == "rw"


ODD = (None, 5, "text", [], [None], {}, {"mode": 7}, True, [["x"]])


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_values_do_not_matter(value: object) -> None:
    message = capture("allocate-drbd")
    plain = read(message)
    for node in message["nodes"].values():
        for key in ("primary_ip", "secondary_ip", "master_candidate", "i_pri_memory"):
            node[key] = value
    for instance in (*message["instances"].values(), message["request"]):
        instance.update(os=value, hypervisor=value)
        for disk in instance["disks"]:
            disk.update(vg=value, mode=value, provider=value)
        for nic in instance["nics"]:
            nic.update(nicparams=value, link=value, mac=value, ip=value)
    cluster, request = read(message)
    assert (cluster.nodes, cluster.instances, request) == (
        plain[0].nodes,
        plain[0].instances,
        plain[1],
    )
    assert isinstance(request, Allocate)
    for instance in (*cluster.instances, request.instance):
        assert all(isinstance(part, str) for nic in instance.nics for part in nic)
        assert all(isinstance(part, str) for disk in instance.disk_details for part in disk)
        assert isinstance(instance.os + instance.hypervisor, str)
    assert all(isinstance(node.primary_ip, str) for node in cluster.nodes)


def test_nothing_is_known_of_what_was_not_sent() -> None:
    message = capture("allocate-drbd")
    for node in message["nodes"].values():
        del node["primary_ip"], node["master_candidate"], node["i_pri_memory"]
    del message["request"]["os"], message["request"]["hypervisor"]
    cluster, request = read(message)
    assert isinstance(request, Allocate)
    assert (request.instance.os, request.instance.hypervisor) == ("", "")
    assert {(n.primary_ip, n.master_candidate, n.primaries_memory) for n in cluster.nodes} == {
        ("", None, None)
    }
