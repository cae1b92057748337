"""No old copy is started, and nothing is started twice."""

from __future__ import annotations

from typing import Any

import pytest
from evacuated import SECOND, Evacuated
from worlds import NOW, incident, instance, node, uuid_of, world

from ganeti_steward.allocators.jobs.operations import failover, replace_secondary
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.model.incident import COMPLETED, FAILED, PENDING
from ganeti_steward.plugins.model.operations import activate_disks, out_of_band, set_role

FAILOVER = "evacuate-failover"


def evacuated(
    action: str = FAILOVER, *instances: Any, nodes: int = 4, **settings: Any
) -> Evacuated:
    """``n1`` is drained and leaves its instances; the incident is observed no more."""
    made = [node("n1", drained=True), *(node(f"n{i}") for i in range(2, nodes + 1))]
    about = incident("n1", action, status=PENDING)
    return Evacuated(world(made, instances, [about]), **settings)


def operations(cluster: Evacuated) -> list[str]:
    return [one["OP_ID"] for job in cluster.jobs for one in job]


def moved(cluster: Evacuated) -> list[str]:
    """The instances whose jobs were started, in order."""
    return [job[0]["instance_name"] for job in cluster.jobs if "instance_name" in job[0]]


def ignores_nothing(cluster: Evacuated) -> bool:
    return not any(one.get("ignore_consistency") for job in cluster.jobs for one in job)


# -- the copies


def test_an_instance_out_of_sync_is_connected_and_waited_for() -> None:
    cluster = evacuated(FAILOVER, instance("a", "n1", "n2"), instance("b", "n1", "n3"))
    cluster.disks("a", "disk/0 has lost its connection")
    cluster.disks("b")
    cluster.round()
    assert moved(cluster) == ["b"]
    cluster.round()
    assert cluster.jobs[-1] == [activate_disks("a")]
    cluster.disks("a", "disk/0 is degraded", syncing=True)
    cluster.round()
    cluster.round(6)
    (sentence,) = cluster.sentences("wait")
    assert sentence == (
        "1 of 1 instances on n1 wait: a: its disks are being synchronized, for 0 s now"
    )
    cluster.disks("a")
    assert cluster.run().status == COMPLETED
    assert failover("a") in [job[0] for job in cluster.jobs]
    assert ignores_nothing(cluster)


def test_an_instance_that_stays_degraded_is_left_and_named() -> None:
    cluster = evacuated(FAILOVER, instance("a", "n1", "n2"), instance("b", "n1", "n3"))
    cluster.disks("a", "disk/0 has lost its connection")
    cluster.disks("b")
    found = cluster.run()
    assert found.status == FAILED
    assert found.unmovable == (("a", "its disks stay degraded: disk/0 has lost its connection"),)
    assert moved(cluster) == ["b", "a", "a", "a"]
    assert "OP_INSTANCE_FAILOVER" not in {one["OP_ID"] for one in cluster.jobs[-1]}
    assert ignores_nothing(cluster)


