"""Moves that fail: others first, then another way, and what is left is named."""

from __future__ import annotations

from typing import Any

import pytest
from evacuated import Evacuated, Outcome
from worlds import after, incident, instance, node, world

from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.queue.submit import without
from ganeti_steward.plugins.model.incident import COMPLETED, FAILED, PENDING
from ganeti_steward.plugins.model.operations import activate_disks, clean_up, restart
from ganeti_steward.plugins.model.world import Reported


def evacuated(*instances: Any, nodes: int = 5, action: str = "evacuate", **more: Any) -> Evacuated:
    made = [node("n1", drained=True), *(node(f"n{i}") for i in range(2, nodes + 1))]
    about = incident("n1", action, status=PENDING)
    return Evacuated(world(made, instances, [about]), **more)


def six() -> list[Any]:
    return [instance(f"i{k}", "n1", template="ext") for k in range(6)]


def failing(*names: str, error: str = "Disk 0 is degraded") -> Any:
    def outcome(job: Job) -> Outcome:
        if job[0].get("instance_name") in names:
            return error
        return [None] * len(job)

    return outcome


def moved(cluster: Evacuated) -> list[str]:
    return [job[0]["instance_name"] for job in cluster.jobs if "instance_name" in job[0]]


def test_one_that_fails_keeps_no_other_on_the_node() -> None:
    cluster = evacuated(*six(), moves_at_once=1)
    cluster.outcome = failing("i0")
    found = cluster.run()
    assert found.status == FAILED
    assert moved(cluster) == ["i0", "i1", "i2", "i3", "i4", "i5", "i0", "i0"]
    assert found.unmovable == (
        ("i0", "tried 3 of 3 times, job 8 (move) failed: Disk 0 is degraded"),
    )
    assert "1 of 1 instances on n1 cannot be moved: i0: tried 3 of 3 times" in found.note


def test_a_failed_move_is_reported() -> None:
    cluster = evacuated(*six())
    cluster.outcome = failing("i0")
    cluster.round()
    cluster.round()
    assert cluster.sentences("attempt") == ["i0: job 1 (move) failed: Disk 0 is degraded"]
    (started,) = cluster.decisions[-1].started
    assert "not now: i0: tried 1 of 3 times" in started.task.reason


def test_it_may_succeed_later() -> None:
    cluster = evacuated(*six())
    cluster.outcome = failing("i0")
    cluster.round()
    cluster.outcome = failing()
    assert cluster.run().status == COMPLETED
    assert cluster.incident.unmovable == ()


def test_a_pause_between_two_attempts() -> None:
    cluster = evacuated(*six()[:1])
    cluster.outcome = failing("i0")
    cluster.round()
    cluster.round(10)
    assert cluster.sentences("wait") == [
        "1 of 1 instances on n1 wait: i0: tried 1 of 3 times, job 1 (move) failed: Disk 0 is "
        "degraded; tried again in 20 s"
    ]
    assert len(cluster.jobs) == 1
    cluster.round(31)
    assert len(cluster.jobs) == 2


def test_the_number_of_attempts_is_configured() -> None:
    cluster = evacuated(*six()[:2], move_attempts=1)
    cluster.outcome = failing("i0")
    assert cluster.run().status == FAILED
    assert moved(cluster) == ["i0", "i1"]


def test_another_target_is_tried() -> None:
    cluster = evacuated(instance("a", "n1", template="ext"))
    cluster.outcome = failing("a", error="hypervisor: no")
    cluster.run()
    targets = [job[0]["target_node"] for job in cluster.jobs]
    assert len(set(targets)) == len(targets) == 3


def test_a_target_to_which_a_job_has_moved_it_did_not_fail() -> None:
    """Where its copy is by now would be avoided, and another full copy made."""
    cluster = evacuated(instance("a", "n1", template="ext"))
    cluster.round()
    cluster.instance("a", nodes=("n1",))
    cluster.round()
    assert cluster.incident.attempt("a").targets == (cluster.jobs[-1][0]["target_node"],)


def test_a_target_of_a_job_that_was_not_handed_over_did_not_fail() -> None:
    """A good copy there would be given up for one on another node."""
    cluster = evacuated(instance("a", "n1", "n3"))
    cluster.disks("a")
    before = cluster.now
    (started,) = cluster.round().started
    left = without(cluster.incident, started.submission)
    assert left.attempt("a").targets
    cluster.now, cluster.jobs = before._replace(incidents={left.uuid: left}), []
    cluster.round()
    assert [one.get("remote_node") for one in cluster.jobs[0]] == [
        one.get("remote_node") for one in started.task.jobs[0]
    ]


