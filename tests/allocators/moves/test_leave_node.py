"""All instances leave one node: what moves first, what keeps its copy, and why others stay."""

from __future__ import annotations

from functools import partial
from typing import Any

from call_counts import counted
from worlds import instance, node, world

from ganeti_steward.allocators.jobs.operations import migrate, replace_secondary
from ganeti_steward.allocators.moves.leave_node import Leaving, NodeMoves, leave_node
from ganeti_steward.core.model.cluster import Instance, Node
from ganeti_steward.core.model.context import Context


def nodes(number: int, **of_first: Any) -> list[Node]:
    """``n1`` is drained unless something else is given."""
    first = node("n1", **({"drained": True} | of_first))
    return [first, *(node(f"n{i}") for i in range(2, number + 1))]


def leave(
    made: list[Node],
    on_them: list[Instance],
    *,
    avoided: dict[str, str] | None = None,
    reserved: set[str] | None = None,
    most: int = 4,
    **more: Any,
) -> NodeMoves:
    now = world(made, on_them)
    leaving = [one.name for one in now.instances_on("n1")]
    request = Leaving("n1", leaving, avoided or {}, frozenset(reserved or ()), most, **more)
    return leave_node(request, now.cluster, Context())


def moved(found: NodeMoves) -> dict[str, Any]:
    return {one.instance.name: one.job for one in found.moves}


def kinds(found: NodeMoves) -> set[str]:
    """The parts of the answer that name instances."""
    return {name for name in ("moves", "blocked", "impossible", "stays") if getattr(found, name)}


# -- where redundancy cannot be kept


def test_two_nodes_of_which_one_leaves() -> None:
    """The primaries migrate and keep their copies on the node; the copies of others stay."""
    found = leave(nodes(2), [instance("a", "n1", "n2"), instance("b", "n2", "n1")])
    assert moved(found) == {"a": [migrate("a")]}
    (move,) = found.moves
    assert move.keeps_copy
    assert move.nodes == {"n1", "n2"}
    assert found.copies_impossible == {"a", "b"}
    found = leave(nodes(2), [instance("a", "n2", "n1"), instance("b", "n2", "n1")])
    reason = "group g1 has no third node for its copy"
    assert found.stays == (("a", reason), ("b", reason))
    assert kinds(found) == {"stays"}
    assert found.copies_impossible == {"a", "b"}


def test_a_third_node_that_is_full() -> None:
    made = [*nodes(2), node("n3", disk=5000)]
    found = leave(made, [instance("a", "n1", "n2"), instance("b", "n2", "n1")])
    assert moved(found) == {"a": [migrate("a")]}
    assert found.moves[0].keeps_copy
    assert not found.copies_impossible
    found = leave(made, [instance("b", "n2", "n1")])
    reason = "0/1 nodes fit: 1 disk (10368 MiB needed, most free 5000 MiB)"
    assert found.stays == (("b", f"its copy does not fit on a third node: {reason}"),)


def test_third_nodes_that_could_never_take_a_copy() -> None:
    made = [*nodes(2), node("n3", offline=True), node("n4", vm_capable=False), node("n5")]
    off = {"n5": "is excluded by the tag maintd:off"}
    on_them = [instance("b", "n2", "n1")]
    found = leave(made, on_them, avoided=off, excluded=frozenset({"n5"}))
    assert found.copies_impossible == {"b"}
    why = "n3 is offline, n4 is not vm_capable, n5 is excluded by the tag maintd:off"
    assert found.stays == (("b", f"group g1 has no third node for its copy ({why})"),)
    found = leave(made, on_them, avoided={"n5": "reports evacuate"})
    assert not found.copies_impossible
    assert "1 under repair" in dict(found.stays)["b"]


def test_nodes_of_other_groups_are_no_third_nodes() -> None:
    found = leave([*nodes(2), node("n3", group="g2")], [instance("b", "n2", "n1")])
    assert found.copies_impossible == {"b"}


def test_copies_are_kept_on_the_node_only_when_no_other_move_is_left() -> None:
    """n3 has room for the small copy only."""
    made = [*nodes(2), node("n3", disk=20000)]
    small, large = instance("small", "n1", "n2"), instance("large", "n1", "n2", disk=30000)
    found = leave(made, [small, large])
    assert moved(found) == {"small": [migrate("small"), replace_secondary("small", "n3")]}
    assert not found.moves[0].keeps_copy
    found = leave(made, [instance("small", "n2", "n3"), large])
    assert moved(found) == {"large": [migrate("large")]}
    assert found.moves[0].keeps_copy


