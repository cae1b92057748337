"""Every input a request may be: one sentence for bad ones, one answer for good ones.

The tables follow hail's (what it answers, what it exits with); deliberate differences are marked.
"""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from messages import GONE, KINDS, Json, answer, body, message, outcome, put

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.iallocator.message import write_answer
from ganeti_steward.core.model.answer import Answer, Refusal

_TEMPLATES = "blockdev, diskless, drbd, ext, file, gluster, plain, rbd, sharedfile"
_TYPES = (
    "allocate, multi-allocate, relocate, allocate-secondary, node-evacuate, change-group, "
    "balance, capacity"
)
_BAD_JSON = "the message is not valid JSON: "


def _sentence(raw: bytes | Json) -> str:
    with pytest.raises(BadInput) as caught:
        outcome(raw)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_good_message(kind: str) -> None:
    assert answer(message(kind))["success"] is True


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        pytest.param(b"", _BAD_JSON, id="empty"),
        pytest.param(b"hello", _BAD_JSON, id="no JSON"),
        pytest.param(b"{}{}", _BAD_JSON, id="garbage behind the object"),
        pytest.param(b'{"request": {"na', _BAD_JSON, id="cut off"),
        pytest.param(b'{"a": "\xff"}', _BAD_JSON, id="no UTF-8"),
        pytest.param(b'{"a": "\\ud800"}', _BAD_JSON, id="half a surrogate pair"),
        pytest.param(b'{"a": NaN}', _BAD_JSON, id="NaN"),
        pytest.param(b'{"a": Infinity}', _BAD_JSON, id="Infinity"),
        pytest.param(b"\x00", _BAD_JSON, id="NUL"),
        pytest.param(b"[" * 10_000 + b"]" * 10_000, _BAD_JSON, id="deep"),
        pytest.param(b"[]", "the message: an object is expected, found a list", id="list"),
        pytest.param(b"null", "the message: an object is expected, found null", id="null"),
        pytest.param(b'"x"', "the message: an object is expected, found the text 'x'", id="text"),
    ],
)
def test_no_json_object(raw: bytes, sentence: str) -> None:
    assert _sentence(raw).startswith(sentence)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "key",
    ["request", "nodes", "instances", "nodegroups", "cluster_tags", "enabled_hypervisors"],
)
def test_missing_part_is_one_fault(kind: str, key: str) -> None:
    assert _sentence(put(message(kind), key, GONE)) == f"message: key {key!r} is missing"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("key", "value"),
    [("version", GONE), ("cluster_name", GONE), ("ipolicy", GONE), ("version", None)],
)
def test_part_that_is_not_read(kind: str, key: str, value: object) -> None:
    assert answer(put(message(kind), key, value)) == answer(message(kind))


_NUMBER = "a whole number is expected, found"


