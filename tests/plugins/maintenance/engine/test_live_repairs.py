"""The step by scenarios: what a live repair goes through."""

from __future__ import annotations

import pytest
from maintained import CONFIG, OK, REPAIR, Maintained, diagnose

from ganeti_steward.plugins.maintenance.engine.decision import (
    NEVER_CAME,
    NOT_KNOWN,
    CommandResult,
    PluginPlan,
)
from ganeti_steward.plugins.maintenance.repairs.live_repair import steward_plan
from ganeti_steward.plugins.model.incident import (
    COMPLETED,
    FAILED,
    PENDING,
    Incident,
)
from ganeti_steward.plugins.model.world import World


def test_a_live_repair_that_succeeds() -> None:
    cluster = Maintained()
    cluster.report("node2", REPAIR)
    cluster.round()
    assert cluster.incident("node2").status == PENDING
    assert list(cluster.commands.values()) == [("node2", "fix-nic")]
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED
    assert len(cluster.commands) == 1


def test_a_live_repair_without_a_command() -> None:
    """It is for people: the node is ready for the repair, and nothing has failed."""
    cluster = Maintained()
    cluster.planner = live_repair
    cluster.report("node2", diagnose("live-repair", details="disk"))
    cluster.run()
    incident = cluster.incident("node2")
    assert (incident.status, incident.tagged) == (COMPLETED, True)
    assert incident.note.startswith("no repair command was requested: what node node2 reports")
    assert {*cluster.nodes["uuid-node2"].tags} == {incident.ready_tag}
    assert cluster.commands == {}


def live_repair(incident: Incident, world: World) -> list[PluginPlan]:
    return [PluginPlan("live-repair", one) for one in steward_plan(incident, world) or ()]


def test_a_live_repair_that_fails() -> None:
    cluster = Maintained()
    cluster.report("node2", REPAIR)
    cluster.round()
    (submission,) = cluster.commands
    cluster.results[submission] = CommandResult(False, "exit status 3")
    cluster.run()
    incident = cluster.incident("node2")
    assert (incident.status, incident.tagged) == (FAILED, True)
    assert "fix-nic: exit status 3" in incident.note
    assert incident.failed_tag in cluster.nodes["uuid-node2"].tags
    assert incident.ready_tag not in cluster.nodes["uuid-node2"].tags


def test_a_live_repair_of_which_nothing_is_known_yet() -> None:
    """It is held, not failed; once its agent answers it ends as the command did."""
    cluster = Maintained()
    cluster.report("node2", REPAIR)
    cluster.round()
    (submission,) = cluster.commands
    cluster.results[submission] = CommandResult(False, "the agent does not answer", NOT_KNOWN)
    cluster.round()
    assert cluster.held()["lookup"] == "the agent does not answer"
    assert cluster.incident("node2").status == PENDING
    del cluster.results[submission]
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED
    assert len(cluster.commands) == 1


def test_a_live_repair_that_never_came() -> None:
    """It is started again, with an id of its own, while the node still reports it."""
    cluster = Maintained()
    cluster.report("node2", REPAIR)
    cluster.round()
    (lost,) = cluster.commands
    cluster.results[lost] = CommandResult(False, "it never came", NEVER_CAME)
    cluster.run()
    incident = cluster.incident("node2")
    assert (incident.status, incident.repeated) == (COMPLETED, 0)
    assert len(cluster.commands) == 2


@pytest.mark.parametrize("tagged", [False, True])
def test_a_command_that_never_came_and_is_not_reported_any_more(*, tagged: bool) -> None:
    """The incident is over: it would keep other nodes from being repaired.

    A tag that the daemon removes meanwhile is no part of the repair.
    """
    cluster = Maintained(config=CONFIG._replace(healthy_delay=600))
    cluster.report("node2", REPAIR)
    cluster.change("node2", missing=())
    cluster.round()
    if tagged:
        cluster.tag("node2", cluster.incident("node2").stopped_tag)
    (lost,) = cluster.commands
    cluster.report("node2", OK)
    cluster.results[lost] = CommandResult(False, "it never came", NEVER_CAME)
    cluster.round()
    assert cluster.incident("node2").status == PENDING
    untags = cluster.pending_jobs()
    assert len(untags) == tagged
    for untag in untags:
        cluster.end(untag)
    cluster.round()
    cluster.wait(601)
    cluster.round()
    assert cluster.records == {}


@pytest.mark.parametrize("crash", ["records", "submitted"])
def test_a_command_is_run_once(crash: str) -> None:
    """Its agent knows whether it came, also when the daemon was killed."""
    cluster = Maintained()
    cluster.report("node2", REPAIR)
    cluster.round(crash=crash)
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED
    assert len(cluster.commands) == 1
