"""Planned maintenance of a node: empty, ready, taken back, home; and what holds it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from maintained import CONFIG, REPAIR
from thorough import often
from upkept import INSTANCES, Upkept, waits
from worlds import instance

from ganeti_steward.allocators.rolling.hypervisors import Hypervisor, Running
from ganeti_steward.plugins.model.debts import Debts, all_debts, debts_of
from ganeti_steward.plugins.model.incident import Incident, Maintenance
from ganeti_steward.plugins.model.world import Reported

HOMES = {one.name: one.nodes for one in INSTANCES}


def test_a_node_is_not_ready_while_something_runs_that_is_marked_down() -> None:
    cluster = Upkept(instance("stopped", "node2", template="rbd", up=False, status="ERROR_up"))
    found = cluster.request("node2")
    cluster.run()
    assert waits(cluster, found) == (
        "stopped still runs on node2 though it is marked down (ERROR_up): gnt-instance shutdown "
        "stops it, gnt-instance startup has it moved first; in 1799 s the daemon takes node2 back "
        "into service, and the request waits"
    )
    request = cluster.records[found.uuid].maintenance
    assert request is not None
    assert not request.ready


def test_a_node_is_emptied_rebooted_and_everything_is_home() -> None:
    """Nothing stops, and no disk is copied."""
    cluster = Upkept()
    found = cluster.request("node2")
    cluster.run()
    assert cluster.running_on("node2") == []
    assert cluster.nodes["uuid-node2"].drained
    assert waits(cluster, found) == (
        "node2 is ready: nothing runs on it; 2 instances have one copy only while it is away; when "
        "the work is over: gnt-steward maintenance done node2"
    )
    request = cluster.records[found.uuid].maintenance
    assert request is not None
    assert request.ready
    cluster.reboot("node2")
    cluster.done(found)
    cluster.run()
    assert "node2 does not answer yet: in 1799 s its maintenance fails" in waits(cluster, found)
    cluster.come_back("node2")
    cluster.run()
    assert "must be in sync before anything else" in waits(cluster, found)
    assert (cluster.running_on("node2"), sorted(cluster.syncing)) == ([], ["drbd1", "drbd2"])
    cluster.syncing.clear()
    cluster.run()
    assert {one.name: one.nodes for one in cluster.instances.values()} == HOMES
    assert cluster.stopped_by_ganeti == []
    node = cluster.nodes["uuid-node2"]
    assert (node.drained, node.tags) == (False, ())
    assert cluster.records[found.uuid].state_name == "acknowledged"
    kinds = {operation["OP_ID"] for job in cluster.queue.values() for operation in job.job}
    assert kinds == {
        "OP_NODE_SET_PARAMS",
        "OP_INSTANCE_MIGRATE",
        "OP_INSTANCE_ACTIVATE_DISKS",
        "OP_TAGS_SET",
        "OP_TAGS_DEL",
    }
    assert {tag for one in cluster.instances.values() for tag in one.tags} == set()
    cluster.wait(CONFIG.healthy_delay + 1)
    cluster.round()
    assert cluster.records == {}


def test_without_a_return_and_a_node_that_was_drained() -> None:
    """Its flags are what they were."""
    cluster = Upkept()
    cluster.change("node2", drained=True)
    found = cluster.request("node2", returns=False)
    cluster.run()
    cluster.done(found)
    cluster.run()
    assert cluster.nodes["uuid-node2"].drained
    assert cluster.running_on("node2") == []
    assert cluster.records[found.uuid].note == "the maintenance of node2 is over"


@pytest.mark.parametrize(
    ("choice", "stopped"), [("stop", ["plain"]), ("move", ["plain", "plain"]), ("refuse", [])]
)
def test_what_cannot_migrate(choice: str, stopped: list[str]) -> None:
    """It is shut down and started, copied there and back, or nothing leaves at all."""
    cluster = Upkept(instance("plain", "node4", template="plain"))
    found = cluster.request("node4", choice)
    cluster.run()
    if choice == "refuse":
        assert "plain has disks of the template plain" in waits(cluster, found)
        assert cluster.running_on("node4") == ["drbd3", "plain"]
        return
    assert cluster.running_on("node4") == []
    cluster.done(found)
    cluster.run()
    assert cluster.running_on("node4") == ["drbd3", "plain"]
    assert cluster.stopped_by_ganeti == stopped


def test_a_failed_migration_ends_it_and_no_other_begins() -> None:
    """Everything stays where it is; the note says what to do."""
    cluster = Upkept()
    first, second = cluster.request("node2"), cluster.request("node4")
    cluster.round()
    cluster.end(1)
    cluster.round()
    for number in cluster.pending_jobs():
        cluster.end(number, "migration failed")
    cluster.run()
    note = cluster.records[first.uuid].note
    assert cluster.records[first.uuid].status == "failed"
    assert "migration failed" in note
    assert "gnt-node modify -D no node2" in note
    assert cluster.running_on("node2") == ["drbd1", "shared"]
    assert f"incident {first.uuid} of node2 (maintenance) is failed" in waits(cluster, second)
    cluster.untag("node2", first.failed_tag)
    cluster.run()
    assert cluster.nodes["uuid-node4"].drained


def test_an_excluded_instance_is_not_touched() -> None:
    """Its owner has its disks connected again, or removes the tag."""
    cluster = Upkept()
    cluster.instances["drbd2"] = cluster.instances["drbd2"]._replace(tags=("maintd:off",))
    found = cluster.request("node2")
    cluster.run()
    cluster.reboot("node2")
    cluster.come_back("node2")
    cluster.done(found)
    cluster.run()
    cluster.syncing.clear()
    cluster.run()
    assert "drbd2: disk/0 is not active on node2; it has the tag maintd:off" in waits(
        cluster, found
    )
    assert cluster.degraded == {"drbd2": "node2"}


@pytest.mark.parametrize(
    ("choice", "note"),
    [("stop", "not started again: plain: "), ("move", "not back on it: plain: ")],
)
def test_what_was_excluded_meanwhile_is_left_alone(choice: str, note: str) -> None:
    """Its owner has it now: it is neither started nor moved back, and the note says so."""
    cluster = Upkept(instance("plain", "node4", template="plain"))
    found = cluster.request("node4", choice)
    cluster.run()
    before = cluster.instances["plain"] = cluster.instances["plain"]._replace(
        tags=("maintd:off", *cluster.instances["plain"].tags)
    )
    cluster.done(found)
    cluster.run()
    assert cluster.instances["plain"] == before
    assert cluster.running_on("node4") == ["drbd3"]
    assert cluster.records[found.uuid].note == (
        f"the maintenance of node4 is over; {note}it has the tag maintd:off"
    )


def test_a_place_that_is_not_legal_any_more() -> None:
    """The instance stays where it went, and the note says so."""
    cluster = Upkept()
    found = cluster.request("node2")
    cluster.run()
    cluster.done(found)
    cluster.change("node2", free_memory=1500, total_memory=1500)
    cluster.run()
    assert cluster.running_on("node2") == ["drbd1"]
    assert "not back on it: shared: node2 has no room" in cluster.records[found.uuid].note


def test_an_instance_goes_where_qemu_takes_it() -> None:
    """As the agents report it; node1 would be as good."""
    new = Hypervisor("10.0.7", {"pc-i440fx-10.0": ""}, running={})
    running = {"shared": Running("pc-i440fx-10.0", host_cpu=False)}
    for last in ("node1", "node4", "node5"):
        cluster = Upkept()
        for uuid, seen in cluster.observations.items():
            old = Hypervisor("7.2.22", {"pc-i440fx-7.2": ""})
            here = new._replace(running=running) if uuid == "uuid-node2" else old
            assert isinstance(seen, Reported)
            there = new if uuid == f"uuid-{last}" else here
            cluster.observations[uuid] = seen._replace(hypervisor=there)
        cluster.request("node2")
        cluster.run()
        assert "shared" in cluster.running_on(last)


def test_one_after_the_other_and_never_two_with_an_instance_in_common() -> None:
    """Whatever most-nodes is."""
    cluster = Upkept(config=CONFIG._replace(most_nodes=3, most_waiting=4))
    names = ("node2", "node3", "node4", "node5")
    found = {name: cluster.request(name) for name in names}
    cluster.run()
    assert [name for name in names if cluster.nodes[f"uuid-{name}"].drained] == ["node2", "node4"]
    assert "instances in common" in waits(cluster, found["node3"])


@pytest.mark.parametrize(("at_once", "away"), [(1, ["node2"]), (2, ["node2", "node4"]), (9, [])])
def test_as_many_as_were_requested(at_once: int, away: list[str]) -> None:
    """And never more than most-nodes."""
    cluster = Upkept(config=CONFIG._replace(most_nodes=2, most_waiting=4))
    names = ("node2", "node4", "node1")
    found = [cluster.request(name) for name in names]
    for one in found:
        request = Maintenance("refuse", at_once=at_once)
        cluster.records[one.uuid] = cluster.records[one.uuid]._replace(maintenance=request)
    cluster.run()
    drained = [name for name in names if cluster.nodes[f"uuid-{name}"].drained]
    assert drained == (away or ["node2", "node4"])
    if at_once == 1:
        assert "1 of at most 1 nodes are under repair or away for maintenance: node2" in waits(
            cluster, found[1]
        )
    else:
        assert "2 of at most 2 nodes are under repair" in waits(cluster, found[2])


def test_it_waits_while_anything_else_is_wrong() -> None:
    """An incident of another node, a node that does not answer, the master."""
    cluster = Upkept()
    cluster.report("node5", REPAIR)
    found = cluster.request("node2")
    cluster.round()
    assert "of node5 (live-repair) is noted" in waits(cluster, found)
    cluster = Upkept()
    cluster.change("node5", missing=("total_memory",))
    found, master = cluster.request("node2"), cluster.request("node1")
    cluster.round()
    assert waits(cluster, found) == "the maintenance of node2 waits: node5 does not answer"
    assert "is the master" in waits(cluster, master)


def test_the_master_waits_until_another_node_is_the_master() -> None:
    """The sentence names a candidate about which nothing is requested, once there is one."""
    cluster = Upkept()
    first, master = cluster.request("node2"), cluster.request("node1")
    for name in ("node2", "node3"):
        cluster.change(name, master_candidate=True)
    cluster.run()
    cluster.change("node3", drained=True)
    cluster.run()
    assert "is the master (gnt-cluster master-failover there)" in waits(cluster, master)
    cluster.done(first)
    cluster.run()
    assert cluster.records[first.uuid].state.succeeded
    there = "gnt-cluster master-failover on node2, about which nothing is requested"
    assert there in waits(cluster, master)
    assert not cluster.nodes["uuid-node1"].drained
    cluster.change("node1", master=False)
    cluster.change("node2", master=True)
    cluster.run()
    assert "node1 is ready" in waits(cluster, master)
    assert cluster.nodes["uuid-node1"].drained


def test_a_node_that_has_become_the_master_is_taken_back() -> None:
    """Nothing is begun on the master, and nothing more is taken from it."""
    cluster = Upkept()
    found = cluster.request("node2")
    cluster.run()
    cluster.change("node1", master=False)
    cluster.change("node2", master=True)
    cluster.run()
    assert "is the master" in waits(cluster, found)
    cluster.done(found)
    cluster.run()
    assert cluster.running_on("node2") == ["drbd1", "shared"]


def test_requests_do_not_keep_nodes_from_being_targets() -> None:
    """All nodes may be requested at once."""
    cluster = Upkept()
    for name in ("node2", "node3", "node4", "node5"):
        cluster.request(name)
    cluster.run()
    assert cluster.running_on("node2") == []


def test_a_cancel_leaves_everything_where_it_is() -> None:
    """Nothing more is submitted for it."""
    cluster = Upkept()
    found = cluster.request("node2")
    cluster.round()
    cluster.tag("node2", found.cancel_tag)
    cluster.run()
    assert cluster.records[found.uuid].status == "canceled"
    assert cluster.running_on("node2") == ["drbd1", "shared"]
    cluster.wait(CONFIG.healthy_delay + 1)
    cluster.run()
    assert cluster.records == {}


def test_histories() -> None:
    """Requests, failures, cancels, restarts: the rules of the page hold in each round."""
    ends = Counter(end for seed in range(often(30, 1000)) for end in history(seed))
    assert ends["acknowledged"] > ends["failed"] / 10 > 0, ends
    assert ends["canceled"] > 0, ends


def history(seed: int) -> list[str]:
    """The ends of all maintenances of one history."""
    random = Random(seed)
    config = CONFIG._replace(most_nodes=random.randint(1, 3), most_waiting=4)
    cluster = Upkept(instance("plain", "node5", template="plain"), config=config)
    down: set[str] = set()
    for _ in range(80):
        cluster.wait(random.choice((1, 30)))
        happen(cluster, random, down)
        cluster.round(crash=random.choice(("", "", "", "records", "submitted")))
        for number in cluster.pending_jobs():
            if random.random() < 0.7:
                cluster.end(number, random.choice(("", "", "", "", "", "", "it failed")))
        check(cluster)
    changes = [one for decision in cluster.decisions for one in decision.changes]
    return [one.after.state_name for one in changes if one.after]


def happen(cluster: Upkept, random: Random, down: set[str]) -> None:
    """One thing that people or nodes do."""
    what, name = random.randint(0, 9), f"node{random.randint(2, 5)}"
    known = [one for one in cluster.records.values() if one.node_name == name]
    active = [one for one in known if one.active]
    tags = cluster.nodes[f"uuid-{name}"].tags
    if what <= 1 and not active:
        cluster.request(name, random.choice(("stop", "move", "refuse")))
    elif what <= 4 and active and is_ready(cluster, active[0]):
        # The rule: no node is rebooted that runs something.
        assert cluster.running_on(name) == []
        cluster.reboot(name)
        down.add(name)
        cluster.done(active[0])
    elif what <= 6:
        for one in sorted(down):
            cluster.come_back(one)
        down.clear()
    elif what == 7:
        cluster.syncing.clear()
    elif what == 8 and active and active[0].cancel_tag not in tags and random.random() < 0.3:
        cluster.tag(name, active[0].cancel_tag)
    elif what == 9:
        for tag in tags:
            if tag.startswith("maintd:repairfailed"):
                cluster.untag(name, tag)
                cluster.change(name, drained=False)


def is_ready(cluster: Upkept, incident: Incident) -> bool:
    """Whether the daemon says so now."""
    return (
        f"{incident.node_name} is ready" in waits(cluster, incident) if cluster.decisions else False
    )


def check(cluster: Upkept) -> None:
    """What holds at any time."""
    away = {
        one.node_name
        for one in cluster.records.values()
        if one.maintenance and one.state.under_repair
    }
    for one in cluster.instances.values():
        assert not {*one.nodes} <= away or len(one.nodes) == 1, (one, away)
        home = one.nodes[0]
        assert not (one.up and not cluster.is_up(home)), f"{one.name} runs on {home}, which is down"
    assert {*cluster.stopped_by_ganeti} <= {"plain"}
    assert len(away) <= cluster.config.most_nodes


def _differences(cluster: Upkept) -> Debts:
    """What is not as it was before the maintenance of node4, by looking at it."""
    node, found = cluster.nodes["uuid-node4"], cluster.instances.values()
    return Debts(
        node,
        node.drained,
        tuple(sorted(one.name for one in found if one.state == "down")),
        tuple(sorted(one.name for one in found if one.primary != _BEFORE[one.name])),
        not node.master_candidate,
    )


_BEFORE = {name: nodes[0] for name, nodes in HOMES.items()} | {"plain": "node4", "big": "node4"}


def _canceled(rounds: int) -> Upkept:
    """A maintenance that is canceled after so many rounds, and forgotten."""
    config = CONFIG._replace(moves_at_once=1)
    more = instance("plain", "node4", template="plain"), instance("big", "node4", template="rbd")
    cluster = Upkept(*more, config=config)
    cluster.change("node4", master_candidate=True)
    found = cluster.request("node4", "stop")
    for _ in range(rounds):
        cluster.round()
        for number in cluster.pending_jobs():
            cluster.end(number)
    cluster.tag("node4", found.cancel_tag)
    cluster.run()
    cluster.wait(CONFIG.healthy_delay + 1)
    cluster.round()
    assert cluster.records == {}
    return cluster


@pytest.mark.parametrize("rounds", range(8))
@pytest.mark.parametrize("how", ["done", "start"])
def test_what_a_canceled_maintenance_has_changed_is_remembered_and_undone(
    rounds: int, how: str
) -> None:
    """In every state of it: on the objects, when its record is gone."""
    cluster = _canceled(rounds)
    debts = debts_of(cluster.world().cluster, cluster.nodes["uuid-node4"])
    assert debts == _differences(cluster)
    assert all_debts(cluster.world().cluster) == ([debts] if debts else [])
    found = cluster.request("node4", "stop")
    if how == "done":
        # What ``gnt-steward maintenance done`` writes where nothing is active.
        request = Maintenance("refuse", worked=cluster.now, ran=debts.instances)
        cluster.records[found.uuid] = found._replace(maintenance=request)
    else:
        cluster.run()
        cluster.done(found)
    cluster.run()
    assert cluster.records[found.uuid].state_name == "acknowledged"
    assert not _differences(cluster)
    assert not any(one.tags for one in cluster.instances.values())
    assert cluster.nodes["uuid-node4"].tags == ()


def test_the_states_of_a_canceled_maintenance_differ() -> None:
    """The test above sees a node that is drained, one that is away, and one that is down."""
    found = {
        (bool(one.drained and one.candidate), bool(one.away), bool(one.down))
        for one in (_differences(_canceled(rounds)) for rounds in range(8))
    }
    assert found >= {(False, False, False), (True, False, False), (True, True, True)}


def test_what_a_person_says_is_left() -> None:
    """Without its tag an instance that is down is its owner's."""
    cluster = _canceled(7)
    for name in ("plain", "big"):
        cluster.instances[name] = cluster.instances[name]._replace(tags=())
    cluster.untag("node4", f"maintd:drained:{cluster.nodes['uuid-node4'].uuid}")
    found = cluster.request("node4", "stop")
    cluster.run()
    cluster.done(found)
    cluster.run()
    assert cluster.instances["plain"].state == "down"
    assert cluster.instances["big"].primary != "node4"
    assert cluster.nodes["uuid-node4"].drained, "as it was found"
