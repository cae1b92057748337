"""What a diagnose object may be, and that every fault of one is reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ganeti_steward.core.model.finding import Finding
from ganeti_steward.diagnose.model.object import (
    MOST_DEEP,
    BadObject,
    object_faults,
    object_remarks,
    parse,
    read_finding,
)

KNOWN = "one of Ok, suspect, live-repair, evacuate, evacuate-failover is expected"


def nested(deep: int) -> bytes:
    """An object with lists inside, ``deep`` in all."""
    return b'{"status":"Ok","details":' + b"[" * (deep - 1) + b"]" * (deep - 1) + b"}"


GOOD = [
    (b'{"status":"Ok"}', Finding("raid", "Ok")),
    (b' \n{"status" : "evacuate"}\r\n\t', Finding("raid", "evacuate")),
    (b'{"status":"evacuate-failover","details":null}', Finding("raid", "evacuate-failover")),
    (
        b'{"status":"live-repair","command":"swap_disk-1","details":["sda",{"slot":3}]}',
        Finding("raid", "live-repair", "swap_disk-1", ["sda", {"slot": 3}]),
    ),
    (b'{"status":"live-repair","details":0}', Finding("raid", "live-repair", "", 0)),
    # A command means something with live-repair only, whatever it is.
    (b'{"status":"evacuate","command":"swap"}', Finding("raid", "evacuate")),
    (b'{"status":"Ok","command":null}', Finding("raid", "Ok")),
    (b'{"status":"evacuate","command":["/bin/sh"]}', Finding("raid", "evacuate")),
    # Unknown members are part of what was found.
    (b'{"status":"Ok","slot":3}', Finding("raid", "Ok", "", {"slot": 3})),
    (
        b'{"slot":3,"status":"live-repair","details":"a","command":"b"}',
        Finding("raid", "live-repair", "b", {"slot": 3, "details": "a"}),
    ),
    (
        '{"status":"Ok","details":"\u00e9 \\ud83d\\ude00 \\u0000"}'.encode(),
        Finding("raid", "Ok", "", "\u00e9 \U0001f600 \0"),
    ),
    (
        b'{"status":"Ok","details":[18446744073709551615,-9223372036854775808,1e300,-0.5]}',
        Finding("raid", "Ok", "", [2**64 - 1, -(2**63), 1e300, -0.5]),
    ),
]


@pytest.mark.parametrize(("raw", "finding"), GOOD)
def test_good_objects(raw: bytes, finding: Finding) -> None:
    assert object_faults(raw) == []
    assert read_finding("raid", raw) == finding


def test_as_deep_as_allowed() -> None:
    assert object_faults(nested(MOST_DEEP)) == []


BAD = [
    (b"", ["it is empty"]),
    (b" \n\t", ["it is empty"]),
    (b"OK - all disks are fine\n", ["it is not JSON: Expecting value (line 1 column 1)"]),
    (b'{"status":\n"Ok",}', ["it is not JSON: * (line 2 column *)"]),
    (b'{"status":"Ok"', ["it is not JSON: Expecting ',' delimiter (line 1 column 15)"]),
    (b"{'status':'Ok'}", ["it is not JSON: * (line 1 column 2)"]),
    (b'\xef\xbb\xbf{"status":"Ok"}', ["it is not JSON: *"]),
    (b'{"status":"Ok"} {"status":"Ok"}', ["something follows the JSON value (line 1 column 17)"]),
    (b'{"status":"Ok"}\ndone\n', ["something follows the JSON value (line 2 column 1)"]),
    (b'{"status":"Ok","details":"\xff"}', ["it is not UTF-8 (byte 26)"]),
    (b"\x7fELF\x02\x01\x01\0\0\0", ["it is not JSON: Expecting value (line 1 column 1)"]),
    (b'{"status":"Ok","details":"\n"}', ["it is not JSON: *"]),
    (b'{"status":"Ok","details":"\\ud800"}', ["a text holds half of a surrogate pair"]),
    (b'{"status":"Ok","\\udfff":1}', ["a text holds half of a surrogate pair"]),
    (b"[" * 100000 + b"]" * 100000, ["lists and objects are nested more than 64 deep"]),
    (b'{"a":' * 100000, ["lists and objects are nested more than 64 deep"]),
    (nested(MOST_DEEP + 1), ["lists and objects are nested more than 64 deep"]),
    (nested(900), ["lists and objects are nested more than 64 deep"]),
    (
        b'{"status":"Ok","details":1' + b"0" * 10000 + b"}",
        ["the number 100000000000000000000000000... does not fit into 64 bits"],
    ),
    (
        b'{"status":"Ok","details":[18446744073709551616,-9223372036854775809]}',
        [
            "the number 18446744073709551616 does not fit into 64 bits",
            "the number -9223372036854775809 does not fit into 64 bits",
        ],
    ),
    (b'{"status":"Ok","details":-1e999}', ["the number -1e999 is too large"]),
    (
        b'{"status":"Ok","details":[NaN,Infinity,-Infinity,NaN]}',
        ["NaN is not JSON", "Infinity is not JSON", "-Infinity is not JSON"],
    ),
    (b'{"status":"Ok","status":"evacuate"}', ["the key 'status' is there twice"]),
    (
        b'{"status":"Ok","details":{"a":1,"b":{"c":1,"c":1},"\\u0061":2}}',
        ["the key 'c' is there twice", "the key 'a' is there twice"],
    ),
    (b"{}", ["the key 'status' is missing"]),
    (b"null", ["an object is expected, found null"]),
    (b"0", ["an object is expected, found the number 0"]),
    (b'"Ok"', ["an object is expected, found the text 'Ok'"]),
    (b'[{"status":"Ok"}]', ["an object is expected, found a list"]),
    (b'{"status":"ok"}', [f"status: {KNOWN}, found the text 'ok'"]),
    (b'{"status":"Ok "}', [f"status: {KNOWN}, found the text 'Ok '"]),
    (b'{"status":0}', [f"status: {KNOWN}, found the number 0"]),
    (b'{"status":{"code":0}}', [f"status: {KNOWN}, found an object"]),
    (b'{"Status":"Ok"}', ["the key 'status' is missing"]),
    (
        b'{"status":"live-repair","command":null}',
        ["command: a text is expected, found null"],
    ),
    *[
        (
            json.dumps({"status": "live-repair", "command": name}).encode(),
            [
                f"command: {name!r} is not a command name (letters, digits, _ and - only)",
            ],
        )
        for name in ("", "../x", "/bin/sh", "a b", "a.sh", "..", "a\n", "a\0", "\u0430")
    ],
]


def matches(found: list[str], wanted: list[str]) -> bool:
    """Whether texts are equal, where ``*`` stands for Python's own words."""

    def same(one: str, other: str) -> bool:
        parts = other.split("*")
        return one.startswith(parts[0]) and one.endswith(parts[-1]) and parts[1:-1] <= [one]

    return len(found) == len(wanted) and all(map(same, found, wanted))


