"""The allocator ``dedicated`` answers for exclusive storage and leaves the rest to others."""

from __future__ import annotations

from typing import Any

import pytest
from ask import outcome
from clusters import generate

from ganeti_steward.core.config.values import Allocators, Config
from ganeti_steward.core.model.answer import Answer

Message = dict[str, Any]

BOTH = ("dedicated", "packed")
CHAIN = Config(allocators=Allocators({"allocate": BOTH, "multi-allocate": BOTH}))
ALONE = Config(allocators=Allocators({"allocate": BOTH[:1], "multi-allocate": BOTH[:1]}))
NONE_TAKES_IT = "no allocator takes this request (called: dedicated)"

REQUESTS = {
    "allocate": ["--request=allocate", "--new-template=plain"],
    "multi-allocate": ["--request=multi-allocate", "--count=3", "--new-mix=plain=1"],
}


def message(kind: str, *more: str) -> Message:
    arguments = ["--nodes=8", "--groups=2", "--seed=5", "--mix=plain=1", "--fill=.3"]
    return generate(*arguments, "--per-node=3", *more, *REQUESTS[kind])


@pytest.mark.parametrize("kind", REQUESTS)
def test_exclusive_storage(kind: str) -> None:
    """There it is what `balanced` does by itself."""
    sent = message(kind, "--exclusive-storage")
    answer = outcome(sent, config=ALONE)
    assert isinstance(answer, Answer)
    assert answer == outcome(sent) == outcome(sent, config=CHAIN)


@pytest.mark.parametrize("kind", REQUESTS)
def test_elsewhere(kind: str) -> None:
    sent = message(kind)
    assert outcome(sent, config=ALONE).info == NONE_TAKES_IT
    packed = Config(allocators=Allocators({"allocate": ("packed",), "multi-allocate": ("packed",)}))
    answer = outcome(sent, config=CHAIN)
    assert isinstance(answer, Answer)
    assert answer == outcome(sent, config=packed)


def _mixed(kind: str, policy: str) -> tuple[Message, str, str]:
    """One group with exclusive storage and one without; the names of both."""
    sent = message(kind)
    first, second = sent["nodegroups"]
    for node in sent["nodes"].values():
        node["ndparams"]["exclusive_storage"] = node["group"] == first
    sent["nodegroups"][second]["alloc_policy"] = policy
    return sent, sent["nodegroups"][first]["name"], sent["nodegroups"][second]["name"]


def test_the_groups_in_question_count() -> None:
    """Those named, or all that may be used."""
    sent, exclusive, shared = _mixed("allocate", "preferred")
    assert outcome(sent, config=ALONE).info == NONE_TAKES_IT
    for group, is_taken in ((exclusive, True), (shared, False), ("nosuch", False)):
        sent["request"]["group_name"] = group
        assert (outcome(sent, config=ALONE).info != NONE_TAKES_IT) is is_taken
    sent, _, _ = _mixed("allocate", "unallocable")
    assert outcome(sent, config=ALONE).info != NONE_TAKES_IT


def test_every_instance_of_a_batch_counts() -> None:
    sent, exclusive, shared = _mixed("multi-allocate", "preferred")
    for body in sent["request"]["instances"]:
        body["group_name"] = exclusive
    assert outcome(sent, config=ALONE).info != NONE_TAKES_IT
    sent["request"]["instances"][-1]["group_name"] = shared
    assert outcome(sent, config=ALONE).info == NONE_TAKES_IT