# -- what Ganeti itself broke


WCONFD = "Can't connect to /var/run/ganeti/socket/ganeti-wconfd"


def test_a_migration_that_was_cut_in_half_is_cleaned_up_first() -> None:
    cluster = evacuated(instance("a", "n1", template="ext"))
    cluster.outcome = failing("a", error=WCONFD)
    cluster.round()
    cluster.outcome = failing()
    assert cluster.run().status == COMPLETED
    assert cluster.jobs[1] == [clean_up("a")]
    assert cluster.jobs[2][0]["target_node"]


def run_nowhere(cluster: Evacuated) -> None:
    """The migration of the instance is cut in half, and its clean-up finds it on no node."""
    cluster.outcome = failing("a", error=WCONFD)
    cluster.round()
    cluster.instance("a", status="ERROR_down")
    cluster.outcome = failing("a", error="Instance does not seem to be running at all")
    cluster.round(1)
    cluster.round(31)
    assert cluster.jobs[-1] == [clean_up("a")]
    cluster.outcome = failing()


def test_an_instance_that_runs_nowhere_is_started_where_it_was() -> None:
    cluster = evacuated(instance("a", "n1", template="ext"))
    run_nowhere(cluster)
    cluster.round(1)
    cluster.round(70)
    assert cluster.jobs[-1] == restart("a")
    cluster.instance("a", status="running")
    assert cluster.run().status == COMPLETED


def test_an_instance_that_was_moved_and_not_started_is_started() -> None:
    cluster = evacuated(instance("a", "n1", template="ext"), action="evacuate-failover")

    def cut(job: Job) -> Outcome:
        if job[0]["OP_ID"] != "OP_INSTANCE_FAILOVER":
            return [None] * len(job)
        cluster.now = after(cluster.now, [job])
        cluster.instance("a", status="ERROR_down")
        return WCONFD

    cluster.outcome = cut
    cluster.round()
    assert cluster.now.instances["a"].primary != "n1"
    cluster.round()
    cluster.round(31)
    assert cluster.jobs[-1] == restart("a")
    cluster.instance("a", status="running")
    assert cluster.run().status == COMPLETED


def test_an_instance_that_runs_nowhere_is_started_once_its_disks_are_in_sync() -> None:
    """It may have run on the other node: what is here may be old."""
    cluster = evacuated(instance("a", "n1", "n2"))
    cluster.disks("a")
    run_nowhere(cluster)
    cluster.disks("a", "disk/0 has lost its connection")
    cluster.round(1)
    cluster.round(70)
    assert cluster.jobs[-1] == [activate_disks("a", wait_for_sync=True), *restart("a")]


@pytest.mark.parametrize(
    ("offline", "status", "why"),
    [
        (False, PENDING, "n2, which may have the newer copy, is silent"),
        (True, FAILED, "n2, which may have the newer copy, is offline"),
    ],
)
def test_an_instance_that_runs_nowhere_while_its_other_node_does_not_answer(
    *, offline: bool, status: str, why: str
) -> None:
    cluster = evacuated(instance("a", "n1", "n2"))
    cluster.disks("a")
    run_nowhere(cluster)
    cluster.dies("n2")
    cluster.disks("a", "disk/0 has lost its connection")
    cluster.node("n2", offline=offline)
    cluster.round(1)
    cluster.round(70)
    found = cluster.run()
    assert (found.status, why in found.note + " ".join(cluster.sentences("wait"))) == (status, True)
    assert restart("a") not in cluster.jobs


def test_an_instance_on_the_wrong_node_is_cleaned_up() -> None:
    cluster = evacuated(instance("a", "n1", template="ext", status="ERROR_wrongnode"))
    cluster.round()
    assert cluster.jobs == [[clean_up("a")]]


@pytest.mark.parametrize(
    ("error", "status"), [(WCONFD, COMPLETED), ("node n1 cannot be drained", FAILED)]
)
def test_a_role_that_ganeti_could_not_set(error: str, status: str) -> None:
    cluster = evacuated()
    cluster.node("n1", drained=False)
    cluster.outcome = lambda job: error if len(cluster.jobs) == 1 else [None] * len(job)
    assert cluster.run().status == status


