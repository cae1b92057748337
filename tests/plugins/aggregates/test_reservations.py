"""Reservations, the free pool and what is reserved by a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from message_tags import DEFAULT, RACK2, RESERVING, ask_for, group_tag, put

if TYPE_CHECKING:
    from sites import Capture, Site


def test_a_reservation_from_beginning_to_end(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    message["cluster_tags"].extend(RESERVING)
    put(message, "reservation:free", "node1.lab", "node2.lab")
    group_tag(message, "rack2", "steward:aggregate:reservation:free")
    assert site.place(message) == ["node3.lab"]
    message["nodes"]["node2.lab"]["tags"] = ["steward:aggregate:reservation:r1"]
    ask_for(message, "reservation:r1")
    assert site.place(message) == ["node2.lab"]
    ask_for(message)
    assert site.place(message) == ["node3.lab"]
    message["nodes"]["node3.lab"]["drained"] = True
    refusal = site.refused(message)
    assert "group default: 0/3 nodes fit: 2 reserved (reservation:*), 1 drained" in refusal
    assert "group rack2: 0/3 nodes fit: 3 reserved (reservation:*)" in refusal
    ask_for(message, "reservation:r9")
    assert "not in aggregate reservation:r9 (no members)" in site.refused(message)
    # Two reservations on one node: the first opens it, as long as only it is requested.
    put(message, "reservation:r2", "node2.lab")
    ask_for(message, "reservation:r1")
    assert site.place(message) == ["node2.lab"]
    ask_for(message, "reservation:r1", "steward:member-of:not:reservation:r2")
    assert "1 in forbidden aggregate reservation:r2" in site.refused(message)
    ask_for(message, "reservation:r1", "reservation:r2")
    assert site.place(message) == ["node2.lab"]


def test_each_prefix_by_itself(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    message["cluster_tags"].extend([*RESERVING, "steward:default-forbidden-prefix:license:"])
    for node in (*DEFAULT, *RACK2):
        put(message, "license:windows", node)
    put(message, "reservation:r1", "node1.lab")
    ask_for(message, "reservation:r1")
    assert "3 reserved (license:*)" in site.refused(message)
    ask_for(message, "reservation:r1", "steward:member-of:license:windows")
    assert site.place(message) == ["node1.lab"]
    # The bare name requests nothing where its prefix is not a required one.
    ask_for(message, "license:windows")
    assert "reserved (license:*)" in site.refused(message)


@pytest.mark.parametrize(
    "tag",
    [
        "steward:member-of:not:reservation:r2",
        "steward:member-of:not:in:reservation:r1+reservation:r2",
        "steward:member-of.secondary:reservation:r1",
    ],
)
def test_only_a_positive_mention_for_this_role_opens(
    site: Site, capture: Capture, tag: str
) -> None:
    message = capture("allocate-diskless")
    message["cluster_tags"].extend(RESERVING)
    put(message, "reservation:r1", *DEFAULT, *RACK2)
    ask_for(message, tag)
    refusal = site.refused(message)
    assert "reserved (reservation:*)" in refusal or "in forbidden aggregate" in refusal


def test_what_may_not_be_requested(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    message["cluster_tags"].extend([*RESERVING, "steward:unclaimable:reservation:free"])
    put(message, "reservation:free", *DEFAULT)
    for tag in (
        "reservation:free",
        "steward:member-of:reservation:free",
        "steward:member-of:in:reservation:r1+reservation:free",
    ):
        ask_for(message, tag)
        refusal = site.refused(message)
        name = message["request"]["name"]
        assert refusal == (
            f"instance {name}: tag {tag!r}: no instance may request aggregate reservation:free"
        )
    ask_for(message, "steward:member-of:not:reservation:free")
    assert set(site.place(message)) <= set(RACK2)
