"""Expressions for one role, and the two readings of several terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from message_tags import DEFAULT, RACK2, ask_for, group_tag, put

if TYPE_CHECKING:
    from sites import Capture, Site


def test_roles(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    put(message, "room1", "node1.lab", "node2.lab")
    for tags, primary, secondary in (
        (["steward:member-of.primary:room1"], {"node1.lab", "node2.lab"}, set(DEFAULT)),
        (["steward:member-of.primary:not:room1"], {"node3.lab", *RACK2}, set(DEFAULT + RACK2)),
        (["steward:member-of.secondary:room1"], set(DEFAULT), {"node1.lab", "node2.lab"}),
    ):
        ask_for(message, *tags)
        first, second = site.place(message)
        assert first in primary
        assert second in secondary
    ask_for(message, "steward:member-of.primary:room1", "steward:member-of.secondary:not:room1")
    first, second = site.place(message)
    assert first in ("node1.lab", "node2.lab")
    assert second == "node3.lab"
    ask_for(message, "steward:member-of.primary:room3")
    assert "primary: not in aggregate room3 (no members)" in site.refused(message)


def test_a_suffixed_expression_is_not_spanned_by_the_group(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    group_tag(message, "rack2", "steward:aggregate:room2")
    ask_for(message, "steward:member-of:room2")
    assert set(site.place(message)) <= set(RACK2)
    ask_for(message, "steward:member-of.primary:room2")
    assert "primary: not in aggregate room2" in site.refused(message)


def test_a_role_the_instance_does_not_have(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    free = site.place(message)
    ask_for(message, "steward:member-of.secondary:x", "steward:member-of.storage:x")
    assert site.place(message) == free
    name = message["request"]["name"]
    for role in ("secondary", "storage"):
        note = f"{name} has no {role}; what its tags require of one is ignored"
        assert note in site.ask(message).info


def test_both_readings(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    group_tag(message, "rack2", "steward:aggregate:zone2")
    put(message, "alpha", "node5.lab", "node1.lab")
    ask_for(message, "steward:member-of:alpha", "steward:member-of:zone2")
    assert site.place(message) == ["node5.lab"]
    site.configure(more='[aggregates]\ncombine = "placement"\n')
    refusal = site.refused(message)
    assert "1 not by itself in alpha and zone2" in refusal
    put(message, "zone2", "node5.lab")
    assert site.place(message) == ["node5.lab"]
