"""What planned work takes of the limits of nodes: nothing that an ill node needs."""

from __future__ import annotations

import pytest
from maintained import CONFIG, EVACUATE, Maintained
from upkept import Upkept, waits
from worlds import instance

from ganeti_steward.plugins.maintenance.cli.planned.requests import state_of
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.world import World

PLAIN = instance("plain", "node4", template="plain")


def _both(cluster: Upkept) -> None:
    """Repairs of ill nodes are planned too."""
    planned = cluster.planner

    def plan(incident: Incident, world: World) -> list[PluginPlan]:
        repairs = Maintained().planner
        return [*(planned if incident.maintenance else repairs)(incident, world)]

    cluster.planner = plan


def _state(cluster: Upkept, incident: Incident) -> str:
    found = cluster.records[incident.uuid]
    assert found.maintenance
    return state_of(found, found.maintenance, cluster.world().cluster, cluster.now)


@pytest.mark.parametrize("limit", ["most_nodes", "most_waiting"])
@pytest.mark.parametrize("until", ["draining", "ready", "away"])
def test_an_ill_node_never_waits_for_planned_work(limit: str, until: str) -> None:
    """However far a maintenance is, and whichever limit it reaches."""
    config = CONFIG._replace(**{"most_nodes": 5, "most_waiting": 5, limit: 1})
    cluster = Upkept(config=config)
    _both(cluster)
    found = cluster.request("node2")
    cluster.round()
    if until != "draining":
        cluster.run()
        assert _state(cluster, found) == "ready"
    if until == "away":
        cluster.reboot("node2")
    cluster.report("node5", EVACUATE)
    cluster.round()
    assert cluster.incident("node5").status == "pending", cluster.held()


def test_the_place_of_a_maintenance_is_none_for_a_repair_of_its_node() -> None:
    """One node is repaired at a time, though the second is out of service already."""
    cluster = Upkept(config=CONFIG._replace(most_nodes=1, most_waiting=5))
    _both(cluster)
    cluster.request("node2")
    cluster.run()
    cluster.report("node5", EVACUATE)
    cluster.round()
    cluster.report("node2", EVACUATE)
    cluster.round()
    repair = next(
        found
        for found in cluster.records.values()
        if found.node == "uuid-node2" and not found.maintenance
    )
    assert cluster.incident("node5").status == "pending", cluster.held()
    assert repair.status == "noted"
    assert "1 of at most 1 nodes are under repair: node5" in waits(cluster, repair)


def test_a_maintenance_waits_for_repairs_and_for_other_maintenance() -> None:
    """It is never urgent: as many nodes are away as may be, whatever they wait for."""
    cluster = Upkept(config=CONFIG._replace(most_nodes=3, most_waiting=1))
    first, second = cluster.request("node2"), cluster.request("node4")
    cluster.run()
    assert (_state(cluster, first), _state(cluster, second)) == ("ready", "requested")
    assert "1 of at most 1 nodes are out of service" in waits(cluster, second)


def test_nothing_begins_where_an_instance_cannot_leave() -> None:
    """The node stays in service, and the next one is taken."""
    cluster = Upkept(PLAIN)
    blocked, second = cluster.request("node4"), cluster.request("node2")
    cluster.run()
    assert (_state(cluster, blocked), _state(cluster, second)) == ("requested", "ready")
    assert not cluster.nodes["uuid-node4"].drained
    assert "plain has disks of the template plain" in waits(cluster, blocked)


def _blocked_later(limit: float = 600) -> tuple[Upkept, Incident]:
    """The node is drained, one instance has left, and then the owner starts another one."""
    cluster = Upkept(config=CONFIG._replace(blocked_limit=limit))
    found = cluster.request("node4")
    cluster.round()
    for number in cluster.pending_jobs():
        cluster.end(number)
    cluster.round()
    cluster.instances["plain"] = PLAIN
    for number in cluster.pending_jobs():
        cluster.end(number)
    cluster.run()
    return cluster, found


def test_a_blocked_one_gives_its_place_back() -> None:
    """After a time that its sentence names; then the next one begins."""
    cluster, found = _blocked_later()
    second = cluster.request("node2")
    cluster.round()
    assert (_state(cluster, found), cluster.nodes["uuid-node4"].drained) == ("emptying", True)
    assert "; in 59" in waits(cluster, found)
    assert "s the daemon takes node4 back into service" in waits(cluster, found)
    cluster.wait(601)
    cluster.run()
    assert (_state(cluster, found), cluster.nodes["uuid-node4"].drained) == ("requested", False)
    assert _state(cluster, second) == "ready"
    assert "plain has disks of the template plain" in waits(cluster, found)


def test_it_begins_again_by_itself_and_all_come_home() -> None:
    """Also what has left before the place was given back."""
    cluster, found = _blocked_later()
    cluster.wait(601)
    cluster.run()
    assert cluster.running_on("node4") == ["plain"]
    del cluster.instances["plain"]
    cluster.run()
    assert _state(cluster, found) == "ready"
    cluster.done(found)
    cluster.run()
    assert cluster.running_on("node4") == ["drbd3"]
    assert _state(cluster, found) == "done"


def test_a_node_that_was_drained_before_stays_drained() -> None:
    cluster = Upkept(PLAIN, config=CONFIG._replace(blocked_limit=600))
    cluster.change("node4", drained=True)
    cluster.instances["plain"] = PLAIN._replace(state="down")
    found = cluster.request("node4")
    cluster.round()
    cluster.instances["plain"] = PLAIN
    cluster.run()
    cluster.wait(601)
    cluster.run()
    assert (_state(cluster, found), cluster.nodes["uuid-node4"].drained) == ("requested", True)


def test_what_was_started_on_the_node_meanwhile_comes_home_too() -> None:
    """Whatever ran there when the daemon moved it."""
    cluster = Upkept()
    late = instance("late", "node4", template="rbd")
    found = cluster.request("node4")
    cluster.round()
    cluster.instances["late"] = late
    cluster.run()
    assert (_state(cluster, found), cluster.running_on("node4")) == ("ready", [])
    cluster.done(found)
    cluster.run()
    assert cluster.running_on("node4") == ["drbd3", "late"]


def test_a_node_that_was_set_offline_by_hand() -> None:
    """Ganeti does not ask it, so that it does not answer says nothing."""
    cluster = Upkept()
    found = cluster.request("node2")
    cluster.run()
    cluster.change("node2", offline=True)
    cluster.round()
    assert waits(cluster, found) == (
        "node2 is set offline: nothing is moved off it; where it is in order: gnt-node modify "
        "--offline no node2"
    )
    cluster.done(found)
    cluster.round()
    assert "node2 is set offline: nothing comes back to it" in waits(cluster, found)


@pytest.mark.parametrize(
    ("tag", "state"),
    [
        ("maintd:done:{uuid}", "returning"),
        ("maintd:cancel:{uuid}", "canceling"),
        ("maintd:pause-maintenance:lunch", "paused"),
    ],
)
def test_tags_of_people_are_shown_at_once(tag: str, state: str) -> None:
    """Before a round of the daemon has read it: who reboots ready nodes reboots none twice."""
    cluster = Upkept()
    found = cluster.request("node2")
    cluster.run()
    assert _state(cluster, found) == "ready"
    cluster.tag("node2", tag.format(uuid=found.uuid))
    assert _state(cluster, found) == state
