"""Two answers side by side."""

from __future__ import annotations

import json
from typing import Any

import pytest
from paths import CAPTURES

from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Balance, Capacity, Request
from ganeti_steward.plugins.shadow.shadows import names, places, same, short, word


def snapshot_and_request(capture: str) -> tuple[Cluster, Request]:
    return read_message((CAPTURES / f"{capture}.in.json").read_bytes())


def answered(capture: str) -> Answer:
    """What hail answered."""
    answer: dict[str, Any] = json.loads((CAPTURES / f"{capture}.out.json").read_text())
    return Answer(answer["result"], answer["info"])


@pytest.mark.parametrize(
    ("capture", "words", "expected"),
    [
        ("allocate-drbd", "node2.lab/node1.lab", {"new1.lab": ("node2.lab", "node1.lab")}),
        # The primary stays; the requested instance moves beside it.
        ("relocate-drbd", "node2.lab/node1.lab", {"drbd3.lab": ("node2.lab", "node1.lab")}),
        ("relocate-sharedfile", "node2.lab", {"inst3.lab": ("node2.lab",)}),
        (
            "allocate-secondary-plain-to-drbd",
            "node3.lab/node1.lab",
            {"drbd5.lab": ("node3.lab", "node1.lab")},
        ),
        (
            "node-evacuate-secondary-drbd",
            "moved:2,failed:0",
            {
                "drbd2.lab": ("node4.lab", "node6.lab"),
                "drbd8.lab": ("node4.lab", "node6.lab"),
            },
        ),
        ("change-group-file-refused", "moved:0,failed:1", {}),
    ],
)
def test_places(capture: str, words: str, expected: dict[str, tuple[str, ...]]) -> None:
    cluster, request = snapshot_and_request(capture)
    answer = answered(capture)
    assert short(answer, request, cluster) == words
    found = places(answer, request, cluster)
    assert {instance.name: nodes for instance, nodes in found} == expected
    assert same(answer, answer._replace(info="other words"), request, cluster)


def test_batch() -> None:
    cluster, request = snapshot_and_request("multi-allocate-two")
    one = Answer([[["m1.lab", ["node3.lab"]], ["m2.lab", ["node1.lab"]]], []], "")
    turned = Answer([[["m2.lab", ["node1.lab"]], ["m1.lab", ["node3.lab"]]], []], "")
    other = Answer([[["m1.lab", ["node3.lab"]]], ["m2.lab"]], "")
    assert short(one, request, cluster) == "placed:2,failed:0"
    assert short(other, request, cluster) == "placed:1,failed:1"
    assert same(one, turned, request, cluster)
    assert not same(one, other, request, cluster)


@pytest.mark.parametrize(
    ("given", "shadow", "are_same"),
    [
        (Refusal("a"), Refusal("b"), True),
        (Refusal("a"), None, False),
        (Answer(["node1.lab", "node2.lab"], ""), None, False),
        (Answer(["node1.lab", "node2.lab"], ""), Refusal(""), False),
        (Refusal(""), Answer(["node1.lab", "node2.lab"], ""), False),
        # Primary and secondary changed over are another answer.
        (Answer(["node1.lab", "node2.lab"], ""), Answer(["node2.lab", "node1.lab"], ""), False),
    ],
)
def test_same(given: Outcome, shadow: Outcome | None, are_same: bool) -> None:
    cluster, request = snapshot_and_request("allocate-drbd")
    assert same(given, shadow, request, cluster) is are_same


def test_capacity() -> None:
    cluster, request = snapshot_and_request("allocate-drbd")
    question = Capacity(request)  # type: ignore[arg-type]
    three, four = ({"count": n, "placements": [], "limited_by": str(n)} for n in (3, 4))
    assert short(Answer(three, ""), question, cluster) == "count:3"
    assert not same(Answer(three, ""), Answer(four, ""), question, cluster)
    assert same(Answer(three, ""), Answer(three | {"limited_by": "x"}, ""), question, cluster)
    assert places(Answer(three, ""), question, cluster) == []
    assert names(question) == "new1.lab"


def test_names() -> None:
    assert names(snapshot_and_request("relocate-drbd")[1]) == "drbd3.lab"
    assert names(snapshot_and_request("multi-allocate-two")[1]) == "m1.lab,m2.lab"
    _, request = snapshot_and_request("node-evacuate-all-drbd")
    many = request._replace(instances=("a", "b c", "d", "e", "f"))  # type: ignore[call-arg, union-attr]
    assert names(many) == "a,'b c',d,+2"
    assert names(Balance()) == "-"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.lab", "a.lab"),
        ("a b", "'a b'"),
        ("a\nb", r"'a\nb'"),
        ("", "''"),
        ("\udc80", r"'\udc80'"),
    ],
)
def test_word(text: str, expected: str) -> None:
    assert word(text) == expected
