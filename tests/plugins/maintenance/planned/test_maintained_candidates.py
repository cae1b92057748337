"""A node that was a master candidate before its maintenance is one again after it."""

from __future__ import annotations

import pytest
from upkept import Upkept

from ganeti_steward.plugins.model.debts import debts_of
from ganeti_steward.plugins.model.incident import Incident


def _drained_candidate(**roles: bool) -> tuple[Upkept, Incident]:
    """node2 was a candidate, is drained for its maintenance, and then gets these roles."""
    cluster = Upkept()
    cluster.change("node2", master_candidate=True)
    found = cluster.request("node2")
    cluster.run()
    tags = cluster.nodes["uuid-node2"].tags
    assert tags == ("maintd:drained:uuid-node2", "maintd:candidate:uuid-node2")
    assert not cluster.nodes["uuid-node2"].master_candidate
    cluster.change("node2", **roles)
    return cluster, found


@pytest.mark.parametrize(
    ("roles", "candidate", "reason"),
    [
        ({}, True, "take node2 back as a master candidate: it answers"),
        ({"master_capable": True}, True, "take node2 back as a master candidate: it answers"),
        ({"master_capable": False}, False, "take node2 back: it answers"),
    ],
)
def test_a_candidate_is_a_candidate_again(
    roles: dict[str, bool], candidate: bool, reason: str
) -> None:
    """Unless a person has forbidden it meanwhile."""
    cluster, found = _drained_candidate(**roles)
    cluster.done(found)
    cluster.run()
    node = cluster.nodes["uuid-node2"]
    assert (bool(node.master_candidate), node.drained, node.tags) == (candidate, False, ())
    assert any(
        one.task.reason.startswith(reason)
        for decision in cluster.decisions
        for one in decision.started
    )


@pytest.mark.parametrize(
    ("roles", "jobs"),
    [
        ({"drained": False}, ["OP_NODE_SET_PARAMS", "OP_TAGS_DEL"]),
        ({"drained": False, "master_candidate": True}, ["OP_TAGS_DEL"]),
    ],
)
def test_a_candidate_that_a_person_has_taken_back(roles: dict[str, bool], jobs: list[str]) -> None:
    cluster, found = _drained_candidate()
    cluster.done(found)
    cluster.change("node2", **roles)
    cluster.run()
    node = cluster.nodes["uuid-node2"]
    assert (node.master_candidate, node.drained, node.tags) == (True, False, ())
    (job,) = [
        one.task.jobs[0]
        for decision in cluster.decisions
        for one in decision.started
        if one.task.step == "tidy" and "node2" in one.task.reason and not one.task.instances
    ]
    assert [operation["OP_ID"] for operation in job] == jobs


def test_a_candidate_that_is_to_stay_drained() -> None:
    """A person has removed the tag: it cannot be both, and nothing is to be undone."""
    cluster, found = _drained_candidate()
    cluster.untag("node2", "maintd:drained:uuid-node2")
    cluster.tag("node2", found.cancel_tag)
    cluster.run()
    debts = debts_of(cluster.world().cluster, cluster.nodes["uuid-node2"])
    assert (debts.drained, debts.candidate) == (False, False)
    again = cluster.request("node2")
    cluster.run()
    cluster.done(again)
    cluster.run()
    node = cluster.nodes["uuid-node2"]
    assert (node.drained, node.tags) == (True, ("maintd:candidate:uuid-node2",))
    assert cluster.records[again.uuid].state_name == "acknowledged"
    cluster.change("node2", drained=False)
    debts = debts_of(cluster.world().cluster, cluster.nodes["uuid-node2"])
    assert debts.sentence.startswith("node2 is not a master candidate any more")
    assert "gnt-node modify -C yes node2" in [*debts.commands]
