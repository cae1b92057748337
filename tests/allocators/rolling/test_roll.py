"""Plans of planned maintenance on small clusters whose answer is known."""

from __future__ import annotations

from worlds import changed, instance, node, world

from ganeti_steward.allocators.rolling.fleet import MOVE, STOP
from ganeti_steward.allocators.rolling.roll import Leave, Roll, RollOptions, plan_roll
from ganeti_steward.allocators.rolling.rounds import RoundLimits
from ganeti_steward.core.model.cluster import Cluster

NODES = ("node1", "node2", "node3", "node4")


def cluster(*instances: object, **roles: dict[str, object]) -> Cluster:
    """Four nodes of 16 GiB; ``roles``: name of a node -> what differs."""
    nodes = [node(name, **roles.get(name, {})) for name in NODES]  # type: ignore[arg-type]
    return world(nodes, instances).cluster  # type: ignore[arg-type]


def planned(found: Cluster, *names: str, options: RollOptions | None = None) -> Roll:
    """The plan for these nodes, or for all."""
    return plan_roll(found, names or NODES, options or RollOptions())


def sentences(roll: Roll) -> list[str]:
    """Node, why it cannot be away, and what helps."""
    return [f"{one.node}: {one.sentence}; {one.helps}" for one in roll.impossible]


def test_drbd_migrates_to_its_secondary_and_nothing_is_copied() -> None:
    """Both nodes of an instance are never away together; the others can be."""
    roll = planned(cluster(instance("web", "node1", "node2")))
    assert [one.nodes for one in roll.rounds] == [("node1", "node3", "node4"), ("node2",)]
    assert roll.rounds[0].leaves == (Leave("web", "migrate", "node1", "node2", 1024, 0),)
    assert roll.rounds[0].one_copy == ("web",)
    assert roll.rounds[1].leaves == ()


def test_shared_storage_goes_where_most_memory_is_free() -> None:
    """To a node that stays, of the same group."""
    found = cluster(instance("shared", "node1", template="rbd"), node3={"memory": 32768})
    (one,) = planned(found, "node1").rounds
    assert [leave.target for leave in one.leaves] == ["node3"]
    rounds = planned(found, "node1", "node3").rounds
    assert [one.nodes for one in rounds] == [("node1", "node3")]
    assert rounds[0].leaves[0].target in ("node2", "node4")


def test_suspect_nodes_are_targets_where_nothing_else_fits() -> None:
    found = cluster(
        instance("web", "node1", template="rbd"), instance("b", "node2", template="rbd")
    )
    (one,) = planned(found, "node1").rounds[0].leaves
    for suspects in ({one.target}, {"node3", "node4"}, {"node2", "node3", "node4"}):
        nodes = [
            one._replace(suspect="reports suspect" if one.name in suspects else "")
            for one in found.nodes
        ]
        (leave,) = planned(found.replace(nodes), "node1").rounds[0].leaves
        assert (leave.target in suspects) == (len(suspects) == 3)


def test_what_cannot_migrate_is_the_choice_of_the_request() -> None:
    """Refused by default, with what the other choices cost."""
    found = cluster(instance("plain", "node1", template="plain"))
    assert sentences(planned(found, "node1")) == [
        "node1: plain has disks of the template plain, which are on one node only; --stop shuts "
        "it down and starts it again, --move copies it to another node and back (10.1 GiB each)"
    ]
    (stopped,) = planned(found, "node1", options=RollOptions(STOP)).rounds
    assert stopped.leaves == (Leave("plain", "shutdown", "node1", "", 1024, 0),)
    (copied,) = planned(found, "node1", options=RollOptions(MOVE)).rounds
    assert copied.leaves == (Leave("plain", "move", "node1", "node2", 1024, 10368),)


def test_an_instance_set_to_fail_over_stops_only_when_that_is_wanted() -> None:
    """Ganeti would turn its migration into a failover."""
    one = changed(instance("web", "node1", "node2"), always_failover=True)
    assert "is set to fail over" in sentences(planned(cluster(one), "node1"))[0]
    (moved,) = planned(cluster(one), "node1", options=RollOptions(MOVE)).rounds
    assert [leave.how for leave in moved.leaves] == ["failover"]


