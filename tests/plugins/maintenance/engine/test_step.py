"""The step by scenarios: what each kind of incident goes through."""

from __future__ import annotations

import pytest
from maintained import CONFIG, EVACUATE, OK, REPAIR, SECOND, WORSE, Maintained, diagnose, evacuating
from worlds import group

from ganeti_steward.plugins.maintenance.config import OBSERVE
from ganeti_steward.plugins.maintenance.engine.decision import (
    PluginPlan,
)
from ganeti_steward.plugins.maintenance.engine.reservations import avoided_nodes
from ganeti_steward.plugins.maintenance.engine.transitions import Event
from ganeti_steward.plugins.model.incident import (
    CANCELED,
    COMPLETED,
    FAILED,
    NOTED,
    OPT_OUT_TAG,
    PENDING,
    Incident,
)
from ganeti_steward.plugins.model.operations import set_role
from ganeti_steward.plugins.model.task import DRAIN, MOVE, TAG, UNTAG, Task
from ganeti_steward.plugins.model.world import Reported, World


def test_an_evacuation_runs_to_its_end() -> None:
    cluster = evacuating()
    assert cluster.incident("node2").status == PENDING
    cluster.run()
    incident = cluster.incident("node2")
    node = cluster.nodes["uuid-node2"]
    assert (incident.status, incident.tagged, incident.open) == (COMPLETED, True, ())
    assert (node.offline, node.tags) == (True, (incident.ready_tag,))
    assert not list(cluster.world().instances_on("node2"))
    assert incident.jobs == tuple(cluster.queue)


def test_no_more_jobs_after_one_failed() -> None:
    cluster = evacuating()
    (drain,) = cluster.pending_jobs()
    cluster.end(drain, "not enough candidates")
    cluster.round()
    incident = cluster.incident("node2")
    assert (incident.status, incident.jobs[0]) == (FAILED, drain)
    assert incident.note == f"job {drain} (drain) failed: not enough candidates"
    cluster.run()
    assert {job.task.step for n, job in cluster.queue.items() if n != drain} == {TAG}


def test_the_same_object_is_the_same_incident() -> None:
    cluster = evacuating()
    for _ in range(5):
        cluster.round()
    assert len(cluster.records) == 1


def test_each_incident_is_recorded_only_when_it_changes() -> None:
    cluster = evacuating()
    assert cluster.round().records == ()


@pytest.mark.parametrize("final", [COMPLETED, FAILED])
def test_a_cancel_of_a_final_incident_leaves_no_tag(final: str) -> None:
    cluster = evacuating()
    if final == FAILED:
        cluster.end(cluster.pending_jobs()[0], "broken")
    cluster.run()
    incident = cluster.incident("node2")
    assert incident.status == final
    cluster.tag("node2", incident.cancel_tag)
    cluster.run()
    assert cluster.incident("node2").status == CANCELED
    assert cluster.nodes["uuid-node2"].tags == ()
    cluster.report("node2", OK)
    cluster.round()
    cluster.wait(600)
    cluster.round()
    assert cluster.records == {}


def test_a_cancel_while_jobs_are_queued_and_running() -> None:
    cluster = evacuating()
    (drain,) = cluster.pending_jobs()
    cluster.start(drain)
    incident = cluster.incident("node2")
    cluster.tag("node2", incident.cancel_tag)
    cluster.round()
    assert (cluster.incident("node2").status, cluster.queue[drain].status) == (CANCELED, "running")
    cluster.end(drain)
    cluster.run()
    assert not any(job.task.step == MOVE for job in cluster.queue.values())
    assert cluster.incident("node2").open == ()


def test_a_canceled_incident_is_known_while_its_jobs_run() -> None:
    """What they use has to stay reserved, also after the tag of the cancel was removed."""
    cluster = evacuating()
    (drain,) = cluster.pending_jobs()
    cluster.start(drain)
    incident = cluster.incident("node2")
    cluster.tag("node2", incident.cancel_tag)
    cluster.round()
    cluster.untag("node2", incident.cancel_tag)
    cluster.report("node2", OK)
    cluster.round()
    cluster.wait(2 * CONFIG.healthy_delay)
    cluster.round()
    assert cluster.incident("node2").open
    cluster.end(drain)
    cluster.run()
    assert cluster.records == {}


