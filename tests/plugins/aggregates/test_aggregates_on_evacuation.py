"""Evacuations keep to the rules, or prefer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from message_tags import DEFAULT, RACK2, ask_for, put

if TYPE_CHECKING:
    from sites import Capture, Site


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


def test_failing_over_is_not_checked(site: Site, capture: Capture) -> None:
    """Nothing is chosen then; but there is a note."""
    message = capture("node-evacuate-primary-drbd")
    name = message["request"]["instances"][0]
    primary, secondary = message["instances"][name]["nodes"]
    free = site.place(message)
    put(message, "old", primary, secondary)
    message["instances"][name]["tags"] = ["steward:member-of:not:old"]
    assert site.place(message) == free
    note = f"{name} stays on {secondary} as primary, against the rules: it is in aggregate old"
    assert note in site.ask(message).info


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
    note = f"{name} is placed on {nodes[0]} as primary, against the rules: it is in aggregate old"
    assert note in site.ask(message).info
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