def test_stopped_instances_stay() -> None:
    """Nothing runs, so nothing leaves; the node may be away though its secondary is full."""
    found = cluster(instance("off", "node1", "node2", memory=90000, up=False))
    assert [one.leaves for one in planned(found, "node1").rounds] == [()]


def test_memory_is_short_and_the_least_that_helps_does_help() -> None:
    """The shortage is that of all instances that go there."""
    instances = [
        instance("a", "node1", "node2", memory=5000),
        instance("b", "node1", "node2", memory=5000),
        instance("big", "node2", memory=8000),
        instance("small", "node2", memory=2000),
    ]
    found = cluster(*instances)
    assert sentences(planned(found, "node1")) == [
        "node1: node2 would have to run 10000 MiB more for node1 and has 6384 MiB unallocated; "
        "free 3617 MiB on node2: big alone has 8000 MiB"
    ]
    helped = [one for one in instances if one.name != "big"]
    assert planned(cluster(*helped), "node1").impossible == ()


def test_rounds_share_the_room_of_a_secondary() -> None:
    """Two primaries with one secondary are away together only if both fit."""
    small = [instance(f"s{n}", f"node{n}", "node4", memory=7000) for n in (1, 2)]
    assert len(planned(cluster(*small), "node1", "node2").rounds) == 1
    large = [instance(f"l{n}", f"node{n}", "node4", memory=9000) for n in (1, 2)]
    assert len(planned(cluster(*large), "node1", "node2").rounds) == 2


def test_an_instance_with_a_choice_makes_room_for_one_without() -> None:
    """It was put where another node's instance has to go, and is put elsewhere."""
    found = cluster(
        instance("shared", "node1", memory=9000, template="rbd"),
        instance("web", "node2", "node3", memory=9000),
        node3={"memory": 17000},
    )
    (one,) = planned(found, "node1", "node2").rounds
    assert {leave.instance: leave.target for leave in one.leaves} == {
        "shared": "node4",
        "web": "node3",
    }


def test_the_n1_of_those_who_stay_is_shown_and_kept_on_demand() -> None:
    """A node that keeps memory for two primaries has it for one less when one has come."""
    found = cluster(
        instance("a", "node1", "node3", memory=9000),
        instance("b", "node2", "node3", memory=9000),
    )
    (one,) = planned(found, "node1").rounds
    assert one.shortages == (("node3", 9000, 7384),)
    kept = planned(found, "node1", options=RollOptions(limits=RoundLimits(keep_n1=True)))
    assert sentences(kept) == [
        "node1: node3 would have to keep 9000 MiB free for N+1 and has 7384 MiB; free 1616 MiB on "
        "node3, or leave out --n1"
    ]


def test_the_master_comes_last_and_offline_nodes_are_left_out() -> None:
    """Whatever the size of its round."""
    found = cluster(
        instance("web", "node1", "node2"), node1={"master": True}, node4={"offline": True}
    )
    roll = planned(found)
    assert [one.nodes for one in roll.rounds] == [("node2",), ("node3", "node1")]
    assert roll.left_out == (("node4", "it is offline"),)


def test_an_unusable_secondary_and_an_exclusion_tag() -> None:
    """Each with its sentence."""
    drained = cluster(instance("web", "node1", "node2"), node2={"drained": True})
    assert "web cannot go to node2: the node is drained" in sentences(planned(drained, "node1"))[0]
    tagged = [instance(f"t{n}", f"node{n}", "node3", tags=["s:x"]) for n in (1, 3)]
    tagged[1] = instance("t3", "node3", tags=["s:x"])
    found = world([node(name) for name in NODES], tagged, cluster_tags=["htools:iextags:s"]).cluster
    assert sentences(planned(found, "node1")) == [
        "node1: t1 cannot go to node3: an instance there also carries s:x; remove s:x from one of "
        "both"
    ]


def test_without_a_return_one_at_a_time_moves_least() -> None:
    """A secondary goes before the primary, so that what comes back to it does not leave again."""
    found = cluster(instance("a", "node1", "node2"), instance("b", "node2", "node3"))
    options = RollOptions(limits=RoundLimits(at_once=1), returns=False)
    roll = planned(found, options=options)
    assert len(roll.rounds) == 4
    assert [one.nodes[0] for one in roll.rounds if one.leaves] == ["node2", "node1"]
    assert sum(len(one.leaves) for one in roll.rounds) == 2