def test_a_cancel_cancels_queued_jobs() -> None:
    cluster = evacuating()
    cluster.tag("node2", cluster.incident("node2").cancel_tag)
    cluster.round()
    assert [job.status for job in cluster.queue.values()] == ["canceled"]
    cluster.run()
    assert [job.task.step for job in cluster.queue.values()] == [DRAIN, UNTAG]


def test_a_cancel_passes_every_brake() -> None:
    held = CONFIG._replace(mode=OBSERVE, hold_time=1e6, windows=("Mon 00:00-00:01",))
    cluster = Maintained(config=held)
    cluster.cluster_tags.add("maintd:pause:power-works")
    cluster.report("node2", EVACUATE)
    cluster.round()
    cluster.tag("node2", cluster.incident("node2").cancel_tag)
    cluster.round()
    assert cluster.incident("node2").status == CANCELED


def test_acknowledged_and_still_reported_stays_known_and_silent() -> None:
    cluster = evacuating()
    cluster.run()
    incident = cluster.incident("node2")
    cluster.untag("node2", incident.ready_tag)
    jobs = len(cluster.queue)
    cluster.run()
    assert (cluster.incident("node2").acknowledged, len(cluster.queue)) == (True, jobs)
    assert cluster.nodes["uuid-node2"].tags == ()
    cluster.report("node2", OK)
    cluster.round()
    assert len(cluster.records) == 1
    cluster.wait(600)
    cluster.round()
    assert cluster.records == {}


def test_a_failed_one_is_forgotten_at_once_and_starts_again() -> None:
    cluster = evacuating()
    cluster.end(cluster.pending_jobs()[0], "broken")
    cluster.run()
    first = cluster.incident("node2")
    cluster.untag("node2", first.failed_tag)
    cluster.round()
    second = cluster.incident("node2")
    assert (second.uuid != first.uuid, second.status) == (True, PENDING)


def test_a_tag_that_cannot_be_set_is_tried_again() -> None:
    cluster = Maintained()
    cluster.report("node2", diagnose("live-repair"))
    cluster.round()
    assert cluster.incident("node2").status == COMPLETED
    (tag,) = (cluster.round(), cluster.pending_jobs())[1]
    cluster.end(tag, "node is locked")
    cluster.round()
    assert cluster.held() == {
        "tag-failed": f"job {tag} (tag) failed: node is locked",
        "tag": "the tag is tried again in 300 s",
    }
    assert cluster.pending_jobs() == []
    cluster.wait(301)
    cluster.run()
    assert cluster.incident("node2").tagged


def test_noted_and_no_longer_reported_is_forgotten_after_the_healthy_delay() -> None:
    cluster = evacuating(CONFIG._replace(hold_time=1e6))
    cluster.report("node2", OK)
    cluster.round()
    cluster.wait(590)
    cluster.round()
    assert cluster.incident("node2").status == NOTED
    cluster.wait(10)
    cluster.round()
    assert cluster.records == {}


def test_silence_changes_nothing() -> None:
    cluster = evacuating(CONFIG._replace(hold_time=10))
    cluster.silence("node2")
    cluster.wait(1e6)
    cluster.round()
    incident = cluster.incident("node2")
    assert (incident.status, incident.healthy_since) == (NOTED, None)
    assert cluster.held()["silent"] == "node node2 gives no valid report: no connection"


def test_pending_runs_to_its_end_when_the_report_is_gone() -> None:
    cluster = evacuating()
    cluster.report("node2", OK)
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED


def test_a_worse_report_takes_over() -> None:
    cluster = evacuating()
    (drain,) = cluster.pending_jobs()
    cluster.report("node2", WORSE)
    cluster.round()
    worse = cluster.incident("node2", "failover")
    assert "running" in cluster.held()
    assert worse.status == NOTED
    cluster.end(drain)
    cluster.run()
    assert cluster.incident("node2", "failover").status == COMPLETED
    lesser = cluster.incident("node2", "evacuate")
    assert (lesser.status, len(lesser.jobs)) == (COMPLETED, 2), "the drain and its tag"
    assert Event.WORSE_DONE.value in {
        change.event for one in cluster.decisions for change in one.changes
    }


def test_the_node_leaves() -> None:
    cluster = evacuating()
    del cluster.nodes["uuid-node2"]
    decision = cluster.round()
    assert (cluster.records, decision.cancels) == ({}, (1,))
    assert decision.changes[0].event == "node left the cluster"