@pytest.mark.parametrize(("raw", "faults"), BAD)
def test_bad_objects(raw: bytes, faults: list[str]) -> None:
    assert matches(object_faults(raw), faults), object_faults(raw)
    with pytest.raises(BadObject) as caught:
        read_finding("raid", raw)
    assert caught.value.faults


def test_all_faults_at_once() -> None:
    raw = b'{"status":"live-repair","command":7,"details":{"a":1,"a":NaN,"b":1e999}}'
    assert object_faults(raw) == [
        "NaN is not JSON",
        "the number 1e999 is too large",
        "the key 'a' is there twice",
        "command: a text is expected, found the number 7",
    ]
    assert object_faults(b'{"a":1e999} x') == [
        "the number 1e999 is too large",
        "something follows the JSON value (line 1 column 13)",
    ]


@pytest.mark.parametrize(
    "garbage", [b"%r{", b'{"status":"Ok"%r}', b'{"status":"Ok"} %r', b'{"a":"%r\xff"}']
)
def test_the_same_fault_gives_the_same_message(garbage: bytes) -> None:
    """Wherever it is: the message about a node must not change with every run."""
    texts = set()
    for text in ("", "x", "some words", "0" * 1000):
        with pytest.raises(BadObject) as caught:
            read_finding("raid", garbage % text)
        texts.add(str(caught.value))
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("raw", "remarks"),
    [
        (b'{"status":"Ok"}', []),
        (b'{"status":"live-repair","command":"a","details":1}', []),
        (b'{"status":"live-repair"}', ["live-repair without a command: no repair is run"]),
        (
            b'{"status":"evacuate","command":"a"}',
            ["command: has no meaning with the status evacuate"],
        ),
        (
            b'{"status":"Ok","z":1,"detail":2}',
            ["unknown members become part of the details: 'detail', 'z'"],
        ),
    ],
)
def test_remarks(raw: bytes, remarks: list[str]) -> None:
    assert object_remarks(raw) == remarks


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "a", [], {}, [{"a": [1]}]])
def test_parse(value: Any) -> None:
    assert parse(json.dumps(value).encode()) == value
