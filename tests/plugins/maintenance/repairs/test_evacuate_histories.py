"""In every cluster an evacuation ends, collides with nothing and leaves no instance out."""

from __future__ import annotations

from functools import partial
from typing import Any

from call_counts import counted
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import often
from worlds import after, incident, instance, node, with_node, world

from ganeti_steward.core.model.cluster import Instance, Node
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.opcodes import MOVES
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.repairs.evacuate import Evacuate
from ganeti_steward.plugins.model.task import MOVE, Done, Failed, Task, Wait
from ganeti_steward.plugins.model.world import World

_ROLES = st.sampled_from(({}, {}, {}, {}, {"drained": True}, {"offline": True}))
ACTIVATE = "OP_INSTANCE_ACTIVATE_DISKS"
_TEMPLATES = st.sampled_from(("diskless", "ext", "sharedfile", "plain", "file"))


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    number = draw(st.integers(2, 8))
    groups = st.sampled_from(("g1", "g1", "g1", "g2"))
    others = [
        node(f"n{i}", group=draw(groups), memory=draw(st.integers(2, 8)) * 1024, **draw(_ROLES))
        for i in range(2, number + 1)
    ]
    return [node("n1", memory=2**16, **draw(_ROLES)), *others]


@st.composite
def instances(draw: st.DrawFn, names: list[str]) -> list[Instance]:
    """Most of them on the first node."""

    def one(number: int) -> Instance:
        some: Any = {
            "memory": draw(st.integers(1, 6)) * 512,
            "disk": draw(st.integers(1, 40)) * 1024,
            "up": draw(st.integers(0, 4)) > 0,
            "tags": ["maintd:off"] if draw(st.integers(0, 9)) == 0 else [],
        }
        first, second, *_ = draw(st.permutations(names))
        places = [first, second]
        if names[0] not in places and draw(st.booleans()):
            places[draw(st.integers(0, 1))] = names[0]
        if draw(st.booleans()):
            return instance(f"i{number}", *places, **some)
        return instance(f"i{number}", places[0], template=draw(_TEMPLATES), **some)

    return [one(number) for number in range(draw(st.integers(0, 12)))]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    made = draw(nodes())
    names = [one.name for one in made]
    others = st.sets(st.sampled_from(names[1:]), max_size=2)
    return world(
        made,
        draw(instances(names)),
        avoided_nodes={"n1": "is ill"} | dict.fromkeys(draw(others), "is ill, too"),
        reserved_nodes=frozenset(draw(st.one_of(st.just(set[str]()), others))),
    )


def check_move(task: Task, now: World, most: int) -> None:
    """Nothing is used twice, and nothing is moved to where it must not go."""
    assert 1 <= len(task.jobs) <= most
    seen: list[str] = []
    then = after(now, task.jobs)
    barred = {*now.avoided_nodes, *now.reserved_nodes}
    unusable = {one.name for one in now.cluster.nodes if not one.usable}
    names = [job[0]["instance_name"] for job in task.jobs]
    assert len(set(names)) == len(names) == len(task.instances)
    assert task.instances == set(names)
    for name, job in zip(names, task.jobs, strict=True):
        assert {one["instance_name"] for one in job} == {name}
        assert all(one["OP_ID"] in MOVES or one["OP_ID"] == ACTIVATE for one in job)
        before, place = now.instances[name].nodes, then.instances[name].nodes
        assert "n1" in before
        assert place[0] != "n1"
        if "n1" in place:
            # Its copy stays, because no other node can take it.
            assert before == ("n1", place[0])
        check_data(now, name)
        # What is new there, and where it runs from now on.
        targets = {*place} - {*before} | ({place[0]} - {before[0]})
        assert not targets & (barred | unusable)
        used = {one["remote_node"] for one in job if one.get("remote_node")} | {*before, *place}
        assert not (used - {"n1"}) & now.reserved_nodes
        seen += used - {"n1"}
        assert used <= task.nodes
    assert len(set(seen)) == len(seen)


