"""Requests that are read and cannot be met: each refusal names its cause."""

from __future__ import annotations

import json

import pytest
from messages import GONE, Json, answer, message, node, outcome, put, wanted

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.iallocator.message import read_message

_POLICY = "instance policy"


def _sentence(raw: bytes | Json) -> str:
    with pytest.raises(BadInput) as caught:
        outcome(raw)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "info"),
    [
        ("request/memory", 0, _POLICY),
        ("request/memory", -5, _POLICY),
        ("request/disks", [], _POLICY),
        ("request/required_nodes", 0, "Unsupported number of nodes"),
        ("request/required_nodes", 3, "Unsupported number of nodes"),
        ("request/group_name", "nowhere", "'nowhere'"),
        ("request/restrict-to-nodes", [], "0/4 nodes fit"),
        ("request/restrict-to-nodes", ["unknown.test"], "0/4 nodes fit"),
        ("nodes", {}, "no nodes"),
    ],
)
def test_refused_allocation(path: str, value: object, info: str) -> None:
    sent = put(message(), path, value)
    if path == "nodes":
        sent["instances"] = {}
    answered = answer(sent)
    assert (answered["success"], answered["result"]) == (False, [])
    assert answered["info"].startswith("Request failed: ")
    assert info in answered["info"]


def _drbd(**more: object) -> Json:
    return put(message(), "request", {"type": "allocate", **wanted("new.test", "drbd"), **more})


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(_drbd(**{"restrict-to-nodes": ["n1.test"]}), id="one node for drbd"),
        pytest.param(_drbd(disk_template="plain"), id="plain with two nodes"),
    ],
)
def test_refused_pair(sent: Json) -> None:
    assert answer(sent)["success"] is False


@pytest.mark.parametrize("kind", ["allocate", "multi-allocate"])
@pytest.mark.parametrize("why", [{"offline": True}, {"drained": True}, {"vm_capable": False}])
def test_no_usable_node(kind: str, why: Json) -> None:
    sent = message(kind)
    for name in sent["nodes"]:
        sent["nodes"][name] |= why
    answered = answer(sent)
    assert (answered["success"], answered["result"]) == (False, [])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("request/name", "e1.test"),
        ("request/name", ""),
        ("request/memory", 1024.7),
        ("request/group_name", "uuid-g"),
        ("request/restrict-to-nodes", None),
        ("request/unknown", {"a": []}),
        ("request/nics/0/mode", None),
        ("request/admin_state", "strange"),
        ("nodes/n1.test/vm_capable", GONE),
        ("nodes/n1.test/tags", GONE),
        ("nodes/n1.test/free_memory", 99999),
        ("enabled_hypervisors", []),
    ],
)
def test_accepted(path: str, value: object) -> None:
    assert answer(put(message(), path, value))["success"] is True


def test_fraction_is_rounded_halves_to_the_even_number() -> None:
    for given, read in ((1024.7, 1025), (1024.5, 1024), (1025.5, 1026), (-0.0, 0)):
        _, request = read_message(json.dumps(put(message(), "request/memory", given)).encode())
        assert request.instance.memory == read  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "value", "info"),
    [
        ("request/required_nodes", 2, "2 nodes requested"),
        ("request/relocate_from", [], "no node instead of n2.test"),
        ("request/relocate_from", ["n1.test"], "n1.test instead of n2.test"),
        ("request/relocate_from", ["n2.test", "n3.test"], "instead of n2.test"),
        (
            "request/name",
            "p1.test",
            "its disks exist only on n3.test; move it by hand: gnt-instance",
        ),
    ],
)
def test_refused_relocation(path: str, value: object, info: str) -> None:
    answered = answer(put(message("relocate"), path, value))
    assert (answered["success"], answered["result"]) == (False, [])
    assert info in answered["info"]


def test_relocate_from_may_lack_the_domain() -> None:
    sent = message("relocate")
    assert answer(put(sent, "request/relocate_from", ["n2"]))["success"] is True
    sent["nodes"]["n2.other"] = node()
    assert _sentence(sent) == "request: key 'relocate_from': more than one node is named 'n2'"


def test_secondary_for_an_instance_that_has_one() -> None:
    answered = answer(put(message("allocate-secondary"), "request/name", "d1.test"))
    assert (answered["success"], answered["result"]) == (False, [])
    assert "Instance already has a secondary" in answered["info"]


def test_empty_batch() -> None:
    answered = answer(put(message("multi-allocate"), "request/instances", []))
    assert (answered["success"], answered["result"]) == (True, [[], []])
