"""What must not be lost: time that was not observed, jobs that run, counts of what succeeded."""

from __future__ import annotations

from maintained import CONFIG, EVACUATE, OK, SECOND, Maintained, evacuating

from ganeti_steward.plugins.maintenance.engine.decision import Decision, PluginPlan
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.engine.tasks import MOST_REPEATS
from ganeti_steward.plugins.model.incident import CANCELED, NOTED, PENDING, Incident
from ganeti_steward.plugins.model.orphan import OrphanJob
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import World


def noted_and_healthy() -> Maintained:
    """An incident of which nothing was begun, and a node that reports Ok by now."""
    cluster = evacuating(CONFIG._replace(hold_time=10_000))
    cluster.report("node2", OK)
    cluster.round()
    return cluster


def test_silence_is_no_health() -> None:
    """Two reports of Ok with ten silent minutes between them end nothing."""
    cluster = noted_and_healthy()
    cluster.silence("node2")
    cluster.round()
    cluster.wait(CONFIG.healthy_delay)
    cluster.round()
    cluster.report("node2", OK)
    cluster.round()
    assert cluster.incident("node2").status == NOTED
    cluster.wait(CONFIG.healthy_delay - 10)
    cluster.round()
    assert cluster.incident("node2").status == NOTED
    cluster.wait(10)
    cluster.round()
    assert cluster.records == {}


def test_health_of_a_clock_that_was_ahead_lasts_from_now_on() -> None:
    """The clock of the master, or of the one before, is set back by a day."""
    cluster = Maintained(config=CONFIG._replace(hold_time=10_000))
    cluster.wait(86400)
    cluster.report("node2", EVACUATE)
    cluster.round()
    cluster.report("node2", OK)
    cluster.round()
    cluster.wait(-86400)
    cluster.report("node2", OK)
    cluster.round()
    incident = cluster.incident("node2")
    assert {incident.healthy_since, incident.changed, incident.observed_since} == {cluster.now}
    cluster.wait(CONFIG.healthy_delay - 10)
    cluster.round()
    assert cluster.incident("node2").status == NOTED
    cluster.wait(10)
    cluster.round()
    assert cluster.records == {}


def test_a_daemon_that_was_away_has_not_seen_health() -> None:
    cluster = noted_and_healthy()
    cluster.wait(CONFIG.healthy_delay)
    cluster.observations.clear()
    cluster.round()
    cluster.report("node2", OK)
    cluster.round()
    assert cluster.incident("node2").healthy_since == cluster.now


def test_a_report_that_grew_too_old_is_no_health() -> None:
    cluster = noted_and_healthy()
    cluster.polling = False
    config = cluster.config
    cluster.config = config._replace(report_max_age=60, poll_interval=10)
    cluster.wait(CONFIG.healthy_delay)
    cluster.round()
    cluster.polling = True
    cluster.round()
    assert cluster.incident("node2").healthy_since == cluster.now


def test_silence_is_recorded_once_and_hides_no_return() -> None:
    """Of what is reported again the hold time begins again."""
    cluster = noted_and_healthy()
    cluster.silence("node2")
    cluster.round()
    assert cluster.incident("node2").silent_since == cluster.now
    cluster.round()
    assert cluster.decisions[-1].records == ()
    cluster.report("node2", EVACUATE)
    cluster.round()
    incident = cluster.incident("node2")
    assert (incident.healthy_since, incident.silent_since) == (None, None)
    assert incident.observed_since == cluster.now


def test_a_canceled_incident_is_known_while_its_jobs_run() -> None:
    """What they use stays reserved."""
    cluster = evacuating()
    (job,) = cluster.queue
    cluster.start(job)
    incident = cluster.incident("node2")
    cluster.tag("node2", incident.cancel_tag)
    cluster.round()
    assert cluster.incident("node2").status == CANCELED
    cluster.untag("node2", incident.cancel_tag)
    cluster.report("node2", OK)
    cluster.round()
    cluster.wait(CONFIG.healthy_delay + 10)
    cluster.round()
    assert incident.uuid in cluster.records
    cluster.end(job)
    cluster.round()
    assert cluster.records == {}


