"""A maintenance with ``--full``: copies of instances on other nodes leave the node as well."""

from __future__ import annotations

from collections import Counter
from random import Random

from maintained import CONFIG
from thorough import often
from upkept import Upkept
from worlds import changed, instance

from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, Incident


def waits(cluster: Upkept, incident: Incident) -> str:
    """What holds it back, in words."""
    held = cluster.decisions[-1].held
    return "; ".join(one.sentence for one in held if one.subject == incident.uuid)


def on(cluster: Upkept, name: str) -> list[str]:
    """The instances with disks on a node."""
    return [one.name for one in cluster.instances.values() if name in one.nodes]


def until_copied(cluster: Upkept, error: str = "") -> None:
    """Rounds until the first jobs that copy disks have ended, with an error or without."""
    for _ in range(60):
        cluster.round()
        ended = cluster.pending_jobs()
        copying = [
            number
            for number in ended
            if cluster.queue[number].job[0]["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS"
        ]
        for number in ended:
            cluster.end(number, error if number in copying else "")
        if copying:
            return
    raise AssertionError("no disk is copied")


def test_copies_leave_once_nothing_runs() -> None:
    """Every instance has two copies while the node is away; shared ones come back."""
    cluster = Upkept()
    found = cluster.request("node2", full=True)
    cluster.run()
    assert on(cluster, "node2") == []
    assert waits(cluster, found) == (
        "node2 is ready: nothing runs on it; when the work is over: gnt-steward maintenance done "
        "node2"
    )
    assert sorted((name, primary, left) for name, primary, left, _ in cluster.copied) == [
        ("drbd1", "node3", "node2"),
        ("drbd2", "node3", "node2"),
    ]
    assert cluster.stopped_by_ganeti == []
    cluster.reboot("node2")
    cluster.come_back("node2")
    assert cluster.degraded == {}
    cluster.done(found)
    cluster.run()
    assert cluster.records[found.uuid].state.succeeded
    assert cluster.records[found.uuid].note == "the maintenance of node2 is over"
    assert on(cluster, "node2") == ["shared"]
    assert not cluster.nodes["uuid-node2"].drained


def test_no_copy_goes_to_a_node_that_is_away() -> None:
    cluster = Upkept(config=CONFIG._replace(most_nodes=2, most_waiting=4))
    both = [cluster.request(name, full=True) for name in ("node2", "node4")]
    cluster.run()
    assert on(cluster, "node2") == on(cluster, "node4") == []
    assert all("is ready" in waits(cluster, one) for one in both)
    assert {target for *_, target in cluster.copied} <= {"node1", "node3", "node5"}


def test_it_waits_where_a_copy_has_no_place() -> None:
    """The work is not begun; the sentence says what to do, and until when the node waits for it."""
    cluster = Upkept()
    for name in ("node1", "node4", "node5"):
        cluster.change(name, drained=True)
    found = cluster.request("node2", full=True)
    cluster.run()
    assert cluster.copied == []
    assert cluster.running_on("node2") == []
    sentence = waits(cluster, found)
    assert sentence.startswith(
        "the copies of 2 instances on node2 must leave it, and there is no place for 2 of them: "
    )
    assert sentence.endswith(
        "gnt-steward maintenance cancel node2, and start it again without --full; in 1799 s the "
        "daemon takes node2 back into service, and the request waits"
    )
    request = cluster.records[found.uuid].maintenance
    assert request
    assert not request.ready


def test_disks_are_in_sync_before_a_copy_leaves() -> None:
    cluster = Upkept(instance("late", "node3", "node2"))
    found = cluster.request("node2", full=True)
    cluster.syncing.add("late")
    cluster.run()
    assert cluster.copied == []
    assert "must be in sync" in waits(cluster, found)


def test_a_copy_that_is_excluded_stays() -> None:
    """Its instance has one copy only while the node is away, and the sentence counts it."""
    tagged = changed(instance("tagged", "node3", "node2"), tags=(OPT_OUT_TAG,))
    cluster = Upkept(tagged)
    found = cluster.request("node2", full=True)
    cluster.run()
    assert on(cluster, "node2") == ["tagged"]
    assert "1 instance has one copy only" in waits(cluster, found)


def test_a_copy_that_fails_ends_it() -> None:
    """Everything runs where it is; the note has the error of Ganeti and what to do."""
    cluster = Upkept()
    found = cluster.request("node2", full=True)
    until_copied(cluster, "no space left")
    cluster.run()
    record = cluster.records[found.uuid]
    assert record.status == "failed"
    assert "no space left" in record.note
    assert "gnt-node modify -D no node2" in record.note
    assert cluster.running_on("node2") == []


def test_done_before_all_copies_have_left() -> None:
    """What is left of the copies stays, and the node is taken back."""
    cluster = Upkept(config=CONFIG._replace(moves_at_once=1))
    found = cluster.request("node2", full=True)
    until_copied(cluster)
    assert len(cluster.copied) == 1
    cluster.done(found)
    cluster.run()
    assert len(cluster.copied) == 1
    assert cluster.records[found.uuid].state.succeeded
    assert not cluster.nodes["uuid-node2"].drained


def test_histories() -> None:
    """Requests, failures, restarts: every instance has two nodes, and never both are away."""
    ends = Counter(end for seed in range(often(15, 500, 15)) for end in history(seed))
    assert ends["copied"] > ends["failed"] > 0, ends
    assert ends["acknowledged"] > 0, ends


def history(seed: int) -> list[str]:
    """The ends of all maintenances of one history, and a word for each copy."""
    random = Random(seed)
    cluster = Upkept(config=CONFIG._replace(most_nodes=random.randint(1, 2), most_waiting=4))
    for _ in range(60):
        cluster.wait(random.choice((1, 30)))
        name = f"node{random.randint(2, 5)}"
        active = [one for one in cluster.records.values() if one.node_name == name and one.active]
        if not active and random.random() < 0.2:
            cluster.request(name, full=random.random() < 0.8)
        elif active and cluster.decisions and f"{name} is ready" in waits(cluster, active[0]):
            cluster.done(active[0])
        cluster.syncing.clear()
        cluster.round(crash=random.choice(("", "", "", "records", "submitted")))
        for number in cluster.pending_jobs():
            if random.random() < 0.7:
                cluster.end(number, "it failed" if random.random() < 0.05 else "")
        check(cluster)
    changes = [one for decision in cluster.decisions for one in decision.changes]
    ends = [one.after.state_name for one in changes if one.after]
    return [*ends, *("copied" for _ in cluster.copied)]


def check(cluster: Upkept) -> None:
    """What holds at any time."""
    records = [one for one in cluster.records.values() if one.maintenance]
    away = {one.node_name for one in records if one.state.under_repair}
    empty = {
        one.node_name
        for one in records
        if one.state.under_repair
        and one.maintenance
        and one.maintenance.full
        and one.maintenance.ready
        and not one.maintenance.worked
    }
    for one in cluster.instances.values():
        if one.template == "drbd":
            assert len({*one.nodes}) == 2, one
            assert not {*one.nodes} <= away, (one, away)
            assert empty.isdisjoint(one.nodes), (one, empty)
    assert cluster.stopped_by_ganeti == []
