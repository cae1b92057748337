"""A message with exactly the keys that Ganeti's doc/iallocator lists is answered."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from messages import GONE, Json, answer, message, put

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.instance_details import Nic
from ganeti_steward.core.model.requests import Allocate

PAGE: Final = Path(__file__).parents[3] / "docs" / "reference" / "allocator.md"

TOP: Final = (
    *("version", "cluster_name", "cluster_tags", "enabled_hypervisors", "ipolicy"),
    *("request", "nodegroups", "instances", "nodes"),
)
NODE: Final = (
    *("total_disk", "free_disk", "total_memory", "free_memory", "total_cpus", "primary_ip"),
    *("secondary_ip", "tags", "master_candidate", "drained", "offline", "i_pri_memory"),
    *("i_pri_up_memory", "group"),
)
INSTANCE: Final = (
    *("disks", "nics", "vcpus", "disk_template", "memory", "os", "tags", "hypervisor"),
    *("admin_state", "nodes"),
)
REQUEST: Final = ("type", "name", "required_nodes", "disk_space_total", *INSTANCE[:-2])
NIC: Final[Json] = {"ip": None, "mac": "aa:00:00:60:bf:01", "bridge": "xen-br0"}

#: Where a key is that Ganeti sends and its documentation does not list -> what stands for it.
DEFAULTS: Final[tuple[tuple[str, str, object], ...]] = (
    ("nodes/n1.test/ndparams", "spindles", 1),
    ("nodes/n1.test/reserved_memory", "reserved_memory", 0),
    ("nodes/n1.test/reserved_cpus", "reserved_cpus", 1),
    ("nodes/n1.test/free_spindles", "free_spindles", 0),
    ("instances/d1.test/spindle_use", "spindle_use", 1),
    ("instances/d1.test/disk_space_total", "disk_space", 10240 + 128),
    ("instances/p1.test/disk_space_total", "disk_space", 10240),
)


def read(sent: Json) -> tuple[Cluster, Any]:
    return read_message(orjson.dumps(sent))


def documented() -> Json:
    sent = message()
    for entry in sent["nodes"].values():
        entry |= {"primary_ip": "192.0.2.1", "secondary_ip": "198.51.100.1"}
        entry |= {"master_candidate": True, "i_pri_memory": 1024, "i_pri_up_memory": 1024}
    for entry in (*sent["instances"].values(), sent["request"]):
        disks = [{"mode": "rw", "size": disk["size"]} for disk in entry["disks"]]
        entry |= {"os": "debian", "hypervisor": "xen-pvm", "admin_state": "up"}
        entry |= {"nics": [NIC], "disks": disks}
    sent["nodes"] = {name: only(entry, NODE) for name, entry in sent["nodes"].items()}
    sent["instances"] = {name: only(one, INSTANCE) for name, one in sent["instances"].items()}
    sent["request"] = only(sent["request"], REQUEST)
    return only(sent, TOP)


def only(entry: Json, keys: tuple[str, ...]) -> Json:
    return {key: entry[key] for key in keys}


def test_exactly_the_documented_keys() -> None:
    assert answer(documented())["success"] is True


def test_what_is_documented_reaches_the_hooks() -> None:
    cluster, request = read(documented())
    assert isinstance(request, Allocate)
    assert cluster.name == "cluster.test"
    assert cluster.policy == cluster.groups[0].policy
    assert request.instance.nics == (Nic(NIC["mac"], "", "", "", "", "xen-br0"),)


@pytest.mark.parametrize("policy", [GONE, None, {}], ids=["missing", "null", "empty"])
def test_policy_of_the_cluster_is_for_information(policy: object) -> None:
    cluster, _ = read(put(message(), "ipolicy", policy))
    assert cluster.policy is None


@pytest.mark.parametrize(("path", "field", "value"), DEFAULTS)
def test_a_key_that_is_not_documented_is_missing(path: str, field: str, value: object) -> None:
    sent = put(message(), path, GONE)
    kind, name, _ = path.split("/")
    cluster, _ = read(sent)
    found = cluster.node(name) if kind == "nodes" else cluster.instance(name)
    assert getattr(found, field) == value
    assert answer(sent)["success"] is True


@pytest.mark.parametrize("key", ["spindle_use", "disk_space_total"])
def test_a_key_of_the_request_is_missing(key: str) -> None:
    sent = message()
    _, whole = read(sent)
    _, found = read(put(sent, f"request/{key}", GONE))
    assert found == whole
    assert answer(sent)["success"] is True


def test_exclusive_storage_needs_the_free_spindles() -> None:
    sent = put(message(), "nodes/n1.test/ndparams/exclusive_storage", True)
    with pytest.raises(BadInput, match="key 'free_spindles' is missing"):
        read(put(sent, "nodes/n1.test/free_spindles", GONE))


def test_page_names_each_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (?:node|instance) \|", PAGE.read_text(), re.MULTILINE)
    assert set(rows) == {path.rsplit("/", 1)[1] for path, _, _ in DEFAULTS}
