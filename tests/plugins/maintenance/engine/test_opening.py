"""After the operator's word: what was closed is opened, and only then the incident is forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from maintained import CONFIG, OK, Maintained, diagnose

from ganeti_steward.plugins.maintenance.config import OBSERVE
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan
from ganeti_steward.plugins.model.incident import COMPLETED, FAILED, Incident
from ganeti_steward.plugins.model.operations import remove_tags, set_tags
from ganeti_steward.plugins.model.task import CLOSE, OPEN, Done, Failed, Plan, Task, Wait
from ganeti_steward.plugins.model.world import World

AILING = diagnose("live-repair")


def planned(incident: Incident, world: World) -> Sequence[PluginPlan]:
    """Close, done; after the acknowledgement wait for the healthy report, then open."""
    return [PluginPlan("test", _plan(incident, world))]


def _plan(incident: Incident, world: World) -> Plan:
    name, tag = incident.node_name, incident.closed_tag
    if incident.status == COMPLETED:
        if incident.healthy_since is None:
            return Wait("still reported")
        job = [remove_tags("node", name, [tag])]
        return Task(OPEN, frozenset({name}), frozenset(), "open it", [job])
    if tag in world.nodes[incident.node].tags:
        return Done("it is empty")
    return Task(CLOSE, frozenset({name}), frozenset(), "close", [[set_tags("node", name, [tag])]])


def acknowledged() -> Maintained:
    cluster = Maintained()
    cluster.planner = planned
    cluster.report("node2", AILING)
    cluster.run()
    incident = cluster.incident("node2")
    assert (incident.status, incident.tagged) == (COMPLETED, True)
    assert {*cluster.nodes["uuid-node2"].tags} == {incident.closed_tag, incident.ready_tag}
    cluster.untag("node2", incident.ready_tag)
    cluster.round()
    return cluster


def test_it_is_opened_and_then_forgotten() -> None:
    cluster = acknowledged()
    assert cluster.held() == {"wait": "still reported"}
    cluster.report("node2", OK)
    cluster.round()
    (number,) = cluster.pending_jobs()
    assert cluster.queue[number].task.step == OPEN
    cluster.wait(6000)
    cluster.round()
    # The job has not ended: it is neither forgotten nor opened a second time.
    assert cluster.pending_jobs() == [number]
    cluster.run()
    assert cluster.records == {}
    assert cluster.nodes["uuid-node2"].tags == ()


def test_a_completed_one_whose_tag_is_there_is_not_opened() -> None:
    cluster = Maintained()
    cluster.planner = planned
    cluster.report("node2", AILING)
    cluster.run()
    cluster.report("node2", OK)
    cluster.wait(6000)
    cluster.run()
    assert cluster.incident("node2").closed_tag in cluster.nodes["uuid-node2"].tags


def test_an_opening_that_failed_is_tried_again_later() -> None:
    cluster = acknowledged()
    cluster.report("node2", OK)
    cluster.round()
    (number,) = cluster.pending_jobs()
    cluster.end(number, "pvchange failed")
    cluster.round()
    assert cluster.held() == {
        "tag-failed": f"job {number} (open-volume) failed: pvchange failed",
        "tag": "the opening is tried again in 300 s",
    }
    assert cluster.incident("node2").status == COMPLETED
    cluster.wait(6000)
    cluster.run()
    assert cluster.records == {}


def test_brakes_hold_the_opening() -> None:
    cluster = acknowledged()
    cluster.report("node2", OK)
    cluster.tag("node2", "maintd:off")
    cluster.cluster_tags = {"maintd:pause:upgrade"}
    cluster.config = CONFIG._replace(mode=OBSERVE)
    cluster.round()
    assert cluster.held().keys() == {"opt-out", "pause", "observe"}
    assert "it would: open it" in cluster.held()["observe"]


def test_a_cancel_leaves_it_closed() -> None:
    cluster = acknowledged()
    incident = cluster.incident("node2")
    cluster.tag("node2", incident.cancel_tag)
    cluster.report("node2", OK)
    cluster.run()
    assert OPEN not in {job.task.step for job in cluster.queue.values()}
    assert cluster.nodes["uuid-node2"].tags == ()


def failed() -> Maintained:
    """Its volume was closed; then a job failed, and the node got the tag of failure."""
    cluster = Maintained()
    cluster.planner = planned
    cluster.report("node2", AILING)
    cluster.round()
    (close,) = cluster.pending_jobs()
    cluster.end(close)
    cluster.planner = lambda incident, world: [PluginPlan("test", Failed("no room"))]
    cluster.run()
    incident = cluster.incident("node2")
    assert {*cluster.nodes["uuid-node2"].tags} == {incident.closed_tag, incident.failed_tag}
    cluster.planner = planned
    return cluster


def test_what_a_failed_one_closed_is_opened_once_it_was_acknowledged() -> None:
    cluster = failed()
    incident = cluster.incident("node2")
    cluster.report("node2", OK)
    cluster.round()
    cluster.untag("node2", incident.failed_tag)
    cluster.wait(2 * CONFIG.healthy_delay)
    cluster.round()
    assert cluster.incident("node2").acknowledged
    (number,) = cluster.pending_jobs()
    assert cluster.queue[number].task.step == OPEN
    cluster.wait(2 * CONFIG.healthy_delay)
    cluster.round()
    assert cluster.pending_jobs() == [number]
    cluster.run()
    assert cluster.records == {}
    assert cluster.nodes["uuid-node2"].tags == ()


def test_a_failed_one_that_is_still_reported_starts_again() -> None:
    cluster = failed()
    before = cluster.incident("node2")
    cluster.untag("node2", before.failed_tag)
    cluster.run()
    after = cluster.incident("node2")
    assert (after.status, after.uuid == before.uuid) == (COMPLETED, False)


def test_after_a_failure_a_silent_node_decides_later() -> None:
    """Whether the repair starts again, or what was closed is opened, is in its next report."""
    cluster = failed()
    before = cluster.incident("node2")
    cluster.silence("node2")
    cluster.untag("node2", before.failed_tag)
    for _ in range(3):
        cluster.round()
        assert cluster.incident("node2").status == FAILED
        assert cluster.held()["silent"] == (
            f"tag {before.failed_tag} was removed: whether the repair starts again or closed "
            "volumes are opened depends on the next report of node node2 "
            f"(without the tag {before.closed_tag} it is forgotten)"
        )
    cluster.report("node2", OK)
    cluster.round()
    assert cluster.incident("node2").acknowledged


def test_a_failed_one_is_forgotten_when_nothing_is_closed() -> None:
    cluster = failed()
    incident = cluster.incident("node2")
    cluster.report("node2", OK)
    for tag in (incident.closed_tag, incident.failed_tag):
        cluster.untag("node2", tag)
    cluster.round()
    assert cluster.records == {}


def test_a_tag_of_a_forgotten_incident_is_named() -> None:
    cluster = Maintained()
    cluster.tag("node2", "maintd:closed:1234")
    cluster.round()
    assert cluster.held() == {"unknown": "tag maintd:closed:1234 names no incident"}
