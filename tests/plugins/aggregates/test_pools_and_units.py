"""Where the disks are, and parts of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from message_tags import DEFAULT, RACK2, ask_for, group_tag, put

if TYPE_CHECKING:
    from sites import Capture, Site


def test_storage_pools(site: Site, capture: Capture) -> None:
    """The disks go to a pool that reaches the group by an aggregate both are in."""
    message = capture("allocate-ext")
    group_tag(message, "default", "steward:aggregate:room1")
    group_tag(message, "rack2", "steward:aggregate:room2")
    message["cluster_tags"].extend(
        f"steward:pool:{pool}:aggregate:{name}"
        for pool, name in (("p1", "room1"), ("p1", "slow"), ("p2", "room2"))
    )
    ask_for(message, "steward:member-of.storage:not:slow")
    assert set(site.place(message)) <= set(RACK2)
    ask_for(message, "steward:member-of.storage:slow")
    assert set(site.place(message)) <= set(DEFAULT)
    ask_for(message, "steward:pool:p1")
    assert set(site.place(message)) <= set(DEFAULT)
    ask_for(message, "steward:pool:p1", "steward:member-of:not:slow")
    refusal = site.refused(message)
    assert "3 storage: no pool will do (in forbidden aggregate slow)" in refusal
    assert "3 storage: pool p1 out of reach" in refusal
    ask_for(message, "steward:pool:elsewhere")
    assert site.place(message)
    ask_for(message, "steward:pool:elsewhere", "steward:member-of.storage:slow")
    assert "storage: not in aggregate slow" in site.refused(message)


def test_a_group_no_declared_pool_reaches(site: Site, capture: Capture) -> None:
    """Its disks are in a pool of which nothing is known but that it is in no aggregate."""
    message = capture("allocate-ext")
    group_tag(message, "default", "steward:aggregate:room1")
    put(message, "alpha", "node4.lab")
    message["cluster_tags"].append("steward:pool:p1:aggregate:room1")
    ask_for(message, "steward:member-of:alpha", "steward:member-of.storage:not:room1")
    assert site.place(message) == ["node4.lab"]
    ask_for(message, "steward:member-of:alpha", "steward:member-of.storage:room2")
    assert "1 storage: not in aggregate room2" in site.refused(message)


def test_storage_on_the_nodes(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    put(message, "slow", *RACK2, "node1.lab")
    ask_for(message, "steward:member-of.storage:not:slow")
    assert set(site.place(message)) == {"node2.lab", "node3.lab"}


def test_units(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    message["nodes"]["node3.lab"]["tags"] = ["steward:unit:numa0:aggregate:fast"]
    message["nodes"]["node4.lab"]["tags"] = ["steward:unit:numa0:aggregate:slow"]
    ask_for(message, "steward:member-of.unit:fast")
    assert site.place(message) == ["node3.lab"]
    ask_for(message, "steward:member-of.unit:not:slow")
    assert site.place(message) != ["node4.lab"]
    ask_for(message, "steward:member-of.unit:slow", "steward:member-of:not:slow")
    term = "1 unit: none of the node will do (in forbidden aggregate slow)"
    assert term in site.refused(message)


def test_a_unit_in_no_aggregate(site: Site, capture: Capture) -> None:
    """It complies with what forbids, and the node with it; its neighbour does not."""
    message = capture("allocate-diskless")
    for node in message["nodes"].values():
        node["tags"] = ["steward:unit:numa0:aggregate:slow"]
    ask_for(message, "steward:member-of.unit:not:slow")
    assert "3 unit: none of the node will do (in forbidden aggregate slow)" in site.refused(message)
    message["nodes"]["node2.lab"]["tags"].append("steward:unit:numa1")
    assert site.place(message) == ["node2.lab"]
    message["nodes"]["node2.lab"]["tags"].pop()
    site.configure(more='[aggregates.units."node3.lab"]\nnuma1 = []\n')
    assert site.place(message) == ["node3.lab"]


def test_a_pool_in_no_aggregate(site: Site, capture: Capture) -> None:
    """It reaches every group; what instances request of a pool is checked for it."""
    message = capture("allocate-ext")
    group_tag(message, "default", "steward:aggregate:room1")
    message["cluster_tags"].append("steward:pool:p1:aggregate:room1")
    message["cluster_tags"].append("steward:pool:p1:aggregate:slow")
    for name, node in message["nodes"].items():
        node["drained"] = name not in DEFAULT
    ask_for(message, "steward:member-of.storage:not:slow")
    assert "3 storage: no pool will do (in forbidden aggregate slow)" in site.refused(message)
    message["cluster_tags"].append("steward:pool:p2")
    assert set(site.place(message)) <= set(DEFAULT)
    ask_for(message, "steward:pool:p2", "steward:member-of.storage:slow")
    assert "3 storage: no pool will do (not in aggregate slow)" in site.refused(message)