_BAD: list[tuple[str, str, object, str]] = [
    # The version of the message
    ("allocate", "version", 3, "version 2 of the message is expected, found the number 3"),
    ("relocate", "version", "2", "version 2 of the message is expected, found the text '2'"),
    # The request type
    ("allocate", "request", [], "message: key 'request': an object is expected, found a list"),
    ("allocate", "request/type", "bogus", f"unknown request type 'bogus' (known: {_TYPES})"),
    ("allocate", "request/type", "multi-evacuate", "unknown request type 'multi-evacuate'"),
    ("allocate", "request/type", GONE, "request: key 'type' is missing"),
    ("allocate", "request/type", 5, "key 'type': a text is expected, found the number 5"),
    # Words
    (
        "allocate",
        "enabled_hypervisors",
        ["kvm", "vmware"],
        "message: key 'enabled_hypervisors': unknown hypervisor 'vmware' "
        "(known: chroot, fake, kvm, lxc, xen-hvm, xen-pvm)",
    ),
    (
        "relocate",
        "instances/e1.test/disk_template",
        "zfs",
        f"instance 'e1.test': key 'disk_template': unknown value 'zfs' (known: {_TEMPLATES})",
    ),
    ("allocate", "request/disk_template", "", "request: key 'disk_template': unknown value ''"),
    (
        "allocate-secondary",
        "nodegroups/uuid-g/alloc_policy",
        "maybe",
        "node group 'uuid-g': key 'alloc_policy': unknown value 'maybe' "
        "(known: last_resort, preferred, unallocable)",
    ),
    (
        "multi-allocate",
        "request/instances/1/nics/0/mode",
        [],
        "request: key 'instances[1].nics[0].mode': a text is expected, found a list",
    ),
    ("allocate", "request/nics/0/mode", "x", "request: key 'nics[0].mode': unknown value 'x'"),
    # Missing keys
    ("allocate", "nodes/n1.test/free_memory", GONE, "node 'n1.test': key 'free_memory' is"),
    (
        "allocate",
        "nodes/n1.test/ndparams/exclusive_storage",
        GONE,
        "node 'n1.test': key 'ndparams.exclusive_storage' is missing",
    ),
    (
        "allocate",
        "nodegroups/uuid-g/ipolicy/minmax/0/min/cpu-count",
        GONE,
        "node group 'uuid-g': key 'ipolicy.minmax[0].min.cpu-count' is missing",
    ),
    ("relocate", "instances/d1.test/tags", GONE, "instance 'd1.test': key 'tags' is missing"),
    (
        "relocate",
        "instances/d1.test/disks/0/size",
        GONE,
        "instance 'd1.test': key 'disks[0].size' is missing",
    ),
    ("allocate", "request/name", GONE, "request: key 'name' is missing"),
    ("relocate", "request/name", GONE, "request: key 'name' is missing"),
    ("relocate", "request/relocate_from", GONE, "request: key 'relocate_from' is missing"),
    ("allocate", "request/required_nodes", GONE, "request: key 'required_nodes' is missing"),
    # Mentions of what is not there
    ("allocate", "nodes/n1.test/group", "x", "key 'group': no node group has the uuid 'x'"),
    ("allocate", "instances/e1.test/nodes", ["x"], "key 'nodes': no node is named 'x'"),
    ("relocate", "request/name", "x", "request: key 'name': no instance is named 'x'"),
    ("allocate-secondary", "request/name", "x", "key 'name': no instance is named 'x'"),
    ("relocate", "request/relocate_from", ["x"], "'relocate_from': no node is named 'x'"),
    # Nodes of an instance
    ("allocate", "instances/e1.test/nodes", [], "'e1.test': key 'nodes': the list is empty"),
    (
        "allocate",
        "instances/d1.test/nodes",
        ["n1.test"],
        "instance 'd1.test': key 'nodes': a drbd instance needs two nodes, found one",
    ),
    # hail accepts this one and computes nonsense.
    (
        "allocate",
        "instances/d1.test/nodes",
        ["n1.test", "n1.test"],
        "key 'nodes': primary and secondary are the same node 'n1.test'",
    ),
    ("allocate", "request/disk_template", "drbd", "needs 2 nodes, found the number 1"),
    # Wrong types
    ("allocate", "request/memory", "1024", f"key 'memory': {_NUMBER} the text '1024'"),
    ("allocate", "request/memory", None, f"request: key 'memory': {_NUMBER} null"),
    ("allocate", "request/memory", True, f"request: key 'memory': {_NUMBER} true"),
    ("allocate", "request/memory", [1], f"request: key 'memory': {_NUMBER} a list"),
    ("allocate", "nodes/n1.test/offline", 0, "true or false is expected, found the number 0"),
    (
        "allocate",
        "nodes/n1.test/vm_capable",
        "yes",
        "true or false is expected",
    ),
    ("allocate", "nodes/n1.test/total_cpus", True, "a number is expected, found true"),
    ("allocate", "cluster_tags", [1], "a list of texts is expected, it holds the number 1"),
    ("allocate", "request/group_name", 5, "a text is expected, found the number 5"),
    ("allocate", "request/restrict-to-nodes", "n1", "a list is expected, found the text 'n1'"),
    ("relocate", "request/relocate_from", "n2.test", "a list is expected, found the text"),
    (
        "multi-allocate",
        "request/instances",
        {},
        "a list is expected, found an object",
    ),
    (
        "multi-allocate",
        "request/instances/1",
        None,
        "'instances[1]': an object is expected",
    ),
    (
        "multi-allocate",
        "request/instances/1/memory",
        None,
        f"request: key 'instances[1].memory': {_NUMBER} null",
    ),
    ("allocate", "request/nics/0", [], "key 'nics[0]': an object is expected, found a list"),
    ("allocate", "request/disks/0", 5, "'disks[0]': an object is expected, found the number 5"),
    # Figures no machine has; hail computes on with them.
    ("allocate", "request/memory", 2**40 + 1, "the number 1099511627777 is out of range"),
    ("allocate", "request/memory", 1e308, "the number 1e+308 is out of range"),
    ("allocate", "nodes/n1.test/free_disk", -(2**63), "is out of range"),
    ("allocate", "nodes/n1.test/total_memory", 1e-300, "the number 1e-300 is out of range"),
]


