"""In every cluster all moves off a node are legal, and each instance that stays has its reason."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import often
from worlds import after, instance, node, world

from ganeti_steward.allocators.moves.leave_node import Leaving, NodeMoves, leave_node
from ganeti_steward.core.model.cluster import Instance, Node
from ganeti_steward.core.model.context import Context
from ganeti_steward.plugins.model.world import World

_ROLES = st.sampled_from(({}, {}, {}, {}, {"drained": True}, {"offline": True}))


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    gone = draw(st.sampled_from(({"drained": True}, {"offline": True})))
    others = [
        node(f"n{i}", memory=draw(st.integers(2, 8)) * 1024, disk=2**16, **draw(_ROLES))
        for i in range(2, draw(st.integers(2, 6)) + 1)
    ]
    return [node("n1", memory=2**16, **gone), *others]


@st.composite
def instances(draw: st.DrawFn, names: list[str]) -> list[Instance]:
    def one(number: int) -> Instance:
        first, second, *_ = draw(st.permutations(names))
        sizes: Any = {
            "memory": draw(st.integers(1, 6)) * 512,
            "disk": draw(st.integers(1, 20)) * 1024,
        }
        if draw(st.integers(0, 4)) == 0:
            return instance(f"i{number}", first, template="ext", **sizes)
        return instance(f"i{number}", first, second, **sizes)

    return [one(number) for number in range(draw(st.integers(0, 8)))]


@st.composite
def requests(draw: st.DrawFn) -> tuple[World, Leaving]:
    made = draw(nodes())
    names = [one.name for one in made]
    some = st.frozensets(st.sampled_from(names[1:]), max_size=2)
    now = world(made, draw(instances(names)))
    ill = dict.fromkeys(draw(some), "reports evacuate")
    last = {one: draw(some) for one in now.instances if draw(st.booleans())}
    reserved, passing = draw(some), draw(some)
    most = draw(st.integers(1, 4))
    return now, Leaving("n1", (), ill, reserved, most, last, passing, frozenset(ill) - passing)


def check_moves(found: NodeMoves, now: World, leaving: Leaving) -> None:
    """Of all moves at the same time; the figures afterwards are those of a new snapshot."""
    assert len(found.moves) <= leaving.most
    assert len({one.keeps_copy for one in found.moves}) == 1
    assert not any((found.blocked, found.impossible, found.stays))
    then = after(now, [one.job for one in found.moves])
    unusable = {one.name for one in now.cluster.nodes if not one.usable}
    seen: set[str] = set()
    for move in found.moves:
        before, place = now.instances[move.instance.name].nodes, move_place(then, move.instance)
        assert seen.isdisjoint(move.nodes - {"n1"})
        assert (move.nodes - {"n1"}).isdisjoint(leaving.reserved)
        seen |= move.nodes - {"n1"}
        assert {*before, *place} <= move.nodes
        if move.keeps_copy:
            assert (before[0], place) == ("n1", before[::-1])
            assert [one["OP_ID"] for one in move.job] == ["OP_INSTANCE_MIGRATE"]
        else:
            assert "n1" not in place
        changed = {*place} - {*before} | {place[0]} - {before[0]}
        assert changed.isdisjoint(leaving.unused | unusable)
        for name in changed:
            at = now.cluster.node_index[name]
            was, figures = now.cluster.nodes[at], then.cluster.nodes[at]
            # Worlds may have too much on a node from the start.
            assert figures.free_disk >= min(0, was.free_disk)
            assert name != place[0] or figures.free_memory > 0


def move_place(then: World, moved: Any) -> tuple[str, ...]:
    return then.instances[moved.name].nodes


def check_reasons(found: NodeMoves, now: World, leaving: Leaving) -> None:
    named = [name for part in (found.blocked, found.impossible, found.stays) for name, _ in part]
    assert sorted(named) == sorted(leaving.instances)
    assert all(
        reason for part in (found.blocked, found.impossible, found.stays) for _, reason in part
    )
    assert not found.blocked or leaving.reserved | leaving.passing
    live = {one.name for one in now.cluster.nodes if one.live}
    for name, _ in found.stays:
        assert now.instances[name].nodes[1] == "n1"
        assert now.instances[name].primary in live
    for name, reason in found.stays:
        assert ("has no third node" in reason) == (name in found.copies_impossible)
    assert found.after.one_copy == tuple(sorted(found.after.one_copy))


@settings(max_examples=often(80, 4000))
@given(requests())
def test_every_history(given: tuple[World, Leaving]) -> None:
    now, leaving = given
    kept: set[str] = set()
    for _ in range(2 * len(now.instances) + 2):
        names = [one.name for one in now.instances_on("n1")]
        found = leave_node(leaving._replace(instances=names), now.cluster, Context())
        assert found.copies_impossible <= set(names)
        if not found.moves:
            check_reasons(found, now, leaving._replace(instances=names))
            if not (leaving.reserved or leaving.passing):
                break
            leaving = leaving.later
            continue
        check_moves(found, now, leaving)
        done = {one.instance.name for one in found.moves if one.keeps_copy}
        assert done.isdisjoint(kept)
        kept |= done
        now = after(now, [one.job for one in found.moves])
    else:
        raise AssertionError("it did not end")