def test_ganetis_own_faults_are_tried_again_within_bounds() -> None:
    cluster = evacuated()
    cluster.node("n1", drained=False)
    cluster.outcome = lambda job: WCONFD
    assert cluster.run().status == FAILED
    assert len(cluster.jobs) == 4 + 1  # and the tag


# -- what can pass is waited for


def neighbours(**report: Any) -> Evacuated:
    """Two nodes; the other one has an incident or reports something."""
    cluster = evacuated(instance("a", "n1", template="ext"), nodes=2)
    incidents = dict(cluster.now.incidents)
    other = incident("n2", "live-repair", number=2, command="fix", **report)
    incidents[other.uuid] = other
    cluster.now = cluster.now._replace(
        incidents=incidents,
        observations={other.node: Reported(other.original, "live-repair", "fix", cluster.now.now)},
    )
    return cluster


def of_first(cluster: Evacuated) -> Any:
    (found,) = (one for one in cluster.now.incidents.values() if one.node_name == "n1")
    return found


def test_a_false_alarm_of_a_neighbour_is_waited_for() -> None:
    cluster = neighbours()
    start = cluster.now.now
    cluster.config = cluster.config._replace(hold_time=300, most_nodes=1)
    other = next(one for one in cluster.now.incidents.values() if one.node_name == "n2")
    cluster.now = cluster.now._replace(
        incidents={**cluster.now.incidents, other.uuid: other._replace(observed_since=start)}
    )
    cluster.round(60)
    (sentence,) = cluster.sentences("wait")
    assert sentence.startswith("1 of 1 instances on n1 wait: a: ")
    assert "n2" in sentence
    assert of_first(cluster).status == PENDING
    left = {uuid: one for uuid, one in cluster.now.incidents.items() if uuid != other.uuid}
    cluster.now = cluster.now._replace(incidents=left, observations={})
    assert cluster.run().status == COMPLETED


def test_what_nothing_will_change_is_not_waited_for() -> None:
    cluster = neighbours(status=FAILED, tagged=True)
    for _ in range(3):
        cluster.round(60)
    assert of_first(cluster).status == FAILED


# -- two nodes


def pair(**settings: Any) -> Evacuated:
    """Two nodes with instances both ways."""
    on_them = [instance("a", "n1", "n2"), instance("b", "n2", "n1"), instance("c", "n1", "n2")]
    return evacuated(*on_them, nodes=2, moves_at_once=1, **settings)


def test_copies_stay_where_no_third_node_is() -> None:
    cluster = pair()
    found = cluster.run()
    assert found.status == COMPLETED
    assert found.note == (
        "no instance runs on node n1; the copies of 3 instances stay on it because no other "
        "node can take them: a, b, c"
    )
    assert [one.nodes for one in cluster.now.instances.values()] == [("n2", "n1")] * 3
    (node,) = (one for one in cluster.now.nodes.values() if one.name == "n1")
    assert (node.drained, node.offline) == (True, False)


def test_the_role_of_a_node_that_keeps_copies_is_configured() -> None:
    cluster = pair(degraded_final_role="offline")
    assert cluster.run().status == COMPLETED
    (node,) = (one for one in cluster.now.nodes.values() if one.name == "n1")
    assert node.offline


def test_a_third_node_that_is_full_is_no_reason_to_complete() -> None:
    """The instances run elsewhere, and a person has to find a place for the copies."""
    made = [node("n1", drained=True), node("n2"), node("n3", disk=100)]
    about = incident("n1", status=PENDING)
    cluster = Evacuated(world(made, [instance("a", "n1", "n2")], [about]))
    found = cluster.run()
    assert found.status == FAILED
    assert cluster.now.instances["a"].nodes == ("n2", "n1")
    ((name, reason),) = found.unmovable
    assert name == "a"
    assert "disk" in reason


def test_a_repair_that_has_just_succeeded_is_waited_for() -> None:
    """Until the node is diagnosed again it reports what was repaired."""
    cluster = neighbours(status=COMPLETED, tagged=True)
    other = next(one for one in cluster.now.incidents.values() if one.node_name == "n2")
    changed = other._replace(changed=cluster.now.now)
    cluster.now = cluster.now._replace(
        incidents={**cluster.now.incidents, other.uuid: changed},
    )
    cluster.round(60)
    assert of_first(cluster).status == PENDING
    (sentence,) = cluster.sentences("wait")
    assert "n2" in sentence
    cluster.round(1000)
    assert of_first(cluster).status == FAILED
