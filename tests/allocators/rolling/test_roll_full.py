"""Plans with copies that leave, too: every drbd instance has two copies all the time."""

from __future__ import annotations

from test_roll import NODES, cluster, planned, sentences
from worlds import instance

from ganeti_steward.allocators.rolling.copies import Copy, copies_leave, with_copies
from ganeti_steward.allocators.rolling.pace import Pace, seconds_of
from ganeti_steward.allocators.rolling.roll import RollOptions
from ganeti_steward.allocators.rolling.rounds import RoundLimits
from ganeti_steward.core.model.context import Context

FULL = RollOptions(full=True)


def test_copies_leave_after_what_runs() -> None:
    """Those of the instances that have just left, and those of the others."""
    found = cluster(
        instance("web", "node1", "node2"),
        instance("other", "node2", "node1"),
        instance("shared", "node1", template="rbd"),
        instance("down", "node2", "node1", up=False),
    )
    (one,) = planned(found, "node1", options=FULL).rounds
    assert [(leave.instance, leave.how) for leave in one.leaves] == [
        ("shared", "migrate"),
        ("web", "migrate"),
    ]
    assert [(copy.instance, copy.source, copy.copied) for copy in one.copies] == [
        ("other", "node1", found.instance("other").disk_space),
        ("web", "node1", found.instance("web").disk_space),
    ]
    assert {copy.target for copy in one.copies} <= {"node3", "node4"}
    assert one.one_copy == ()
    pace = Pace(copied_per_second=100, at_once=1)
    copied = sum(copy.copied for copy in one.copies) / 100
    bare = one._replace(copies=())
    assert seconds_of(one, pace, returns=True) == seconds_of(bare, pace, returns=True) + copied


def test_each_round_begins_with_the_copies_of_the_one_before() -> None:
    """No copy is on a node of its round, and none moves off a node where it is not."""
    names = [("a", 1, 2), ("b", 2, 3), ("c", 3, 4), ("d", 4, 1)]
    found = cluster(*(instance(name, f"node{one}", f"node{two}") for name, one, two in names))
    options = FULL._replace(limits=RoundLimits(at_once=1))
    roll = planned(found, options=options)
    assert sorted(node for one in roll.rounds for node in one.nodes) == sorted(NODES)
    on = {one.name: one.nodes for one in found.instances}
    for one in roll.rounds:
        for leave in one.leaves:
            primary, secondary = on[leave.instance]
            assert (primary, secondary) == (leave.source, leave.target)
            on[leave.instance] = (secondary, primary)
        for copy in one.copies:
            primary, secondary = on[copy.instance]
            assert secondary == copy.source
            assert copy.target not in (primary, *one.nodes)
            on[copy.instance] = (primary, copy.target)
        assert not any({*one.nodes} & {*nodes} for nodes in on.values())


def test_spindles_are_counted() -> None:
    found = cluster(instance("web", "node1", "node2"))
    disks = tuple(one._replace(spindles=2) for one in found.instance("web").disks)
    found = found.replace(
        [one._replace(exclusive_storage=True) for one in found.nodes],
        [found.instance("web")._replace(disks=disks)],
    )
    free = {one.name: one.free_spindles for one in found.nodes}
    after = with_copies(found, [Copy("web", "node2", "node3", 1)])
    changed = {one.name: one.free_spindles - free[one.name] for one in after.nodes}
    assert changed == {"node1": 0, "node2": 2, "node3": -2, "node4": 0}


def test_copies_of_the_second_node_leave_after_those_of_the_first() -> None:
    """As if the cluster were read again in between."""
    found = cluster(
        *(instance(f"a{number}", "node3", "node1") for number in range(3)),
        *(instance(f"b{number}", "node4", "node2") for number in range(3)),
        node1={"drained": True},
        node2={"drained": True},
    )
    both = copies_leave(found, ["node1", "node2"], Context(), 0)
    first = copies_leave(found, ["node1"], Context(), 0)
    second = copies_leave(with_copies(found, first.copies), ["node2"], Context(), 0)
    assert len(first.copies) == len(second.copies) == 3
    assert both.copies == first.copies + second.copies


def test_a_copy_without_a_place_refuses_the_node() -> None:
    found = cluster(
        instance("web", "node1", "node2"), node3={"drained": True}, node4={"drained": True}
    )
    roll = planned(found, "node1", options=FULL)
    assert roll.rounds == ()
    assert sentences(roll) == [
        "node1: no other node of the group may take the copy of the disks of web; without --full "
        "the copy stays, and web has one only while the node is away"
    ]


def test_fewer_nodes_are_away_where_that_leaves_places() -> None:
    """node1 and node3 may be away together, but then nothing is left for the copies."""
    found = cluster(
        instance("web", "node1", "node2"),
        instance("db", "node3", "node2"),
        node4={"drained": True},
    )
    roll = planned(found, "node1", "node3", options=FULL)
    assert sorted(one.nodes for one in roll.rounds) == [("node1",), ("node3",)]
    assert roll.impossible == ()
    assert len(roll.rounds[0].copies) == 1
