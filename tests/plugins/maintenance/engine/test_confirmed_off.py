"""The word of a person that a node is off: until when it counts, and what ends it."""

from __future__ import annotations

import pytest
from maintained import CONFIG, EVACUATE, SECOND, Maintained

from ganeti_steward.core.model.cluster import HYPERVISOR_FIGURES
from ganeti_steward.plugins.model.incident import NOTED


@pytest.mark.parametrize(
    ("facts", "removed"),
    [({}, False), ({"missing": ()}, True), ({"missing": (), "offline": True}, False)],
)
def test_the_word_that_a_node_is_off_ends_when_it_answers(
    facts: dict[str, object], removed: bool
) -> None:
    """It must not count the next time."""
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.round()
    found, uuid = cluster.incident("node2"), "uuid-node2"
    words = {found.stopped_tag, f"maintd:stopped:{uuid}"}
    for word in words:
        cluster.tag("node2", word)
    cluster.change("node2", **facts)
    cluster.run()
    left = words & {*cluster.nodes[uuid].tags}
    assert left == (set() if removed else words)


def test_a_word_that_cannot_be_removed_does_not_count_after_the_node_has_answered() -> None:
    cluster = Maintained(config=CONFIG._replace(hold_time=3600))
    cluster.report("node2", EVACUATE)
    cluster.round()
    for word in cluster.incident("node2").stopped_tags:
        cluster.tag("node2", word)
    cluster.round()
    assert cluster.world().is_stopped("node2")
    cluster.change("node2", missing=())
    cluster.round()
    assert not cluster.world().is_stopped("node2")
    (untag,) = cluster.pending_jobs()
    cluster.end(untag, error="canceled")
    cluster.change("node2", missing=HYPERVISOR_FIGURES)
    cluster.round()
    assert not cluster.world().is_stopped("node2")
    # A person can set it again once it is gone.
    cluster.wait(600)
    cluster.run()
    assert cluster.nodes["uuid-node2"].tags == ()
    assert not cluster.incident("node2").answered


def test_an_agent_that_reports_after_the_word_that_its_node_is_off() -> None:
    """Until the word is gone: when the node is off again a person sets it again."""
    cluster = Maintained(config=CONFIG._replace(hold_time=3600))
    cluster.report("node2", EVACUATE)
    cluster.round()
    (word, _) = cluster.incident("node2").stopped_tags
    cluster.tag("node2", word)
    cluster.round()
    assert not cluster.incident("node2").reported, "the report was made before"
    cluster.report("node2", EVACUATE)
    cluster.round()
    assert cluster.incident("node2").reported
    cluster.silence("node2")
    cluster.round()
    assert cluster.incident("node2").reported
    cluster.untag("node2", word)
    cluster.round()
    assert not cluster.incident("node2").reported


def test_a_node_that_is_confirmed_to_be_off_again() -> None:
    """Also where the out-of-band program had reported that it is off before."""
    cluster = Maintained(config=CONFIG._replace(hold_time=3600))
    cluster.report("node2", EVACUATE)
    cluster.round()
    found = cluster.incident("node2")
    cluster.records[found.uuid] = found._replace(off_at=cluster.now - SECOND, reported=True)
    cluster.silence("node2")
    cluster.round()
    assert cluster.incident("node2").reported
    cluster.tag("node2", found.stopped_tag)
    cluster.round()
    assert not cluster.incident("node2").reported


def test_to_remove_a_word_begins_no_repair() -> None:
    cluster = Maintained(config=CONFIG._replace(hold_time=3600))
    cluster.report("node2", EVACUATE)
    cluster.change("node2", missing=())
    cluster.round()
    cluster.tag("node2", cluster.incident("node2").stopped_tag)
    cluster.run()
    assert cluster.incident("node2").status == NOTED
    assert cluster.nodes["uuid-node2"].tags == ()