def _row(row: tuple[str, str, object, str]) -> str:
    value = "missing" if row[2] is GONE else repr(row[2])
    return f"{row[0]} {row[1]} {value}"


@pytest.mark.parametrize(("kind", "path", "value", "sentence"), _BAD, ids=map(_row, _BAD))
def test_bad_message(kind: str, path: str, value: object, sentence: str) -> None:
    text = _sentence(put(message(kind), path, value))
    assert sentence in text
    assert ";" not in text, "one fault, one clause"


def test_all_faults_up_to_ten_are_named() -> None:
    bad = put(message(), "nodes", {f"n{number:02}": number for number in range(14)})
    for name in ("d1.test", "e1.test", "p1.test"):
        del bad["instances"][name]
    ten = [f"node 'n{n:02}': an object is expected, found the number {n}" for n in range(10)]
    assert _sentence(bad) == "; ".join(ten) + "; and 4 more"


def test_names_do_not_spoil_the_sentence() -> None:
    bad = message()
    bad["nodes"]["a\nb\x1b" + "x" * 100_000] = None
    text = _sentence(bad)
    assert text.isprintable()
    assert len(text) < 200


def test_figures_of_a_node_that_is_not_live_are_not_read() -> None:
    sent = message()
    sent["nodes"]["n9.test"] = {
        "group": "uuid-g",
        "offline": True,
        "drained": False,
        "total_memory": "nonsense",
        "ndparams": {"exclusive_storage": False, "spindle_count": 1},
    }
    assert answer(sent)["success"] is True


def test_order_of_a_message_decides_nothing() -> None:
    sent = message()
    for part in ("nodes", "instances", "nodegroups"):
        sent[part] = dict(reversed(sent[part].items()))
    assert answer(dict(reversed(sent.items()))) == answer(message())


def test_third_node_of_an_instance_is_ignored() -> None:
    sent = message()
    sent["instances"]["e1.test"] = {**body("ext"), "nodes": ["n1.test", "n2.test", "nowhere"]}
    assert answer(sent)["success"] is True


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (Answer(["n1"], "well"), [True, "Request successful: well", ["n1"]]),
        (Answer("n1", "well"), [True, "Request successful: well", "n1"]),
        (Refusal("no"), [False, "Request failed: no", []]),
        (Refusal("bytes \udcff"), [False, "Request failed: bytes \\udcff", []]),
    ],
)
def test_answer_on_the_wire(given: Answer | Refusal, written: list[Any]) -> None:
    raw = write_answer(given)
    assert raw.endswith(b"}\n")
    assert raw.count(b"\n") == 1
    assert list(orjson.loads(raw).items()) == list(
        zip(("success", "info", "result"), written, strict=True)
    )


def test_result_that_json_cannot_carry_becomes_a_refusal() -> None:
    nonsense: list[list[object]] = [[{1, 2}]]
    answered = json.loads(write_answer(Answer(nonsense, "well")))
    assert (answered["success"], answered["result"]) == (False, [])
    assert "cannot be written" in answered["info"]
