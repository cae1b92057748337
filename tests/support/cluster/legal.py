"""Whether the nodes of an answer may be what they are, by the message alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]


def check_allocation(message: Message, answer: Message) -> None:
    """An allocation: distinct usable nodes of one group with room, or a reason for none."""
    if not answer["success"]:
        assert answer["result"] == []
        assert answer["info"].startswith("Request failed: ")
        return
    names, request = answer["result"], message["request"]
    assert len(set(names)) == len(names) == request["required_nodes"]
    _check_usable(message, names)
    policy = message["nodegroups"][message["nodes"][names[0]]["group"]]["alloc_policy"]
    assert policy != "unallocable"
    if request.get("admin_state", "up") == "up":
        assert _free_memory(message, names[0]) > request["memory"]
    if request["disk_template"] in ("drbd", "plain"):
        _check_disks(message, names, request["disk_space_total"])


def check_new_node(message: Message, answer: Message) -> None:
    """A relocation or a new secondary: another usable node of the same group with room."""
    if not answer["success"]:
        assert not answer["result"]
        assert answer["info"].startswith("Request failed: ")
        return
    instance = message["instances"][message["request"]["name"]]
    result = answer["result"]
    (name,) = [result] if isinstance(result, str) else result
    assert name not in instance["nodes"]
    _check_usable(message, [name])
    assert message["nodes"][name]["group"] == message["nodes"][instance["nodes"][0]]["group"]
    if instance["disk_template"] in ("drbd", "plain"):
        _check_disks(message, [name], instance["disk_space_total"])


def _check_usable(message: Message, names: Sequence[str]) -> None:
    nodes = [message["nodes"][name] for name in names]
    assert len({node["group"] for node in nodes}) == 1
    for node in nodes:
        assert not node["offline"]
        assert not node["drained"]
        assert node["vm_capable"]


def _check_disks(message: Message, names: Sequence[str], space: int) -> None:
    assert all(message["nodes"][name]["free_disk"] > space for name in names)


def _free_memory(message: Message, name: str) -> int:
    """MiB for instances; of what KVM's node keeps for itself at least 4096 MiB are assumed."""
    node = message["nodes"][name]
    free: int = node["free_memory"]
    if message["enabled_hypervisors"][0] == "kvm":
        free -= max(0, 4096 - node["reserved_memory"])
    return free