def test_what_was_never_submitted_is_no_repetition() -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    for _ in range(3 * MOST_REPEATS):
        cluster.round(crash="records")
        (submission,) = cluster.incident("node2").open
        assert cluster.found in ({}, {submission.id: ()})
    incident = cluster.incident("node2")
    assert (incident.status, incident.repeated) == (PENDING, 0), incident.note


def always(incident: Incident, world: World) -> list[PluginPlan]:
    """A plan that never changes."""
    job = [{"OP_ID": "OP_TEST_DELAY", "duration": 1}]
    return [PluginPlan("x", Task("drain", frozenset({"node2"}), frozenset(), "why", (job,)))]


def test_only_what_has_succeeded_counts() -> None:
    """Intents that were taken back in between neither count nor begin the count again."""
    cluster = Maintained()
    cluster.planner = always
    cluster.report("node2", EVACUATE)
    for number in range(MOST_REPEATS + 1):
        cluster.round(crash="records")
        cluster.round()
        assert len(cluster.queue) == number + 1
        cluster.end(number + 1)
        cluster.round(crash="records")
    incident = cluster.incident("node2")
    assert len(cluster.queue) == MOST_REPEATS + 1
    times = MOST_REPEATS + 1
    assert incident.note == f"planned again after it succeeded {times} times in a row: why"


def test_a_submission_remembers_where_its_jobs_can_be() -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.wait(1)
    decision = step(cluster.inputs()._replace(last_job=41), cluster.config, cluster.planner)
    ((submission,),) = (one.open for one in decision.records)
    assert (submission.after, submission.size, submission.jobs) == (41, 1, ())


def test_a_refusal_that_came_late_fails_the_incident() -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.round(crash="records")
    (submission,) = cluster.incident("node2").open
    inputs = cluster.inputs()._replace(
        found={submission.id: ()}, refused={submission.id: "disk full"}
    )
    (record,) = step(inputs, cluster.config, cluster.planner).records
    assert (record.status, record.note) == ("failed", "luxid refused a job: disk full")


def test_what_is_awaited_is_reported() -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.round(crash="records")
    (submission,) = cluster.incident("node2").open
    inputs = cluster.inputs()._replace(found={}, awaited={submission.id: "luxid has to answer"})
    held = {one.brake: one.sentence for one in step(inputs, cluster.config, cluster.planner).held}
    assert held["lookup"].endswith("is not known yet: luxid has to answer")


def orphaned(cluster: Maintained, *orphans: OrphanJob) -> Decision:
    inputs = cluster.inputs()
    world = inputs.world._replace(orphans=orphans)
    return step(inputs._replace(world=world), cluster.config, cluster.planner)


def test_a_job_whose_record_was_deleted_keeps_what_it_uses() -> None:
    """The node reports again and gets an incident, which begins when the job has ended."""
    cluster = Maintained(config=CONFIG._replace(most_nodes=2))
    cluster.report("node2", EVACUATE)
    cluster.now += SECOND
    decision = orphaned(cluster, OrphanJob(15, "u-gone", "s", ("node2",), ()))
    assert (len(decision.records), decision.started) == (1, ())
    held = {one.brake: one for one in decision.held}
    assert "node2" in held["reserved"].sentence
    assert held["orphan"].sentence == (
        "job 15 of incident u-gone has not ended, and no record has it; reserved until then: node2"
    )
    assert orphaned(cluster).started


def test_a_repair_whose_record_was_deleted_counts_as_a_node_under_repair() -> None:
    cluster = Maintained()
    cluster.report("node2", EVACUATE)
    cluster.now += SECOND
    decision = orphaned(cluster, OrphanJob(15, "u-gone", "s", ("node3",), ()))
    held = {one.brake: one.sentence for one in decision.held}
    assert not decision.started
    assert held["most-nodes"] == (
        "1 of at most 1 nodes are under repair: the node of incident u-gone, which has no record"
    )
    assert orphaned(cluster).started
