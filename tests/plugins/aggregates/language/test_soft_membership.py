"""``prefer`` and ``avoid``: costs, never refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from message_tags import DEFAULT, RACK2, ask_for, group_tag, put

if TYPE_CHECKING:
    from sites import Capture, Site


def test_each_way(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    put(message, "ssd", "node6.lab")
    group_tag(message, "default", "steward:aggregate:old")
    ask_for(message, "steward:prefer:ssd")
    assert site.place(message) == ["node6.lab"]
    ask_for(message, "steward:prefer:in:ssd+nvme", "steward:prefer:in:ssd+nvme")
    assert site.place(message) == ["node6.lab"]
    ask_for(message, "steward:avoid:old")
    assert set(site.place(message)) <= set(RACK2)
    # The group counts for a plain value only, as elsewhere.
    ask_for(message, "steward:avoid.primary:ssd", "steward:avoid:in:old+none")
    assert site.place(message)[0] in ("node4.lab", "node5.lab")


def test_the_larger_weight(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    put(message, "ssd", *RACK2)
    put(message, "near", *DEFAULT)
    ask_for(message, "steward:prefer:ssd*5", "steward:prefer:near*4")
    assert set(site.place(message)) <= set(RACK2)
    ask_for(message, "steward:prefer:ssd*4", "steward:prefer:near*4.5")
    assert set(site.place(message)) <= set(DEFAULT)
    site.configure(more="[weigh]\naggregates = 0\n")
    ask_for(message, "steward:prefer:ssd*5")
    free = site.place(message)
    ask_for(message, "steward:avoid:ssd*5")
    assert site.place(message) == free


def test_it_refuses_nothing(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    ask_for(message, "steward:prefer:nothing*100", "steward:avoid.secondary:nothing")
    assert site.place(message)


def test_it_opens_nothing(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    message["cluster_tags"].append("steward:default-forbidden-prefix:license:")
    put(message, "license:a", "node1.lab")
    ask_for(message, "steward:prefer:license:a*100")
    assert site.place(message) != ["node1.lab"]


def test_roles(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    put(message, "room1", "node1.lab")
    put(message, "room2", "node2.lab")
    ask_for(message, "steward:prefer.primary:room2*50", "steward:prefer.secondary:room1*50")
    assert site.place(message) == ["node2.lab", "node1.lab"]


def test_in_the_configuration(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    put(message, "ssd", "node6.lab")
    put(message, "old", "node6.lab", "node5.lab", *DEFAULT)
    message["request"]["name"] = "web1.lab"
    for value, chosen in (("prefer=ssd", "node6.lab"), ("avoid_primary=old*3", "node4.lab")):
        site.configure(more=f'[aggregates.instances]\n"web1.lab" = ["{value}"]\n')
        assert site.place(message) == [chosen]
        site.configure(more=f'[aggregates.ask]\ntemplate = {{"*" = "{value}"}}\n')
        assert site.place(message) == [chosen]


@pytest.mark.parametrize(
    ("tag", "fault"),
    [
        ("prefer:not:a", '"not:" cannot stand behind prefer (meant: avoid ?)'),
        ("avoid:a+b", 'a list needs "in:"'),
        ("prefer:a*0", "the weight '0' is not a number above 0, up to 10000"),
        ("prefer:a*", "the weight '' is not a number"),
        ("prefer:a*1*2", "the weight '1*2' is not a number"),
        ("prefer.storage:a", "prefer is for no role 'storage' (known: primary, secondary)"),
        ("avoid", "names no aggregate"),
    ],
)
def test_faulty_tags(site: Site, capture: Capture, tag: str, fault: str) -> None:
    message = capture("allocate-diskless")
    ask_for(message, f"steward:{tag}")
    assert f"tag 'steward:{tag}': {fault}" in site.refused(message)
