"""Aggregates and reservations under real requests, by tags alone: no plugin is configured."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import clusters
import pytest
from ask import need_hail

from ganeti_steward.core.answer import Answer

if TYPE_CHECKING:
    from sites import Capture, Message, Site

DEFAULT = ("node1.lab", "node2.lab", "node3.lab")
RACK2 = ("node4.lab", "node5.lab", "node6.lab")
RESERVING = (
    "steward:default-forbidden-prefix:reservation:",
    "steward:required-prefix:reservation:",
)


@pytest.fixture(autouse=True)
def _configured(site: Site) -> None:
    site.configure()


def put(message: Message, aggregate: str, *nodes: str) -> None:
    """Put nodes into an aggregate."""
    for node in nodes:
        message["nodes"][node]["tags"].append(f"steward:aggregate:{aggregate}")


def group_tag(message: Message, group: str, *tags: str) -> None:
    (found,) = [g for g in message["nodegroups"].values() if g["name"] == group]
    found["tags"].extend(tags)


def ask_for(message: Message, *tags: str, name: str = "") -> None:
    """Tags of the instance asked about: in the request when it is new."""
    request = message["request"]
    if "tags" in request:
        request["tags"] = list(tags)
    else:
        message["instances"][name or request["name"]]["tags"] = list(tags)


# -- the request types


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
    assert "primary: not in aggregate room3 (nobody is)" in site.refused(message)


def test_a_suffixed_expression_is_not_spanned_by_the_group(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    group_tag(message, "rack2", "steward:aggregate:room2")
    ask_for(message, "steward:member-of:room2")
    assert set(site.place(message)) <= set(RACK2)
    ask_for(message, "steward:member-of.primary:room2")
    assert "primary: not in aggregate room2" in site.refused(message)


def test_multi_allocate(site: Site, capture: Capture) -> None:
    """Each by its own tags; one that asks nonsense fails alone."""
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
    outcome = site.ask(message)
    assert isinstance(outcome, Answer)
    placed, failed = site.place(message)
    assert failed == [first["name"]]
    assert [name for name, _ in placed] == [second["name"]]
    fault = f"instance {first['name']}: tag 'steward:member-of:a+b': a list needs \"in:\""
    assert f"{first['name']}: {fault}" in outcome.info


def test_relocate_drbd(site: Site, capture: Capture) -> None:
    """Only the new node is judged; the one that stays is told of."""
    message = capture("relocate-drbd")
    name = message["request"]["name"]
    put(message, "ssd", "node1.lab")
    ask_for(message, "steward:member-of:ssd")
    outcome = site.ask(message)
    assert isinstance(outcome, Answer)
    assert outcome.result == ["node1.lab"]
    told = f"{name} stays on node2.lab as primary, against the rules: it is not in aggregate ssd"
    assert told in outcome.info
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


def test_evacuation_of_secondaries(site: Site, capture: Capture) -> None:
    message = capture("node-evacuate-secondary-drbd")
    name = message["request"]["instances"][0]
    primary, left = message["instances"][name]["nodes"]
    (other,) = {*DEFAULT} - {primary, left} if primary in DEFAULT else {*RACK2} - {primary, left}
    moved, failed, _ = site.place(message)
    assert failed == []
    put(message, "old", other)
    message["instances"][name]["tags"] = ["steward:member-of:not:old"]
    moved, failed, _ = site.place(message)
    assert [[n, why] for n, why in failed if n == name] == [
        [name, "0/1 nodes fit: 1 in forbidden aggregate old"]
    ]
    assert name not in [n for n, _, _ in moved]


def test_failing_over_is_not_judged(site: Site, capture: Capture) -> None:
    """Nothing is chosen then; but it is told."""
    message = capture("node-evacuate-primary-drbd")
    name = message["request"]["instances"][0]
    primary, secondary = message["instances"][name]["nodes"]
    free = site.place(message)
    put(message, "old", primary, secondary)
    message["instances"][name]["tags"] = ["steward:member-of:not:old"]
    assert site.place(message) == free
    told = f"{name} stays on {secondary} as primary, against the rules: it is in aggregate old"
    assert told in site.ask(message).info


def test_evacuation_of_everything(site: Site, capture: Capture) -> None:
    """Its primary is left: the old secondary is kept, one other node is chosen."""
    message = capture("node-evacuate-all-drbd")
    name = message["request"]["instances"][0]
    message["request"]["instances"] = [name]
    primary, secondary = message["instances"][name]["nodes"]
    message["nodes"][primary]["drained"] = True
    put(message, "old", secondary)
    message["instances"][name]["tags"] = ["steward:member-of:not:old"]
    ((_, _, nodes),), failed, _ = site.place(message)
    assert failed == []
    (chosen,) = {*nodes} - {secondary}
    assert f"{name} stays on {secondary} as " in site.ask(message).info
    put(message, "old", chosen)
    moved, ((failed_name, why),), jobs = site.place(message)
    assert (moved, jobs, failed_name) == ([], [], name)
    assert "1 in forbidden aggregate old" in why


def test_one_bad_tag_does_not_stop_an_evacuation(site: Site, capture: Capture) -> None:
    message = capture("node-evacuate-secondary-drbd")
    names = message["request"]["instances"]
    message["instances"][names[0]]["tags"] = ["steward:memberof:a"]
    moved, failed, _ = site.place(message)
    ((name, why),) = failed
    assert name == names[0]
    assert why.startswith(f"instance {name}: tag 'steward:memberof:a': unknown key 'memberof'")
    assert sorted(n for n, _, _ in moved) == sorted(names[1:])


def test_preferring_where_an_evacuation_is_blocked(site: Site, capture: Capture) -> None:
    message = capture("node-evacuate-primary-diskless")
    (name,) = message["request"]["instances"]
    put(message, "old", "node1.lab")
    message["instances"][name]["tags"] = ["steward:member-of:not:old"]
    ((_, _, nodes),), _, _ = site.place(message)
    assert nodes == ["node2.lab"]
    put(message, "old", "node2.lab")
    assert site.place(message)[0] == []
    site.configure(more='[aggregates]\non-evacuation = "prefer"\n')
    ((_, _, nodes),), _, _ = site.place(message)
    told = f"{name} is placed on {nodes[0]} as primary, against the rules: it is in aggregate old"
    assert told in site.ask(message).info
    # As long as one complies it is taken, whatever the score says.
    for node, other in (("node1.lab", "node2.lab"), ("node2.lab", "node1.lab")):
        message["nodes"][node]["tags"] = ["steward:aggregate:old"]
        message["nodes"][other]["tags"] = []
        ((_, _, nodes),), _, _ = site.place(message)
        assert nodes == [other]
        assert "against the rules" not in site.ask(message).info
    # A faulty tag stays closed.
    message["nodes"]["node2.lab"]["tags"] = ["steward:agregate:old"]
    message["nodes"]["node1.lab"]["drained"] = True
    assert site.place(message)[0] == []


def test_preferring_is_for_evacuations_only(site: Site, capture: Capture) -> None:
    site.configure(more='[aggregates]\non-evacuation = "prefer"\n')
    message = capture("relocate-ext")
    put(message, "old", "node4.lab", "node6.lab")
    ask_for(message, "steward:member-of:not:old")
    assert "2 in forbidden aggregate old" in site.refused(message)
    message["nodes"]["node5.lab"]["offline"] = True
    assert "against the rules" in site.ask(message).info
    assert site.place(message)


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
    message["request"]["tags"] = ["steward:member-of:nobody"]
    none = site.place(message)
    assert none["count"] == 0
    assert none["limited_by"] == "not in aggregate nobody (nobody is) (6 nodes)"


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
    """It does not know the rules; what it does against them is told."""
    site.configure(more=f'[allocators]\nallocate = ["command:{need_hail()}"]\n')
    message = capture("allocate-diskless")
    put(message, "old", *DEFAULT, *RACK2)
    ask_for(message, "steward:member-of:not:old")
    (node,) = site.place(message)
    name = message["request"]["name"]
    told = f"{name} is placed on {node} as primary, against the rules: it is in aggregate old"
    assert told in site.ask(message).info


# -- reservations


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
    assert "not in aggregate reservation:r9 (nobody is)" in site.refused(message)
    # Two reservations on one node: the first opens it, as long as only it is asked for.
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
    # The bare name asks for nothing where its prefix is not a required one.
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


def test_what_nobody_may_ask_for(site: Site, capture: Capture) -> None:
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
            f"instance {name}: tag {tag!r}: no instance may ask for aggregate reservation:free"
        )
    ask_for(message, "steward:member-of:not:reservation:free")
    assert set(site.place(message)) <= set(RACK2)


# -- zones on groups, projects on nodes


def test_both_readings(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    group_tag(message, "rack2", "steward:aggregate:zone2")
    put(message, "alpha", "node5.lab", "node1.lab")
    ask_for(message, "steward:member-of:alpha", "steward:member-of:zone2")
    assert site.place(message) == ["node5.lab"]
    site.configure(more='[aggregates]\ncombine = "placement"\n')
    refusal = site.refused(message)
    assert "1 not by itself in all aggregates asked for" in refusal
    put(message, "zone2", "node5.lab")
    assert site.place(message) == ["node5.lab"]


# -- storage, units


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
    assert "storage: no pool will do" in refusal
    assert "storage: out of reach" in refusal
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
    assert "unit: none of the node will do" in site.refused(message)


# -- faults


def test_all_faults_of_an_instance_at_once(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    name = message["request"]["name"]
    ask_for(message, "steward:member-of:a+b", "steward:memberof:a", "steward:member-of.prim:a")
    assert site.refused(message) == (
        f"instance {name}: tag 'steward:member-of:a+b': a list needs \"in:\" (meant: 'in:a+b' ?); "
        f"instance {name}: tag 'steward:memberof:a': unknown key 'memberof' (known here: "
        "steward:member-of:, steward:pool:); "
        f"instance {name}: tag 'steward:member-of.prim:a': unknown role 'prim' (known: primary, "
        "secondary, storage, unit)"
    )


def test_faults_of_other_instances_do_not_matter(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    free = site.ask(message)
    for instance in message["instances"].values():
        instance["tags"] = ["steward:nonsense"]
    assert site.ask(message) == free


@pytest.mark.parametrize("kind", ["node", "group"])
def test_what_has_a_faulty_tag_takes_nothing(site: Site, capture: Capture, kind: str) -> None:
    message = capture("allocate-drbd")
    if kind == "node":
        for node in ("node1.lab", "node2.lab", *RACK2):
            message["nodes"][node]["tags"] = ["steward:aggregate:a+b"]
        assert "2 faulty tag" in site.refused(message)
        return
    group_tag(message, "default", "steward:aggregate:")
    outcome = site.ask(message)
    assert set(site.place(message)) <= set(RACK2)
    fault = "the name of an aggregate is missing"
    assert f"(closed: group default: tag 'steward:aggregate:': {fault})" in outcome.info


@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ("steward:default-forbidden-prefix:", "the prefix is missing"),
        ("steward:default-forbidden:reservation:", "unknown key 'default-forbidden'"),
        ("steward:aggregate:a", "the whole cluster cannot be in an aggregate"),
        ("steward:pool:p1:a", "names no aggregate (meant: 'steward:pool:p1:aggregate:NAME' ?)"),
        ("steward:unclaimable:in:a", "begins like"),
        ("steward:member-of:a", "member-of belongs on a instance"),
    ],
)
def test_a_fault_of_the_cluster_closes_everything(
    site: Site, capture: Capture, tag: str, told: str
) -> None:
    for name in ("allocate-drbd", "relocate-drbd", "allocate-secondary-plain-to-drbd"):
        message = capture(name)
        message["cluster_tags"].append(tag)
        refusal = site.refused(message)
        assert refusal.startswith(f"the cluster: tag {tag!r}: ")
        assert told in refusal
    message = capture("node-evacuate-secondary-drbd")
    message["cluster_tags"].append(tag)
    moved, failed, _ = site.place(message)
    assert moved == []
    assert all(told in why for _, why in failed)


def test_a_role_the_instance_does_not_have(site: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    free = site.place(message)
    ask_for(message, "steward:member-of.secondary:x", "steward:member-of.storage:x")
    assert site.place(message) == free
    name = message["request"]["name"]
    for role in ("secondary", "storage"):
        told = f"{name} has no {role}; what its tags ask of one is ignored"
        assert told in site.ask(message).info


# -- the configuration

CONFIGURED = """
[aggregates]
default-forbidden-prefixes = ["reservation:"]
required-prefixes = ["reservation:"]
unclaimable = ["reservation:free"]
[aggregates.groups]
rack2 = ["room2"]
[aggregates.nodes]
"node1.lab" = ["reservation:free"]
"node2.lab" = ["reservation:r1"]
[aggregates.units."node3.lab"]
numa0 = ["fast"]
[aggregates.pools]
p1 = ["room2"]
[aggregates.instances]
"strict.lab" = ["!in:room2,reservation:r1", "member_of_primary=reservation:r2"]
"""


def test_the_configuration_says_the_same(site: Site, capture: Capture) -> None:
    site.configure(more=CONFIGURED)
    message = capture("allocate-diskless")
    ask_for(message, "reservation:r1")
    assert site.place(message) == ["node2.lab"]
    ask_for(message, "steward:member-of:not:room2")
    assert site.place(message) == ["node3.lab"]
    ask_for(message, "steward:member-of:room2")
    assert set(site.place(message)) <= set(RACK2)
    ask_for(message, "reservation:free")
    assert "no instance may ask for" in site.refused(message)
    ask_for(message)
    message["request"]["name"] = "strict.lab"
    put(message, "reservation:r2", "node3.lab", "node4.lab")
    assert site.place(message) == ["node3.lab"]
    del message["nodes"]["node1.lab"]
    for name in [n for n, i in message["instances"].items() if "node1.lab" in i["nodes"]]:
        del message["instances"][name]
    told = "configuration aggregates.nodes.node1.lab: the cluster has no node1.lab"
    assert told in site.ask(message).info


def test_faults_in_the_configuration_close_everything(site: Site, capture: Capture) -> None:
    site.configure(more=CONFIGURED.replace('["room2"]', '["room 2"]'))
    refusal = site.refused(capture("allocate-drbd"))
    assert "configuration aggregates.groups.rack2: 'room 2': 'room 2' is no name" in refusal
    assert "configuration aggregates.pools.p1: 'room 2'" in refusal


# -- explained, and free of cost


def test_explained(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    message["cluster_tags"].extend(RESERVING)
    put(message, "reservation:r1", "node1.lab")
    put(message, "old", "node4.lab")
    ask_for(message, "steward:member-of:not:old", "steward:member-of.secondary:not:new")
    outcome = site.ask(message, explain=True)
    assert isinstance(outcome, Answer)
    explanation: Any = outcome.explanations[0]
    told = {(v.node, v.role): v for group in explanation.groups for v in group.nodes}
    assert (told["node1.lab", "primary"].rule, told["node1.lab", "primary"].reason) == (
        "reserved (reservation:*)",
        "it is in aggregate reservation:r1; an instance must ask for one of reservation:*",
    )
    assert told["node4.lab", "secondary"].reason == "it is in aggregate old, which is forbidden"


def test_real_process(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    put(message, "ssd", "node4.lab", "node6.lab")
    ask_for(message, "steward:member-of:ssd")
    assert set(site.run(message)["result"]) == {"node4.lab", "node6.lab"}
    ask_for(message, "steward:member-of:ssd\n", "steward:member-of:\u00e4")
    answer = site.run(message)
    assert (answer["success"], answer["result"]) == (False, [])
    name = message["request"]["name"]
    head = (
        f"Request failed: instance {name}: tag 'steward:member-of:ssd\\n': 'ssd\\n' is no name of "
    )
    assert answer["info"].startswith(head)
    assert f"; instance {name}: tag 'steward:member-of:\\xe4': " in answer["info"]


LOADED = """
import sys
from ganeti_steward.core.config import config_path, load_config
from ganeti_steward.core.dispatch import answer_message
from ganeti_steward.core.options import Options
raw = open(sys.argv[1], "rb").read()
answer_message(raw, Options(), load_config(config_path()))
print(sum(name.startswith("ganeti_steward.plugins") for name in sys.modules))
"""


def test_not_even_imported_where_nothing_speaks_of_it(site: Site, capture: Capture) -> None:
    file = site.path / "message.json"

    def loaded(message: Message) -> int:
        file.write_text(json.dumps(message))
        environment = {"GNT_STEWARD_CONFIG": str(site.config_file)}
        command = [sys.executable, "-c", LOADED, str(file)]
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        return int(done.stdout)

    message = capture("allocate-drbd")
    message["nodes"]["node1.lab"]["tags"] = ["stewards", "rack:steward:aggregate:x"]
    for instance in message["instances"].values():
        instance["tags"] = ["steward:member-of:a"]
    assert loaded(message) == 0
    put(message, "a", "node2.lab")
    assert loaded(message) > 0
    message = capture("allocate-drbd")
    ask_for(message, "steward:member-of:a")
    assert loaded(message) > 0
    message = capture("allocate-drbd")
    site.configure(more="[aggregates]\nunclaimable = ['a']\n")
    assert loaded(message) > 0