def test_a_copy_that_is_lost_is_replaced_before_the_instance_leaves() -> None:
    cluster = evacuated("evacuate", instance("a", "n1", "n2"))
    cluster.disks("a", "disk/0 is faulty on n2", lost_on=("n2",))
    cluster.round()
    (job,) = cluster.jobs
    assert job[0]["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS"
    assert job == [replace_secondary("a", job[0]["remote_node"])]
    assert job[0]["remote_node"] in ("n3", "n4")
    cluster.disks("a")
    assert cluster.run().status == COMPLETED


@pytest.mark.parametrize("action", ["evacuate", FAILOVER])
def test_a_disk_lost_on_the_node_itself(action: str) -> None:
    """All that is written is on the other node; Ganeti migrates it never, and fails it over."""
    cluster = evacuated(action, instance("a", "n1", "n2"))
    cluster.disks("a", "disk/0 is faulty on n1", lost_on=("n1",), primary_good=False)
    found = cluster.run()
    if action == FAILOVER:
        assert found.status == COMPLETED
        assert cluster.jobs[0][0] == failover("a")
    else:
        assert found.status == FAILED
        ((_, reason),) = found.unmovable
        assert "gnt-instance failover a" in reason
        assert not moved(cluster)


@pytest.mark.parametrize("syncing", [False, True])
@pytest.mark.parametrize("action", ["evacuate", FAILOVER])
@pytest.mark.parametrize("lost_on", [("n1",), ("n2",), ("n1", "n2"), ("n2", "n3"), ()])
def test_nothing_starts_where_its_copy_is_lost(
    lost_on: tuple[str, ...], action: str, syncing: bool
) -> None:
    """Whatever else is wrong; where both copies are lost, nothing is done at all."""
    cluster = evacuated(action, instance("a", "n1", "n2"))
    faults = [f"disk/0 is faulty on {name}" for name in lost_on] or ["disk/0 is degraded"]
    cluster.disks("a", *faults, lost_on=lost_on, syncing=syncing, primary_good="n1" not in lost_on)
    for _ in range(30):
        (target,) = cluster.now.instances["a"].secondaries
        before = len(cluster.jobs)
        cluster.round(60)
        begun = [one["OP_ID"] for job in cluster.jobs[before:] for one in job]
        if {"OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER"} & {*begun}:
            assert target not in lost_on
            break
    if {"n1", "n2"} <= {*lost_on}:
        assert moved(cluster) == []


def test_the_copy_of_a_stopped_instance_is_in_sync_before_it_leaves() -> None:
    """Ganeti looks at the disks of a stopped instance only while they are active."""
    cluster = evacuated("evacuate", instance("a", "n1", "n2", up=False))
    cluster.round()
    ((first, second, *_),) = cluster.jobs
    assert first == activate_disks("a", wait_for_sync=True)
    assert second["OP_ID"] == "OP_INSTANCE_MIGRATE"


# -- a node that does not answer


def shared(name: str) -> Any:
    return instance(name, "n1", template="ext", status="ERROR_nodedown")


@pytest.mark.parametrize("action", ["evacuate", FAILOVER])
@pytest.mark.parametrize("offline", [False, True])
def test_nothing_is_started_elsewhere_before_the_node_is_known_to_be_off(
    action: str, offline: bool
) -> None:
    cluster = evacuated(action, shared("a"))
    cluster.dies("n1")
    if offline:
        cluster.node("n1", offline=True, drained=False)
    for _ in range(20):
        cluster.round(600)
    assert not cluster.jobs
    (sentence,) = cluster.sentences("wait")
    state = "is offline" if offline else "does not answer"
    assert f"n1 {state}, and whether it still runs there is not known" in sentence
    assert f"gnt-node add-tags n1 maintd:stopped:{cluster.incident.uuid}" in sentence
    assert cluster.incident.status == PENDING


@pytest.mark.parametrize("action", ["evacuate", FAILOVER])
def test_the_word_of_an_admin(action: str) -> None:
    cluster = evacuated(action, shared("a"))
    cluster.dies("n1")
    cluster.round()
    cluster.node("n1", tags=frozenset({cluster.incident.stopped_tag}))
    assert cluster.run().status == COMPLETED
    assert cluster.jobs[0] == [set_role("n1", "offline")]
    assert [one["OP_ID"] for one in cluster.jobs[1]] == ["OP_INSTANCE_FAILOVER"]
    assert ignores_nothing(cluster)


def test_the_word_about_another_incident_does_not_count() -> None:
    cluster = evacuated(FAILOVER, shared("a"))
    cluster.dies("n1")
    cluster.node("n1", tags=frozenset({"maintd:stopped:0e3b6a2e-0000-4000-8000-000000000000"}))
    cluster.round()
    assert not cluster.jobs


def power(answer: object) -> Any:
    def outcome(job: Job) -> list[Any]:
        if job[0]["OP_ID"] != "OP_OOB_COMMAND":
            return [None] * len(job)
        results: list[Any] = [[[[0, "n1"], [0, None]]] for _ in job]
        results[-1] = [[[0, "n1"], answer]]
        return results

    return outcome


def test_the_node_is_switched_off_and_its_status_counts() -> None:
    cluster = evacuated(FAILOVER, shared("a"), fence="act")
    cluster.dies("n1")
    cluster.outcome = power([0, {"powered": False}])
    assert cluster.run().status == COMPLETED
    assert cluster.jobs[0] == [out_of_band("n1", "power-off"), out_of_band("n1", "power-status")]
    assert cluster.jobs[1] == [set_role("n1", "offline")]
    assert moved(cluster) == ["a"]


@pytest.mark.parametrize(
    "answer",
    [[0, {"powered": True}], [0, None], [2, None], [0, {"powered": None}], [0, "off"], None],
)
def test_a_program_that_switches_nothing_off(answer: object) -> None:
    cluster = evacuated(FAILOVER, shared("a"), fence="act")
    cluster.dies("n1")
    cluster.outcome = power(answer)
    for _ in range(10):
        cluster.round(100)
    assert operations(cluster) == ["OP_OOB_COMMAND"] * 6
    (sentence,) = cluster.sentences("wait")
    assert "its out-of-band program reports" in sentence
    assert cluster.incident.status == PENDING


def test_an_out_of_band_job_that_fails() -> None:
    cluster = evacuated(FAILOVER, shared("a"), fence="act")
    cluster.dies("n1")
    cluster.outcome = lambda job: "no such program"
    for _ in range(10):
        cluster.round(100)
    assert len(cluster.jobs) == 3
    assert cluster.incident.status == PENDING


def test_only_evacuate_failover_switches_a_node_off() -> None:
    cluster = evacuated("evacuate", shared("a"), fence="act")
    cluster.dies("n1")
    cluster.round()
    assert not cluster.jobs


def test_the_status_is_queried_again_after_a_while() -> None:
    """It may have been switched on again."""
    cluster = evacuated(FAILOVER, shared("a"), shared("b"), fence="act", moves_at_once=1)
    cluster.dies("n1")
    cluster.outcome = power([0, {"powered": False}])
    for _ in range(3):
        cluster.round()
    assert moved(cluster) == ["a"]
    cluster.outcome = power([0, {"powered": True}])
    cluster.round(3600)
    assert cluster.jobs[-1] == [out_of_band("n1", "power-status")]
    cluster.round()
    assert moved(cluster) == ["a"]


def test_copies_of_a_node_that_is_off_need_a_permission() -> None:
    cluster = evacuated(FAILOVER, instance("a", "n1", "n2"), shared("b"))
    cluster.now = cluster.now._replace(
        incidents={
            uuid: one._replace(synced=(("a", NOW - 60 * SECOND),))
            for uuid, one in cluster.now.incidents.items()
        }
    )
    cluster.dies("n1")
    cluster.round()
    (sentence,) = cluster.sentences("wait")
    assert "were last seen in sync at 2026-01-07 11:59:00 UTC" in sentence
    cluster.node("n1", tags=frozenset({cluster.incident.stopped_tag}))
    found = cluster.run()
    assert found.status == FAILED
    assert moved(cluster) == ["b"]
    ((name, reason),) = found.unmovable
    assert name == "a"
    assert "what was written since would be lost on n2" in reason


def test_the_permission_and_what_is_lost() -> None:
    cluster = evacuated(FAILOVER, instance("a", "n1", "n2"), failover_unsynced=True)
    cluster.dies("n1")
    cluster.node("n1", tags=frozenset({cluster.incident.stopped_tag}))
    assert cluster.run().status == COMPLETED
    reasons = [one.task.reason for each in cluster.decisions for one in each.started]
    assert (
        "its disks were not seen in sync since the incident began: later data are lost"
        in " ".join(reasons)
    )
    assert failover("a") in [job[0] for job in cluster.jobs]


def test_what_a_node_has_whose_agent_answers_is_not_given_up() -> None:
    """The tag may be from before the node was switched on again."""
    cluster = evacuated(FAILOVER, instance("a", "n1", "n2"), failover_unsynced=True)
    cluster.dies("n1")
    cluster.answer("n1")
    cluster.node("n1", tags=frozenset({cluster.incident.stopped_tag}))
    found = cluster.run()
    assert found.status == FAILED
    ((_, reason),) = found.unmovable
    assert "the agent of n1 reported at the last poll, so it is not off: gnt-node modify" in reason


def test_nor_where_it_has_answered_since_the_node_was_confirmed_to_be_off() -> None:
    """It was switched on, and is lost again."""
    cluster = evacuated(FAILOVER, instance("a", "n1", "n2"), failover_unsynced=True)
    cluster.dies("n1")
    cluster.node("n1", tags=frozenset({cluster.incident.stopped_tag}))
    known = {cluster.incident.uuid: cluster.incident._replace(confirmed_at=1, reported=True)}
    cluster.now = cluster.now._replace(incidents=known)
    ((_, reason),) = cluster.run().unmovable
    assert "the agent of n1 reported since it was confirmed to be off" in reason


def test_a_secondary_of_a_dead_node_is_replaced() -> None:
    cluster = evacuated(FAILOVER, instance("a", "n2", "n1"))
    cluster.dies("n1")
    assert cluster.run().status == COMPLETED
    assert operations(cluster)[0] == "OP_INSTANCE_REPLACE_DISKS"


@pytest.mark.parametrize(("answers", "held"), [(True, 1), (False, 0)])
def test_a_word_that_is_no_longer_true_is_reported(answers: bool, held: int) -> None:
    """Without an incident it names the node: it must not count when the node is off next time."""
    cluster = evacuated("evacuate", nodes=2)
    cluster.node("n2", tags=frozenset({f"maintd:stopped:{uuid_of('n2')}"}))
    if not answers:
        cluster.dies("n2")
    cluster.round()
    assert len(cluster.sentences("stopped")) == held
    assert all("gnt-node remove-tags n2 maintd:stopped:" in s for s in cluster.sentences("stopped"))
