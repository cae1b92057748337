"""What is checked for each request type, by tags alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import clusters
from ask import need_hail
from message_tags import DEFAULT, RACK2, RESERVING, ask_for, group_tag, put

from ganeti_steward.core.model.answer import Answer

if TYPE_CHECKING:
    from sites import Capture, Site


def test_allocate(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    put(message, "ssd", "node4.lab", "node5.lab")
    assert not set(site.place(message)) & {"node4.lab", "node5.lab"}
    ask_for(message, "steward:member-of:ssd")
    assert set(site.place(message)) == {"node4.lab", "node5.lab"}
    put(message, "old", "node5.lab")
    ask_for(message, "steward:member-of:ssd", "steward:member-of:not:old")
    refusal = site.refused(message)
    assert "0/3 nodes fit as primary: 3 not in aggregate ssd" in refusal
    assert "1 in forbidden aggregate old, 1 not in aggregate ssd, 1 the primary itself" in refusal


def test_multi_allocate(site: Site, capture: Capture) -> None:
    """Each by its own tags; one with a nonsensical tag fails alone."""
    message = capture("multi-allocate-two")
    first, second = message["request"]["instances"]
    put(message, "ssd", "node6.lab")
    first["tags"] = ["steward:member-of:ssd"]
    second["tags"] = ["steward:member-of:not:ssd"]
    placed, failed = site.place(message)
    assert failed == []
    assert dict(placed)[first["name"]] == ["node6.lab"]
    assert dict(placed)[second["name"]] != ["node6.lab"]
    first["tags"] = ["steward:member-of:a+b"]
    outcome = site.ask(message, "--partial-batches")
    assert isinstance(outcome, Answer)
    placed, failed = outcome.result
    assert failed == [first["name"]]
    assert [name for name, _ in placed] == [second["name"]]
    fault = "tag 'steward:member-of:a+b': a list needs \"in:\""
    assert f"{first['name']}: {fault}" in outcome.info


def test_relocate_drbd(site: Site, capture: Capture) -> None:
    """Only the new node is checked; there is a note on the one that stays."""
    message = capture("relocate-drbd")
    name = message["request"]["name"]
    put(message, "ssd", "node1.lab")
    ask_for(message, "steward:member-of:ssd")
    outcome = site.ask(message)
    assert isinstance(outcome, Answer)
    assert outcome.result == ["node1.lab"]
    note = f"{name} stays on node2.lab as primary, against the rules: it is not in aggregate ssd"
    assert note in outcome.info
    ask_for(message, "steward:member-of:not:ssd")
    assert "0/1 nodes fit: 1 in forbidden aggregate ssd" in site.refused(message)


def test_relocate_external(site: Site, capture: Capture) -> None:
    message = capture("relocate-ext")
    for node, other in (("node4.lab", "node6.lab"), ("node6.lab", "node4.lab")):
        message["nodes"][node]["tags"] = ["steward:aggregate:old"]
        message["nodes"][other]["tags"] = []
        ask_for(message, "steward:member-of:not:old")
        assert site.place(message) == [other]


def test_allocate_secondary(site: Site, capture: Capture) -> None:
    message = capture("allocate-secondary-plain-to-drbd")
    put(message, "ssd", "node2.lab")
    assert site.place(message) == "node1.lab"
    ask_for(message, "steward:member-of.secondary:ssd")
    assert site.place(message) == "node2.lab"


def test_change_group(site: Site, capture: Capture) -> None:
    message = capture("change-group-sharedfile-named-group")
    (name,) = message["request"]["instances"]
    (target,) = message["request"]["target_groups"]
    group = message["nodegroups"][target]["name"]
    ((_, _, nodes),), _, _ = site.place(message)
    put(message, "old", *nodes)
    message["instances"][name]["tags"] = ["steward:member-of:not:old"]
    ((_, _, others),), _, _ = site.place(message)
    assert others != nodes
    group_tag(message, group, "steward:aggregate:old")
    moved, ((failed, why),), _ = site.place(message)
    assert (moved, failed) == ([], name)
    assert why == "0/3 nodes fit: 3 in forbidden aggregate old"


def test_capacity(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    message["request"]["type"] = "capacity"
    free = site.place(message)
    put(message, "ssd", "node1.lab")
    message["request"]["tags"] = ["steward:member-of:ssd"]
    some = site.place(message)
    assert 0 < some["count"] < free["count"]
    assert {tuple(nodes) for nodes in some["placements"]} == {("node1.lab",)}
    message["request"]["tags"] = ["steward:member-of:empty"]
    none = site.place(message)
    assert none["count"] == 0
    assert none["limited_by"] == "not in aggregate empty (no members) (6 nodes)"


def test_balance(site: Site) -> None:
    """Nothing is moved to where it must not be, and what is reserved fills up no more."""
    message = clusters.generate("--nodes=8", "--mix=drbd=1", "--choices=1", "--seed=3")
    message["request"] = {"type": "balance"}
    reserved = sorted(message["nodes"])[::2]

    def new_places() -> set[str]:
        return {
            node
            for name, _, nodes in site.place(message)[0]
            for node, old in zip(nodes, message["instances"][name]["nodes"], strict=True)
            if node != old
        }

    assert new_places() & set(reserved)
    message["cluster_tags"].extend(RESERVING)
    put(message, "reservation:r1", *reserved)
    assert new_places()
    assert not new_places() & set(reserved)


def test_hail_is_found_out(site: Site, capture: Capture) -> None:
    """It does not know the rules; there is a note on what it does against them."""
    site.configure(more=f'[allocators]\nallocate = ["command:{need_hail()}"]\n')
    message = capture("allocate-diskless")
    put(message, "old", *DEFAULT, *RACK2)
    ask_for(message, "steward:member-of:not:old")
    (node,) = site.place(message)
    name = message["request"]["name"]
    note = f"{name} is placed on {node} as primary, against the rules: it is in aggregate old"
    assert note in site.ask(message).info


def test_hail_is_found_out_where_all_is_closed(site: Site, capture: Capture) -> None:
    site.configure(more=f'[allocators]\nallocate = ["command:{need_hail()}"]\n')
    message = capture("allocate-diskless")
    message["cluster_tags"].append("steward:default-forbiden-prefix:a")
    ask_for(message, "steward:memberof:a")
    assert site.place(message)
    name, info = message["request"]["name"], site.ask(message).info
    fault = "the cluster: tag 'steward:default-forbiden-prefix:a': unknown key"
    assert f"placed against the rules, which place nothing: {fault}" in info
    fault = f"instance {name}: tag 'steward:memberof:a': unknown key"
    assert f"{name} is placed against the rules: {fault}" in info
