"""What has failed or was cancelled has no open command: its node, and others, go on at once."""

from __future__ import annotations

import pytest
from maintained import CONFIG, EVACUATE, REPAIR, Maintained
from upkept import Upkept

from ganeti_steward.plugins.maintenance.engine.decision import NOT_KNOWN, CommandResult
from ganeti_steward.plugins.model.incident import CANCELED, FAILED, Incident
from ganeti_steward.plugins.model.task import TAG, WORK

_UNKNOWN = CommandResult(False, "whether reboot-node was run is not known", NOT_KNOWN)


def _gone() -> tuple[Upkept, Incident]:
    """A node that was rebooted by its command, and does not come back; its agent is silent."""
    cluster = Upkept()
    cluster.booted("node2", "b1")
    found = cluster.request("node2", work="command:reboot-node")
    for _ in range(20):
        cluster.round()
        if cluster.commands:
            break
        for number in cluster.pending_jobs():
            cluster.end(number)
    (submission,) = cluster.commands
    cluster.results[submission] = _UNKNOWN
    cluster.reboot("node2")
    cluster.silence("node2")
    cluster.round()
    (one,) = cluster.records[found.uuid].open
    assert (one.step, one.command) == (WORK, "reboot-node")
    return cluster, found


def _end(cluster: Upkept, found: Incident, how: str) -> Incident:
    if how == FAILED:
        cluster.wait(CONFIG.return_limit + 1)
    else:
        cluster.tag("node2", found.cancel_tag)
    cluster.round()
    return cluster.records[found.uuid]


@pytest.mark.parametrize("how", [FAILED, CANCELED])
def test_the_outcome_is_unknown_once_it_has_ended(how: str) -> None:
    cluster, found = _gone()
    ended = _end(cluster, found, how)
    assert (ended.status, [one.command for one in ended.open if one.command]) == (how, [])
    assert "the outcome of the command reboot-node is unknown" in ended.note


def test_a_failure_is_tagged_in_the_same_round() -> None:
    """So that a person can acknowledge it."""
    cluster, found = _gone()
    ended = _end(cluster, found, FAILED)
    assert [one.step for one in ended.open] == [TAG]
    cluster.run()
    assert found.failed_tag in cluster.nodes["uuid-node2"].tags


@pytest.mark.parametrize("how", [FAILED, CANCELED])
def test_an_ill_node_beside_it_is_repaired_at_once(how: str) -> None:
    cluster, found = _gone()
    _end(cluster, found, how)
    cluster.report("node5", EVACUATE)
    cluster.planner = Maintained().planner
    cluster.round()
    assert cluster.incident("node5").status == "pending", cluster.held()


def test_the_same_command_is_not_begun_beside_the_canceled_one() -> None:
    """The daemon remembers for how long the same object of the node gets none."""
    cluster = Maintained(config=CONFIG._replace(command_again_after=3600))
    cluster.report("node2", REPAIR)
    cluster.round()
    (submission,) = cluster.commands
    cluster.round()
    own = cluster.incident("node2")
    cluster.tag("node2", own.cancel_tag)
    cluster.round()
    assert cluster.records[own.uuid].status == CANCELED
    del cluster.records[own.uuid]
    cluster.untag("node2", own.cancel_tag)
    cluster.round()
    assert [*cluster.commands] == [submission]
    assert "for the same object" in cluster.held()["repeated"]