def test_a_secondary_that_cannot_run_it() -> None:
    """Too little memory, or nothing may be moved there."""
    made = [node("n1", drained=True), node("n2", memory=512)]
    found = leave(made, [instance("a", "n1", "n2")])
    assert not found.moves
    ((name, reason),) = found.impossible
    assert name == "a"
    assert reason == (
        "group g1 has no third node for its copy; its secondary n2 cannot take it over: "
        "needs 1024 MiB and 1 to spare, 512 MiB unallocated"
    )
    found = leave(nodes(2), [instance("a", "n1", "n2")], avoided={"n2": "reports evacuate"})
    assert not found.moves
    assert dict(found.impossible)["a"].startswith("group g1 has no third node for its copy; its ")


def test_what_may_not_keep_its_copy_stays() -> None:
    found = leave(nodes(2), [instance("a", "n1", "n2")], may_keep_copies=False)
    assert found.impossible == (("a", "group g1 has no third node for its copy"),)


def test_the_only_good_copy_does_not_count_as_one_that_may_stay() -> None:
    made = [node("n1", drained=True), node("n2", offline=True), node("n3")]
    found = leave(made, [instance("a", "n2", "n1")])
    assert found.impossible == (("a", "its disks cannot be copied: its primary n2 is offline"),)
    assert not found.stays


# -- what fits later


def test_nodes_that_are_not_used_for_a_short_time() -> None:
    made, on_them = nodes(3), [instance("a", "n1", template="ext")]
    found = leave(made, on_them, passing=frozenset({"n3"}), reserved={"n2"})
    reason = "1 under repair for a short time (n3), 1 used by other tasks (n2)"
    assert found.blocked == (("a", f"0/2 nodes fit now: {reason}"),)
    assert not found.impossible
    ill = {"n3": "has an active incident"}
    again = leave(made, on_them, passing=frozenset({"n3"}), reserved={"n2"}, avoided=ill)
    assert again.blocked == found.blocked
    found = leave(made, on_them, passing=frozenset({"n3"}), avoided={"n2": "reports evacuate"})
    reason = "1 under repair, 1 under repair for a short time (n3)"
    assert found.blocked == (("a", f"0/2 nodes fit now: {reason}"),)


def test_a_copy_that_fits_later_is_waited_for() -> None:
    """The instance could leave without it at once, and would have one copy until the end."""
    on_them = [instance("a", "n1", "n2"), instance("b", "n2", "n1")]
    found = leave(nodes(3), on_them, passing=frozenset({"n3"}))
    assert kinds(found) == {"blocked"}
    reasons = dict(found.blocked)
    assert reasons.keys() == {"a", "b"}
    assert "1 under repair for a short time (n3)" in reasons["a"]
    assert reasons["b"] == "0/1 nodes fit now: 1 under repair for a short time (n3)"


def test_a_secondary_under_repair_for_a_short_time_is_waited_for() -> None:
    found = leave(nodes(2), [instance("a", "n1", "n2")], passing=frozenset({"n2"}))
    ((name, reason),) = found.blocked
    assert name == "a"
    assert reason.startswith("its secondary n2 is under repair for a short time; ")
    assert kinds(found) == {"blocked"}


def test_what_fits_not_even_later_is_impossible() -> None:
    made = nodes(3)
    on_them = [instance("a", "n1", memory=20000)]
    found = leave(made, on_them, passing=frozenset({"n3"}), reserved={"n2"})
    reason = "0/2 nodes fit: 2 memory (20000 MiB needed, most free 16384 MiB)"
    assert found.impossible == (("a", reason),)
    assert not found.blocked


def test_nodes_in_use_are_left_alone() -> None:
    """Nothing is copied to or from them, nor does an instance leave them."""
    found = leave(nodes(4), [instance("a", "n1", "n2")], reserved={"n2"})
    assert found.blocked == (("a", "another task uses its node n2"),)
    assert not found.moves


# -- moves that failed


def test_a_node_to_which_the_move_failed_comes_last() -> None:
    on_them = [instance("a", "n1", "n2"), *(instance(f"x{k}", "n4") for k in range(6))]
    assert moved(leave(nodes(4), on_them))["a"][1] == replace_secondary("a", "n3")
    failed = {"a": frozenset({"n3"})}
    assert moved(leave(nodes(4), on_them, last=failed))["a"][1] == replace_secondary("a", "n4")
    assert moved(leave(nodes(3), [instance("a", "n1", "n2")], last=failed)) == {
        "a": [migrate("a"), replace_secondary("a", "n3")]
    }
    alone = [instance("e", "n1", template="ext")]
    assert moved(leave(nodes(3), alone, last={"e": frozenset({"n2"})})) == {
        "e": [migrate("e", "n3")]
    }
    assert moved(leave(nodes(2), alone, last={"e": frozenset({"n2"})})) == {
        "e": [migrate("e", "n2")]
    }


