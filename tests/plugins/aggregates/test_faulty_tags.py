"""What cannot be understood closes, and is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from message_tags import RACK2, ask_for, group_tag

from ganeti_steward.plugins.aggregates.language.expression import ExpressionError
from ganeti_steward.plugins.aggregates.language.tags import INSTANCE, Declared, read_tag
from ganeti_steward.plugins.model.incident import RESTART_FIRST, RESTART_LAST, RESTART_NEVER

if TYPE_CHECKING:
    from sites import Capture, Site


def test_all_faults_of_an_instance_at_once(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    name = message["request"]["name"]
    ask_for(message, "steward:member-of:a+b", "steward:memberof:a", "steward:member-of.prim:a")
    assert site.refused(message) == (
        f"instance {name}: tag 'steward:member-of:a+b': a list needs \"in:\" (meant: 'in:a+b' ?); "
        f"instance {name}: tag 'steward:memberof:a': unknown key 'memberof' (known here: "
        "steward:member-of:, steward:pool:, steward:prefer:, steward:avoid:, steward:restart:); "
        f"instance {name}: tag 'steward:member-of.prim:a': unknown role 'prim' (known: primary, "
        "secondary, storage, unit)"
    )


def test_a_tag_that_ends_too_early(site: Site, capture: Capture) -> None:
    """What was meant is shown as the whole tag, with its role."""
    message = capture("allocate-drbd")
    ask_for(message, "steward:member-of.primary", "steward:member-of")
    refusal = site.refused(message)
    assert "names no aggregate (meant: 'steward:member-of.primary:NAME' ?); " in refusal
    assert refusal.endswith("names no aggregate (meant: 'steward:member-of:NAME' ?)")


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
    ("tag", "fault"),
    [
        ("steward:default-forbidden-prefix:", "the prefix is missing"),
        ("steward:default-forbidden:reservation:", "unknown key 'default-forbidden'"),
        ("steward:aggregate:a", "the whole cluster cannot be in an aggregate"),
        ("steward:pool:p1:a", "names no aggregate (meant: 'steward:pool:p1:aggregate:NAME' ?)"),
        ("steward:unclaimable:in:a", "begins like"),
        ("steward:member-of:a", "member-of belongs on an instance"),
    ],
)
def test_a_fault_of_the_cluster_closes_everything(
    site: Site, capture: Capture, tag: str, fault: str
) -> None:
    for name in ("allocate-drbd", "relocate-drbd", "allocate-secondary-plain-to-drbd"):
        message = capture(name)
        message["cluster_tags"].append(tag)
        refusal = site.refused(message)
        assert refusal.startswith(f"the cluster: tag {tag!r}: ")
        assert fault in refusal
    message = capture("node-evacuate-secondary-drbd")
    message["cluster_tags"].append(tag)
    moved, failed, _ = site.place(message)
    assert moved == []
    assert all(fault in why for _, why in failed)


def test_where_a_key_belongs(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    message["nodes"]["node1.lab"]["tags"] = ["steward:pool:nas1:aggregate:a"]
    assert "pool belongs on the cluster or an instance (known here: " in site.ask(message).info


@pytest.mark.parametrize("tag", [RESTART_FIRST, RESTART_LAST, RESTART_NEVER])
def test_when_an_instance_is_started_elsewhere_is_no_aggregate(tag: str) -> None:
    assert read_tag(INSTANCE, tag) == Declared("restart", tag.rpartition(":")[2])
    with pytest.raises(ExpressionError, match="'soon' is not one of first, last, never"):
        read_tag(INSTANCE, "steward:restart:soon")