def test_a_renamed_node_keeps_its_incident() -> None:
    cluster = evacuating()
    cluster.end(1)
    cluster.change("node2", name="node2b")
    cluster.instances = {
        name: one._replace(nodes=("node2b",)) if one.primary == "node2" else one
        for name, one in cluster.instances.items()
    }
    cluster.run()
    assert (cluster.incident("node2").status, cluster.incident("node2").node_name) == (
        COMPLETED,
        "node2b",
    )


@pytest.mark.parametrize("crash", ["records", "submitted"])
def test_a_crash_submits_nothing_twice(crash: str) -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.round(crash=crash)
    assert len(cluster.queue) == (crash == "submitted")
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED
    assert [job.task.step for job in cluster.queue.values()].count(DRAIN) == 1


def test_a_submission_that_is_not_looked_up_yet_waits() -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.round(crash="submitted")
    cluster.found = {}
    cluster.round()
    assert "is not known yet" in cluster.held()["lookup"]
    assert len(cluster.queue) == 1


def test_what_cannot_move_fails_with_its_reason() -> None:
    cluster = Maintained(nodes=2)
    cluster.change("node1", offline=True)
    cluster.report("node2", EVACUATE)
    cluster.run()
    incident = cluster.incident("node2")
    assert (incident.status, incident.unmovable) == (FAILED, (("inst0", "no node is left"),))


def test_a_task_that_changes_nothing_is_not_repeated_forever() -> None:
    """Its nodes are those of one task at a time, and each job succeeds."""

    def again(incident: Incident, world: World) -> list[PluginPlan]:
        node = world.nodes[incident.node].name
        jobs = [[set_role(node, "drained")]]
        return [PluginPlan("site", Task(DRAIN, frozenset({node}), frozenset(), "drain it", jobs))]

    cluster = Maintained()
    cluster.planner = again
    cluster.report("node2", EVACUATE)
    for _ in range(12):
        cluster.round()
        for number in cluster.pending_jobs():
            cluster.end(number)
    incident = cluster.incident("node2")
    assert incident.status == FAILED
    assert incident.note == "planned again after it succeeded 4 times in a row: drain it"
    assert [job.task.step for job in cluster.queue.values()] == [DRAIN] * 4 + [TAG]


def test_what_was_never_submitted_is_no_repetition() -> None:
    """The daemon dies between the record and the submission, again and again."""
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    for _ in range(8):
        cluster.round(crash="records")
    assert cluster.incident("node2").status == PENDING
    cluster.run()
    assert cluster.incident("node2").status == COMPLETED


def test_an_unknown_cancel_is_reported() -> None:
    cluster = Maintained()
    cluster.tag("node2", "maintd:cancel:no-such")
    cluster.round()
    assert cluster.held() == {"unknown": "tag maintd:cancel:no-such names no incident"}


def test_nothing_is_moved_to_ill_failed_or_repaired_nodes() -> None:
    cluster = Maintained(config=CONFIG._replace(most_nodes=4))
    cluster.report("node3", diagnose("live-repair"))
    cluster.report("node2", EVACUATE)
    cluster.run()
    moved = [job for job in cluster.queue.values() if job.task.step == MOVE]
    assert moved
    assert {job.job[0]["target_node"] for job in moved} <= {"node1", "node4"}


def test_nothing_is_moved_to_a_node_whose_repair_failed() -> None:
    """Also once it gives no report any more."""
    cluster = evacuating()
    (drain,) = cluster.pending_jobs()
    cluster.end(drain, "no")
    cluster.round()
    incident = cluster.incident("node2")
    assert incident.status == FAILED
    cluster.silence("node2")
    assert avoided_nodes(cluster.world()) == {
        "node2": f"has a failed incident {incident.uuid} (evacuate)"
    }


@pytest.mark.parametrize("kind", ["node", "group"])
def test_nothing_is_moved_to_what_is_excluded(kind: str) -> None:
    """The tag that keeps the daemon off a node also keeps its moves off."""
    cluster = Maintained()
    if kind == "node":
        cluster.tag("node3", OPT_OUT_TAG)
    else:
        cluster.change("node3", group="kept")
        cluster.groups = {"kept": group("kept", "kept", [OPT_OUT_TAG])}
    assert avoided_nodes(cluster.world()) == {"node3": "is excluded by the tag maintd:off"}


def test_the_same_inputs_give_the_same_decision() -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.report("node3", REPAIR)
    assert cluster.decide() == cluster.decide()
    assert isinstance(cluster.observations["uuid-node2"], Reported)
    assert cluster.now % SECOND == 0
