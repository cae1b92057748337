"""A step that acts for one incident only: everything else is as in mode observe."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from maintained import CONFIG, EVACUATE
from upkept import Upkept

from ganeti_steward.allocators.jobs.operations import migrate
from ganeti_steward.plugins.maintenance.config import ACT, DRAINED, OBSERVE
from ganeti_steward.plugins.maintenance.engine.brakes import may_begin
from ganeti_steward.plugins.maintenance.engine.decision import Decision, PluginPlan
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.operations import set_role
from ganeti_steward.plugins.model.task import RoutinePlan, Task
from ganeti_steward.plugins.model.world import World

MODES = pytest.mark.parametrize("mode", [OBSERVE, ACT])


class OnlyOne(Upkept):
    """Decides as ``maintenance run`` does."""

    only = ""

    def decide(self) -> Decision:
        return step(self.inputs()._replace(only=self.only), self.config, self.planner, self.routine)


def cluster_of(mode: str, *names: str) -> tuple[OnlyOne, list[Incident]]:
    """With a requested maintenance of each node; the first one is the only one that acts."""
    made = OnlyOne(config=CONFIG._replace(mode=mode, most_nodes=4, most_waiting=9))
    requested = [made.request(name) for name in names]
    made.only = requested[0].uuid
    return made, requested


def started(cluster: Upkept) -> set[str]:
    return {one.incident for decision in cluster.decisions for one in decision.started}


@MODES
def test_the_others_are_observed(mode: str) -> None:
    cluster, (own, other) = cluster_of(mode, "node2", "node4")
    cluster.run()
    assert started(cluster) == {own.uuid}
    assert (cluster.records[own.uuid].status, cluster.records[other.uuid].status) == (
        "pending",
        "noted",
    )
    held = {one.brake: one for one in cluster.decisions[-1].held if one.subject == other.uuid}
    assert held["observe"].sentence.startswith("the mode is observe, it would: ")


@MODES
def test_a_faulty_node_is_noted_only(mode: str) -> None:
    cluster, (own,) = cluster_of(mode, "node2")
    cluster.run()
    cluster.report("node4", EVACUATE)
    cluster.tag("node2", own.done_tag)
    cluster.run()
    assert cluster.incident("node4").status == "noted"
    assert started(cluster) == {own.uuid}
    assert cluster.records[own.uuid].state.succeeded


def test_an_observed_task_reserves_nothing() -> None:
    """What is never begun must not keep the only one waiting."""
    cluster, (own, other) = cluster_of(OBSERVE, "node4", "node2")
    job = [set_role("node2", DRAINED)]
    used = Task("drain", frozenset({"node2", "node4"}), frozenset(), "drain", [job])

    def planner(incident: Incident, world: World) -> list[PluginPlan]:
        return [PluginPlan("", used if incident.uuid == other.uuid else own_task)]

    own_task = Task(
        "drain", frozenset({"node4"}), frozenset(), "drain", [[set_role("node4", DRAINED)]]
    )
    cluster.planner = planner
    # It comes first.
    cluster.records[other.uuid] = other._replace(first_seen=1)
    decision = cluster.round()
    assert [one.subject for one in decision.held if one.brake == "observe"] == [other.uuid]
    assert [one.incident for one in decision.started] == [own.uuid]


@MODES
def test_routine_work_is_observed(mode: str) -> None:
    cluster, (own,) = cluster_of(mode, "node2")
    cluster.config = cluster.config._replace(routine=("balance",))
    job = [{**migrate("drbd3"), "target_node": "node5"}]
    task = Task("move", frozenset({"node4", "node5"}), frozenset({"drbd3"}), "balance", [job])

    def routine(plugin: str, world: World) -> Sequence[RoutinePlan]:
        return [task]

    cluster.routine = routine
    decision = cluster.round()
    assert decision.routine == ()
    assert {one.incident for one in decision.started} == {own.uuid}
    assert "observe" in {one.brake for one in decision.held if one.subject == "balance cluster"}


@MODES
def test_disks_are_verified_for_the_only_one(mode: str) -> None:
    """No job is submitted where nothing may begin."""
    cluster, (own, other) = cluster_of(mode, "node2", "node4")
    world = cluster.world()
    assert may_begin(world, cluster.config, 0, own.uuid)
    cluster.tag("node2", "maintd:pause-maintenance:later")
    paused = cluster.world()
    assert not may_begin(paused, cluster.config, 0, own.uuid)
    assert may_begin(paused, cluster.config, 0, other.uuid)
    assert may_begin(paused, cluster.config, 0) == (mode == ACT)
