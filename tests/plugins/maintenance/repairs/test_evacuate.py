"""Evacuation: one step after the other, each chosen by what the cluster is like now."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import after, incident, instance, node, uuid_of, world

from ganeti_steward.allocators.jobs.operations import failover, migrate, replace_secondary
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.context import Context
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import LUXID
from ganeti_steward.plugins.filters.scheduling import buckets_of
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.repairs.evacuate import Evacuate
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import Done, Failed, Plan, Task, Wait
from ganeti_steward.plugins.model.world import World
from ganeti_steward.plugins.texts import read_reasons

ILL = incident("n1")
FAILOVER = incident("n1", "evacuate-failover")


def plan(about: Incident, now: World, **settings: Any) -> Plan:
    plugin = Evacuate()
    plugin.configure(Maintd(**settings))
    found = plugin.steward_plan(about, now, Context())
    assert found is not None
    (one,) = found
    return one


def moving(about: Incident, now: World, **settings: Any) -> Task:
    found = plan(about, now, **settings)
    assert isinstance(found, Task), found
    assert found.step == "move"
    return found


def nodes(number: int, **of_first: Any) -> list[Node]:
    """``n1`` is drained unless something else is given."""
    first = node("n1", **({"drained": True} | of_first))
    return [first, *(node(f"n{i}") for i in range(2, number + 1))]


def role(name: str, **given: bool) -> dict[str, Any]:
    return {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, **given, "auto_promote": True}


def test_the_whole_evacuation() -> None:
    now = world([node(f"n{i}") for i in (1, 2, 3, 4)], [instance("a", "n1", "n2")])
    steps = []
    while isinstance(found := plan(ILL, now), Task):
        steps.append((found.step, [list(job) for job in found.jobs]))
        now = after(now, found.jobs)
    (target,) = {"n3", "n4"} & set(now.instances["a"].nodes)
    assert steps == [
        ("drain", [[role("n1", drained=True)]]),
        ("move", [[migrate("a"), replace_secondary("a", target)]]),
        ("final-role", [[role("n1", offline=True)]]),
    ]
    assert found == Done("no instance is left on node n1")


def test_the_final_role_may_be_drained() -> None:
    assert plan(ILL, world(nodes(2)), final_role="drained") == Done(
        "no instance is left on node n1"
    )


def test_the_master_node_waits() -> None:
    found = plan(ILL, world([node("n1", master=True), node("n2")]))
    assert found == Wait(
        "n1 is the master node: fail over the master role first (gnt-cluster master-failover)"
    )


def test_other_actions_are_not_handled() -> None:
    now = world(nodes(2))
    assert Evacuate().steward_plan(incident("n1", "live-repair"), now, Context()) is None


def test_a_node_that_is_gone() -> None:
    assert plan(incident("n9"), world(nodes(2))) == Wait("node n9 is not in the cluster")


# -- how each kind of instance moves


def test_a_drbd_primary_goes_to_its_secondary_and_gets_a_new_one() -> None:
    found = moving(FAILOVER, world(nodes(3), [instance("a", "n1", "n2")]))
    over = failover("a")
    assert found.jobs == [[over, replace_secondary("a", "n3")]]
    assert (found.nodes, found.instances) == ({"n1", "n2", "n3"}, {"a"})
    assert found.reason == "move 1 of 1 instances off n1: a"


@pytest.mark.parametrize("about", [ILL, FAILOVER], ids=lambda one: one.action)
def test_a_drbd_secondary_is_replaced(about: Incident) -> None:
    found = moving(about, world(nodes(3), [instance("a", "n2", "n1")]))
    assert found.jobs == [[replace_secondary("a", "n3")]]


@pytest.mark.parametrize(
    "template", ["diskless", "ext", "rbd", "sharedfile", "gluster", "blockdev"]
)
def test_what_is_mirrored_elsewhere_goes_anywhere(template: str) -> None:
    now = world(nodes(2), [instance("a", "n1", template=template)])
    assert moving(ILL, now).jobs == [[migrate("a", "n2")]]
    assert moving(FAILOVER, now).jobs == [[failover("a", "n2")]]


def test_a_secondary_under_repair_is_left_first() -> None:
    """Its disks are copied off the ill node, before anything runs elsewhere."""
    now = world(nodes(4), [instance("a", "n1", "n2")], avoided_nodes={"n2": "reports evacuate"})
    (job,) = moving(ILL, now).jobs
    assert [one["OP_ID"] for one in job] == [
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_INSTANCE_MIGRATE",
        "OP_INSTANCE_REPLACE_DISKS",
    ]
    assert set(after(now, [job]).instances["a"].nodes) == {"n3", "n4"}


def test_a_secondary_that_is_left_alone_for_a_short_time_is_waited_for() -> None:
    """Its good copy is not given up while the other one is on the ill node."""
    now = world(
        nodes(4),
        [instance("a", "n1", "n2")],
        avoided_nodes={"n2": "reports live-repair"},
        passing_nodes=frozenset({"n2"}),
    )
    assert plan(ILL, now) == Wait(
        "1 of 1 instances on n1 wait: a: its other node n2 reports live-repair, which passes"
    )


def test_only_the_step_that_leaves_the_node_is_a_failover() -> None:
    now = world(nodes(4), [instance("a", "n1", "n2")], avoided_nodes={"n2": "reports evacuate"})
    (job,) = moving(FAILOVER, now).jobs
    assert [one["OP_ID"] for one in job] == [
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_INSTANCE_FAILOVER",
        "OP_INSTANCE_REPLACE_DISKS",
    ]


def test_an_offline_node() -> None:
    """What is stopped leaves it; what may still run there waits (`test_evacuation_of_data`)."""
    now = world(
        nodes(4, drained=False, offline=True),
        [instance("down", "n1", template="ext", up=False), instance("up", "n1", template="ext")],
    )
    first = moving(ILL, now)
    assert first.instances == {"down"}
    assert first.jobs[0][0]["OP_ID"] == "OP_INSTANCE_FAILOVER"
    rest = plan(ILL, after(now, first.jobs))
    assert isinstance(rest, Wait)
    assert rest.reason.startswith("1 of 1 instances on n1 wait: up: n1 is offline, and whether ")


# -- what cannot move


def test_what_cannot_move_is_named_before_the_node_is_drained() -> None:
    there = [instance("plain", "n1", template="plain"), instance("ok", "n1")]
    found = plan(ILL, world([node("n1"), *nodes(3)[1:]], there))
    assert isinstance(found, Task)
    assert found.reason == (
        "set n1 drained: nothing new is placed on it; then move 1 of 2 instances off n1: ok; "
        "1 of 2 instances cannot be moved, so the repair will fail: "
        "plain: its disks are on this node only (template plain)"
    )


def test_what_cannot_move_is_named_after_the_others_have_moved() -> None:
    now = world(
        nodes(3),
        [
            instance("file", "n1", template="file"),
            instance("kept", "n1", tags=["maintd:off"]),
            instance("plain", "n1", template="plain"),
            instance("vast", "n1", memory=16000),
            instance("wide", "n2", memory=1000),
            instance("x", "n3", memory=1000),
            instance("ok", "n1"),
        ],
    )
    assert moving(ILL, now).instances == {"ok"}
    now = after(now, moving(ILL, now).jobs)
    found = plan(ILL, now)
    assert isinstance(found, Failed)
    assert dict(found.unmovable) == {
        "file": "its disks are on this node only (template file)",
        "kept": "it has the tag maintd:off",
        "plain": "its disks are on this node only (template plain)",
        "vast": "0/2 nodes fit: 2 memory (16000 MiB needed, most free 15384 MiB)",
    }
    assert found.reason.startswith("4 of 4 instances on n1 cannot be moved: file: its disks are")


def test_reasons_of_a_secondary_that_cannot_take_over() -> None:
    """Two nodes under repair and one other: no pair is left."""
    now = world(nodes(3), [instance("a", "n1", "n2")], avoided_nodes={"n2": "reports evacuate"})
    found = plan(ILL, now)
    assert isinstance(found, Failed)
    ((name, reason),) = found.unmovable
    assert name == "a"
    assert reason.startswith("its secondary n2 reports evacuate; ")
    assert "1 under repair" in reason


def test_both_nodes_are_offline() -> None:
    now = world(
        [
            node("n1", offline=True, tags=[f"maintd:stopped:{uuid_of('n1')}"]),
            node("n2", offline=True),
            node("n3"),
            node("n4"),
        ],
        [instance("a", "n1", "n2"), instance("b", "n2", "n1")],
    )
    found = plan(FAILOVER, now, failover_unsynced=True)
    assert isinstance(found, Failed)
    reasons = dict(found.unmovable)
    assert "its disks cannot be copied: its primary n1 is offline" in reasons["a"]
    assert reasons["b"] == "its disks cannot be copied: its primary n2 is offline"


def test_a_silent_primary_is_not_copied_from() -> None:
    now = world(nodes(3), [instance("a", "n2", "n1")])
    first, second, third = now.cluster.nodes
    second = second._replace(missing=("free_memory",))
    found = plan(ILL, now._replace(cluster=now.cluster.replace([first, second, third])))
    assert isinstance(found, Failed)
    reason = "its primary n2 does not report its free memory"
    assert found.unmovable == (("a", f"its disks cannot be copied: {reason}"),)


# -- several at once, and beside other tasks


def test_several_at_once_share_the_ill_node_only() -> None:
    now = world(nodes(9), [instance(f"i{k}", "n1", "n2" if k < 2 else f"n{k}") for k in range(6)])
    found = moving(ILL, now, moves_at_once=3)
    assert len(found.jobs) == 3
    others = [set(now.instances[name].nodes) - {"n1"} for name in found.instances]
    assert sum(map(len, others)) == len(set[str]().union(*others)) == 3
    assert len(found.nodes) == 1 + 3 + 3
    assert len(moving(ILL, now, moves_at_once=1).jobs) == 1


def test_the_reason_says_why_not_all_move_at_once() -> None:
    """The limit, or nodes that each of them needs; nothing where all move."""
    now = world(nodes(9), [instance(f"i{k}", "n1", f"n{k + 2}") for k in range(4)])
    assert moving(ILL, now, moves_at_once=3).reason.endswith("; 1 later: moves-at-once is 3")
    assert "later" not in moving(ILL, now, moves_at_once=4).reason
    for number, later in ((3, "2 later: they need"), (2, "1 later: it needs")):
        shared = world(nodes(3), [instance(f"i{k}", "n1", "n2") for k in range(number)])
        assert moving(FAILOVER, shared, moves_at_once=4).reason == (
            f"move 1 of {number} instances off n1: i0; "
            f"{later} nodes that these moves or other tasks use"
        )


def test_moves_of_the_cluster_share_a_bucket() -> None:
    """Ganeti runs no more of them at the same time, whatever node they leave."""
    now = world(nodes(9), [instance(f"i{k}", "n1", f"n{k + 2}") for k in range(4)])
    for job in moving(ILL, now, moves_in_cluster=2).jobs:
        reasons = read_reasons([reason for one in job for reason in one["reason"]])
        assert buckets_of(Job(1, reasons=reasons), LUXID) == {"2:maintd": 2}
    again = [moving(ILL, at, moves_in_cluster=2) for at in (now, now._replace(now=now.now + 5))]
    assert again[0] == again[1]
    assert "reason" not in moving(ILL, now).jobs[0][0]


def test_no_move_takes_the_place_another_instance_needs() -> None:
    """Only ``c`` goes to n3: ``a`` and ``b`` have room together on n2, one after the other."""
    made = [*nodes(1), node("n2", memory=2200), node("n3", memory=8192)]
    now = world(
        made,
        [
            instance("a", "n1", memory=500),
            instance("b", "n1", memory=500),
            instance("c", "n1", memory=4000),
            *(instance(f"x{number}", "n3", memory=1024) for number in range(4)),
        ],
    )
    first = moving(ILL, now)
    assert first.instances in ({"a", "c"}, {"b", "c"})
    then = after(now, first.jobs)
    assert then.instances["c"].primary == "n3"
    end = after(then, moving(ILL, then).jobs)
    assert [end.instances[name].primary for name in "abc"] == ["n2", "n2", "n3"]


def test_what_other_tasks_use_is_waited_for() -> None:
    now = world(
        nodes(3),
        [instance("a", "n1", "n2"), instance("b", "n1"), instance("c", "n1")],
        reserved_nodes=frozenset({"n2", "n3", "n1"}),
        reserved_instances=frozenset({"b"}),
    )
    assert plan(ILL, now) == Wait(
        "3 of 3 instances on n1 wait: a: another task uses its node n2; "
        "b: another task uses it; c: 0/2 nodes fit now: 2 used by other tasks (n2, n3)"
    )
    some = now._replace(reserved_nodes=frozenset({"n2"}))
    assert moving(ILL, some).jobs == [[migrate("c", "n3")]]


def test_a_place_that_never_comes_is_no_reason_to_wait() -> None:
    now = world(
        nodes(3),
        [instance("vast", "n1", memory=17000)],
        reserved_nodes=frozenset({"n2"}),
        avoided_nodes={"n3": "reports evacuate"},
    )
    found = plan(ILL, now)
    assert isinstance(found, Failed)
    reason = "0/2 nodes fit: 1 memory (17000 MiB needed, most free 16384 MiB), 1 under repair"
    assert found.unmovable == (("vast", reason),)