def test_a_secondary_to_which_the_move_failed_is_replaced_first() -> None:
    failed = {"a": frozenset({"n2"})}
    (job,) = moved(leave(nodes(4), [instance("a", "n1", "n2")], last=failed)).values()
    assert [one.get("remote_node") for one in job] in (["n3", None, "n4"], ["n4", None, "n3"])
    other_way = [replace_secondary("a", "n3"), migrate("a"), replace_secondary("a", "n2")]
    assert moved(leave(nodes(3), [instance("a", "n1", "n2")], last=failed)) == {"a": other_way}
    assert moved(leave(nodes(2), [instance("a", "n1", "n2")], last=failed)) == {"a": [migrate("a")]}


# -- redundancy before and after


def test_redundancy_of_two_nodes() -> None:
    found = leave(nodes(2), [instance("a", "n1", "n2"), instance("b", "n2", "n1")])
    assert found.before.one_copy == ()
    assert found.after.one_copy == ("a", "b")


def test_redundancy_is_won_back_from_an_offline_node() -> None:
    found = leave(
        nodes(4, drained=False, offline=True),
        [instance("a", "n1", "n2"), instance("b", "n2", "n1")],
    )
    assert found.before.one_copy == ("a", "b")
    assert found.after.one_copy == ()


def test_nodes_whose_failure_is_no_longer_survived() -> None:
    """After the move n3 runs too much to take over what n2 runs."""
    made = [node("n1", drained=True), node("n2"), node("n3", memory=4096)]
    on_them = [
        instance("e", "n1", template="ext", memory=3000),
        instance("b", "n2", "n3", memory=3500),
    ]
    found = leave([*made[:1], node("n2", memory=4000), *made[2:]], on_them)
    assert found.before.n1_failing == ()
    assert found.after.n1_failing == ("n2",)


# -- the order


def test_the_only_good_copy_leaves_first() -> None:
    """Of three instances the one whose other node is offline goes first, however it is named."""
    made = [*nodes(6), node("n7", offline=True)]
    on_them = [instance("a", "n1", "n2"), instance("b", "n1", "n3"), instance("z", "n1", "n7")]
    assert list(moved(leave(made, on_them, most=1))) == ["z"]
    assert next(iter(moved(leave(made, on_them)))) == "z"


def test_the_only_good_copy_gets_the_place_that_is_left() -> None:
    """``z`` needs n2 and n3; then n3 has no room for a copy of ``a``."""
    made = [node("n1", drained=True), node("n5", offline=True)]
    made += [node("n2", disk=15000), node("n3", disk=12000)]
    on_them = [instance("a", "n1", "n2", disk=4600), instance("z", "n1", "n5", disk=9000)]
    found = leave(made, on_them)
    assert list(moved(found)) == ["z"]
    assert found.after.one_copy == ("a",)


def test_a_copy_beside_an_ill_node_leaves_before_others() -> None:
    ill = {"n3": "reports evacuate"}
    on_them = [instance("a", "n1", "n2"), instance("z", "n1", "n3")]
    assert list(moved(leave(nodes(6), on_them, avoided=ill, most=1))) == ["z"]


def test_many_instances_of_many_nodes_are_planned_with_little_work() -> None:
    """Where room is short, too, so that the plan is searched further."""
    number = 200
    names = [f"n{i}" for i in range(2, number + 1)]
    on_them = [
        instance(f"i{k}", names[k % len(names)], names[(k * 7 + 1) % len(names)])
        for k in range(10 * number)
        if k % len(names) != (k * 7 + 1) % len(names)
    ]
    for k in range(40):
        places = ("n1", names[k * 3]) if k % 2 else (names[k * 5 % len(names)], "n1")
        on_them.append(instance(f"x{k}", *places, memory=3000))
    for memory in (32768, 14000, 11000):
        made = [node("n1", drained=True), *(node(n, memory=memory, disk=2**20) for n in names)]
        now = world(made, on_them)
        request = Leaving("n1", [f"x{k}" for k in range(40)], {}, frozenset(), 4)
        _, calls = counted(partial(leave_node, request, now.cluster, Context()))
        assert calls < 600_000