def check_data(now: World, name: str) -> None:
    """Nothing runs twice: what may run on a node that does not answer stays until that is known."""
    instance = now.instances[name]
    if instance.up and instance.primary == "n1" and now.cluster.nodes[0].offline:
        assert now.is_stopped("n1")


def stopped(now: World) -> World:
    """An admin says that no instance runs on the node any more."""
    (node,) = (one for one in now.nodes.values() if one.name == "n1")
    return with_node(now, "n1", tags=(*node.tags, f"maintd:stopped:{node.uuid}"))


@settings(max_examples=often(25, 3000))
@given(worlds(), st.sampled_from(("evacuate", "evacuate-failover")), st.integers(1, 5))
def test_every_evacuation_ends(start: World, action: str, most: int) -> None:
    plugin, about, now = Evacuate(), incident("n1", action), start
    plugin.configure(Maintd(moves_at_once=most, failover_unsynced=True))
    left = len(list(start.instances_on("n1")))
    for _ in range(2 * left + 6):
        (found,) = plugin.steward_plan(about, now, Context()) or ()
        if isinstance(found, Wait):
            # Other tasks end at some time, and an admin finds out whether the node is off.
            assert now.reserved_nodes or not now.is_stopped("n1")
            now = stopped(now._replace(reserved_nodes=frozenset()))
            continue
        if not isinstance(found, Task):
            break
        if found.step == MOVE:
            check_move(found, now, most)
        now = after(now, found.jobs)
    on_it = {one.name for one in now.instances_on("n1")}
    if isinstance(found, Failed):
        copies = {one.name for one in now.instances_on("n1") if one.primary != "n1"}
        assert on_it - copies <= {name for name, _ in found.unmovable} <= on_it
        assert all(reason for _, reason in found.unmovable)
    else:
        assert isinstance(found, Done)
        assert all(now.instances[name].primary != "n1" for name in on_it)
        assert on_it or now.cluster.nodes[0].offline
        assert all(name in found.reason for name in on_it)


@settings(max_examples=often(25, 3000))
@given(worlds(), st.sampled_from(("evacuate", "evacuate-failover")))
def test_the_drain_says_what_comes_next(start: World, action: str) -> None:
    plugin, about = Evacuate(), incident("n1", action)
    plugin.configure(Maintd(final_role="drained", degraded_final_role="drained"))
    start = with_node(start, "n1", drained=False, offline=False)
    (drain,) = plugin.steward_plan(about, start, Context()) or ()
    assert isinstance(drain, Task)
    (found,) = plugin.steward_plan(about, after(start, drain.jobs), Context()) or ()
    if isinstance(found, Done):
        assert drain.reason.split("; then ")[1] in found.reason
    else:
        fails = "the repair fails: " if isinstance(found, Failed) else ""
        assert drain.reason.endswith(f"; then {fails}{found.reason}")


def test_many_nodes() -> None:
    """The figures of the cluster are computed once for each plan, not once for each instance."""
    number = often(400, 1000, 400)
    names = [f"n{i}" for i in range(1, number + 1)]
    on_them = [
        instance(f"i{k}", names[k % number], names[(k * 7 + 1 + k // number) % number])
        for k in range(10 * number)
    ]
    now = world(
        [node(name, memory=2**15, disk=2**20, drained=name == "n1") for name in names], on_them
    )
    # What is imported for the first plan only does not count.
    assert Evacuate().steward_plan(incident("n1"), world([node("n1"), node("n2")]), Context())
    plan = partial(Evacuate().steward_plan, incident("n1"), now, Context())
    plans, calls = counted(plan)
    (found,) = plans or ()
    assert calls < 2000 * number
    assert isinstance(found, Task)
    assert len(found.jobs) == 4
    check_move(found, now, 4)
