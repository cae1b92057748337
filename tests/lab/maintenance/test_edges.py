"""Records, submissions and the world of the maintenance daemon, with the real luxid."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from records import signing_store

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import EVACUATE
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import read_world
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.queue.calls import Calls
from ganeti_steward.plugins.maintenance.queue.submit import (
    LookedUp,
    cancel,
    job_states,
    look_up,
    submit,
)
from ganeti_steward.plugins.model.incident import FAILED, Incident, Submission
from ganeti_steward.plugins.model.operations import after, set_tags
from ganeti_steward.plugins.model.task import Task

from ..cluster import DEFAULT_GROUP, DRBD, MASTER, NOT_VM_CAPABLE, PLAIN, Lab, op, tagged, until

NODE: Final = "aaaaaaaa-1111-2222-3333-444444444444"
ODD: Final = {"status": "evacuate", "details": {"ü": ['"\\\x00\x7f\u2028😀', 1.5, None, 10**30]}}


def incident(number: int, **more: Any) -> Incident:
    uuid = f"0f0f0f0f-1111-2222-3333-{number:012}"
    return Incident(uuid, NODE, "node2.lab", canonical(ODD), EVACUATE)._replace(**more)


@pytest.fixture
def store(lab: Lab) -> Iterator[Store]:
    found = signing_store(lab.luxi)
    yield found
    for (uuid,) in lab.rows("filter", "uuid"):
        found.remove(uuid)


def delay(seconds: float = 0.1) -> dict[str, Any]:
    usual = {"on_master": False, "on_nodes": [], "no_locks": True}
    return op("TEST_DELAY", duration=seconds, interruptible=False, repeat=0, **usual)


def test_records_round_trip(lab: Lab, store: Store) -> None:
    """Whatever is in them, and 100 kB of it."""
    first = incident(1, note="x" * 100000)
    second = incident(2, note="ä\n\u2028", unmovable=(("web.lab", "no room: 😀"),))
    for one in (first, second):
        store.write(one)
    first = first.bounded()
    assert store.read_all() == ({first.uuid: first, second.uuid: second}, (), ())
    changed = second._replace(status=FAILED, jobs=(7,))
    store.write(changed)
    store.remove(first.uuid)
    store.remove(first.uuid)
    assert store.read_all() == ({changed.uuid: changed}, (), ())
    # Jobs and the configuration go on as before.
    lab.do(delay(), tagged("cluster", "", "after"), op("TAGS_DEL", kind="cluster", tags=["after"]))
    assert changed.uuid in lab.ok("gnt-filter list --no-headers").text


def test_records_beside_rules_of_others(lab: Lab, store: Store) -> None:
    lab.ok("gnt-filter add --action 'RATE_LIMIT 300' --reason mine")
    store.write(incident(1))
    assert store.read_all() == ({incident(1).uuid: incident(1)}, (), ())


def test_submit_and_find_again(lab: Lab, store: Store) -> None:
    """Two tasks in one call; after a crash before the numbers were recorded they are found."""
    luxi, at = lab.luxi, time.time_ns()
    ids = [f"{at}-{number}" for number in (1, 2)]
    tasks = [
        Task("move", frozenset(), frozenset(), "why", ([delay()], [after(delay(), [-1])])),
        Task("tag", frozenset(), frozenset(), "why", ([set_tags("node", "node2.lab", ["t"])],)),
    ]
    before = {
        one.uuid: one
        for one in (
            incident(number, open=(Submission(key, "move", (), (), at),))
            for number, key in enumerate(ids, 1)
        )
    }
    for one in before.values():
        store.write(one)
    started = [Started(uuid, key, task) for uuid, key, task in zip(before, ids, tasks, strict=True)]

    done = submit(started, before, store, luxi)

    assert done.unknown == {}
    assert store.read_all().incidents == done.incidents
    numbers = [one.open[0].jobs for one in done.incidents.values()]
    assert [len(some) for some in numbers] == [2, 1]
    until(lambda: all(state.ended for state in job_states(done.incidents.values(), luxi).values()))
    states = job_states(done.incidents.values(), luxi)
    assert {state.status for state in states.values()} == {"success"}
    lost = [one.open[0] for one in before.values()]
    never = lost[0]._replace(id=f"{at}-3")
    jobs = [one._replace(size=len(own)) for one, own in zip(lost, numbers, strict=True)]
    expected = dict(zip(ids, numbers, strict=True))
    going_on = look_up([*jobs, never], luxi, Calls(), lambda ids: dict.fromkeys(ids, "it goes on"))
    assert going_on == LookedUp(expected, awaited={never.id: "it goes on"})
    over = LookedUp({**expected, never.id: ()})
    assert look_up([*lost, never], luxi, Calls(), lambda _: {}) == over
    for number in numbers[0]:
        luxi.call("ArchiveJob", number)
    assert look_up([*lost, never], luxi, Calls(), lambda _: {}) == over
    assert job_states(done.incidents.values(), luxi) == states
    (row,) = luxi.rows("job", ("ops",), ["=", "id", numbers[0][0]])
    assert [entry[:2] for entry in row["ops"][0]["reason"]][-3:-1] == [
        ["gnt:daemon:maintd", incident(1).uuid],
        ["gnt:daemon:maintd:submission", ids[0]],
    ]
    lab.do(op("TAGS_DEL", kind="node", name="node2.lab", tags=["t"]))


def test_one_wrong_operation_refuses_its_task_only(lab: Lab, store: Store) -> None:
    at = time.time_ns()
    before = {
        one.uuid: one
        for one in (
            incident(number, open=(Submission(f"{at}-{number}", "move", (), (), at),))
            for number in (1, 2)
        )
    }
    jobs = [[delay() | {"bogus": 1}], [delay()]]
    started = [
        Started(uuid, one.open[0].id, Task("move", frozenset(), frozenset(), "why", (job,)))
        for (uuid, one), job in zip(before.items(), jobs, strict=True)
    ]
    done = submit(started, before, store, lab.luxi)
    wrong, good = (one.open[0] for one in done.incidents.values())
    assert wrong.jobs == ()
    assert "Failed to parse request" in wrong.refused
    assert len(good.jobs) == 1
    assert good.refused == ""


def test_cancel(lab: Lab) -> None:
    (running, queued) = (
        one.numbers[0] for one in lab.luxi.submit([[delay(3)], [after(delay(), [-1])]], "test")
    )
    until(lambda: lab.job(running) == "running")
    answers = cancel([queued, running], lab.luxi)
    assert answers[queued] == f"Dequeued job {queued}"
    assert answers[running].startswith("Job no longer waiting, can't cancel")
    until(lambda: lab.job(running) == "success")
    assert lab.job(queued) == "canceled"


@pytest.mark.usefixtures("_three_candidates")
def test_the_world(lab: Lab) -> None:
    lab.do(tagged("node", "node6.lab", "maintd:off"), tagged("cluster", "", "maintd:pause:x-y"))
    try:
        world = read_world(lab.luxi, 5)
    finally:
        lab.do(
            op("TAGS_DEL", kind="node", name="node6.lab", tags=["maintd:off"]),
            op("TAGS_DEL", kind="cluster", tags=["maintd:pause:x-y"]),
        )
    nodes = {node.name: node for node in world.nodes.values()}
    assert [name for name, node in nodes.items() if node.master] == [MASTER]
    assert sum(node.master_candidate for node in nodes.values()) == 3
    assert world.candidate_pool_size == 3
    assert not nodes[NOT_VM_CAPABLE].vm_capable
    assert "maintd:off" in nodes["node6.lab"].tags
    assert "maintd:pause:x-y" in world.cluster_tags
    assert nodes["node2.lab"].primary_ip == "10.77.0.12"
    assert world.groups[nodes["node5.lab"].group].name == "rack2"
    assert {node.name for node in nodes.values() if world.groups[node.group].name == "default"} >= {
        *DEFAULT_GROUP
    }
    assert {name: list(one.nodes) for name, one in world.instances.items()} == DRBD | PLAIN
    assert {one.name for one in world.cluster.instances} == set(world.instances)


def test_a_dead_node_is_silent(lab: Lab) -> None:
    """A node without its daemon, and one that hangs: the cluster is read all the same."""
    pid = "$(cat /var/run/ganeti/ganeti-noded.pid)"
    lab.ok("-n 6 /usr/lib/ganeti/daemon-util stop ganeti-noded")
    lab.ok(f"-n 7 sh -c 'kill -STOP {pid}'")
    before = time.monotonic()
    try:
        world = read_world(lab.luxi, 5)
    finally:
        elapsed = time.monotonic() - before
        lab.ok(f"-n 7 sh -c 'kill -CONT {pid}'")
        lab.ok("-n 6 /usr/lib/ganeti/daemon-util start ganeti-noded")
    conditions = {node.name: node.condition for node in world.cluster.nodes}
    assert conditions["node6.lab"] == conditions["node7.lab"] == "silent"
    assert {conditions[name] for name in (*DEFAULT_GROUP, "node5.lab")} == {""}
    assert [node.name for node in world.nodes.values() if node.offline] == []
    assert list(world.instances_on("node6.lab")) == [
        world.instances[name] for name in ("drbd2.lab", "drbd4.lab")
    ]
    assert elapsed < 60
