"""Jobs of repairs that no record knows: what they use stays reserved until they have ended."""

from __future__ import annotations

from typing import Any

from worlds import incident, instance, node, world

from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted, Started
from ganeti_steward.plugins.maintenance.engine.reservations import Reservations
from ganeti_steward.plugins.maintenance.queue.orphans import orphans_of
from ganeti_steward.plugins.model.incident import Submission
from ganeti_steward.plugins.model.orphan import OrphanJob, named_instances, named_nodes
from ganeti_steward.plugins.model.task import Task

MIGRATE = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "i1", "target_node": None}


def row(number: int, uuid: str, submission: str, *operations: dict[str, Any]) -> dict[str, Any]:
    trail = [["gnt:daemon:maintd", uuid, 1], ["gnt:daemon:maintd:submission", submission, 1]]
    return {"id": number, "ops": [{**one, "reason": trail} for one in operations]}


def test_jobs_of_no_open_submission() -> None:
    """Also of an incident whose record is an older one."""
    open_one = incident("n2", open=(Submission("s1", "move", (), (), 0, jobs=(4,)),))
    rows = [
        row(4, open_one.uuid, "s1", MIGRATE),
        row(5, open_one.uuid, "s2", MIGRATE),
        row(6, "gone", "s3", {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n2"}),
        {"id": 7, "ops": None},
        {"id": 8, "ops": [{"OP_ID": "OP_TEST_DELAY", "reason": [["gnt:user", "x", 1]]}]},
    ]
    assert orphans_of(rows, (), [open_one]) == (
        OrphanJob(5, open_one.uuid, "s2", (), ("i1",)),
        OrphanJob(6, "gone", "s3", ("n2",), ()),
    )


def test_what_luxid_is_taking() -> None:
    task = Task("move", frozenset({"n2", "n1"}), frozenset({"i1"}), "why")
    running = [Started("gone", "s1", task), RoutineStarted("rebalance", "r1", task)]
    assert orphans_of([], running, []) == (OrphanJob(0, "gone", "s1", ("n1", "n2"), ("i1",)),)
    known = incident("n2", open=(Submission("s1", "move", (), (), 0),))
    assert orphans_of([], running, [known]) == ()


def test_names_in_operations() -> None:
    operations: list[dict[str, Any]] = [
        {"instance_name": "i2", "remote_node": "n3", "target_node": None},
        {"nodes": ["n2", "n1"], "instances": ["i1", 5]},
        {"kind": "node", "name": "n4", "tags": ["x"]},
        {"kind": "instance", "name": "i9"},
        {"kind": "cluster", "name": "c"},
    ]
    assert named_nodes(operations) == ("n1", "n2", "n3", "n4")
    assert named_instances(operations) == ("i1", "i2", "i9")


def test_all_nodes_of_its_instances_are_reserved() -> None:
    orphans = (OrphanJob(5, "gone", "s", (), ("i1", "new")),)
    nodes = [node("n1"), node("n2"), node("n3")]
    seen = world(nodes, [instance("i1", "n1", "n2")], orphans=orphans)
    reservations = Reservations((), seen)
    free = Task("move", frozenset({"n3"}), frozenset({"i3"}), "why")
    assert reservations.conflict(free) == ""
    for nodes, instances in (({"n1"}, set()), ({"n2"}, set()), (set(), {"i1"}), (set(), {"new"})):
        task = Task("move", frozenset(nodes), frozenset(instances), "why")
        assert reservations.conflict(task) == "".join({*nodes, *instances})
