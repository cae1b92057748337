"""Suspect nodes: used where no other one fits, which the answer says; balancing never uses them."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any, Final

import orjson
import pytest
from ask import outcome, steward
from clusters import KINDS, MOVING, cluster
from thorough import seeds

from ganeti_steward.allocators.moves.leave_node import Leaving, leave_node
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.dispatch import dispatch
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.explanation import Explanation
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance

Message = dict[str, Any]

WHY: Final = "reports suspect: smart:S1: more than 0 pending sectors (and 2 more)"


def suspected(message: Message, names: set[str], why: str = WHY) -> Message:
    """The same cluster with suspect nodes."""
    changed = deepcopy(message)
    for name in names:
        changed["nodes"][name]["suspect"] = why
    return changed


def drained(message: Message, names: set[str]) -> Message:
    """The same cluster, where nothing may be placed on these nodes."""
    changed = deepcopy(message)
    for name in names:
        changed["nodes"][name]["drained"] = True
    return changed


def some_nodes(message: Message, seed: int, share: float = 0.5) -> set[str]:
    chance = random.Random(f"suspects {seed}")
    return {name for name in message["nodes"] if chance.random() < share}


@pytest.mark.parametrize("seed", seeds(5, 60))
@pytest.mark.parametrize("kind", [*KINDS, "balance"])
def test_nothing_changes_without_them(kind: str, seed: int) -> None:
    message = cluster(seed, "all" if kind == "balance" else kind)
    if kind == "balance":
        message["request"] = {"type": "balance"}
    noted = suspected(message, {*message["nodes"]}, "")
    assert orjson.dumps(steward(noted)) == orjson.dumps(steward(message))


@pytest.mark.parametrize("seed", seeds(25, 250))
@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
def test_a_new_instance_avoids_them(kind: str, seed: int) -> None:
    """Among the nodes of the group that is chosen: its alloc_policy comes first."""
    message = cluster(seed, kind)
    suspects = some_nodes(message, seed)
    found = steward(suspected(message, suspects), "--no-capacity-checks")
    if not found["success"]:
        assert not steward(message, "--no-capacity-checks")["success"]
        return
    group = message["nodes"][found["result"][0]]["group"]
    other = deepcopy(message)
    other["request"]["restrict-to-nodes"] = [n for n in message["nodes"] if n not in suspects]
    other["request"]["group_name"] = group
    if steward(other, "--no-capacity-checks")["success"]:
        assert suspects.isdisjoint(found["result"]), found["info"]
    usable = {
        name
        for name in suspects
        if not (message["nodes"][name]["offline"] or message["nodes"][name]["drained"])
        and message["nodes"][name]["vm_capable"]
    }
    assert ("used last: " in found["info"]) == bool(usable)


@pytest.mark.parametrize("seed", seeds(10, 80))
def test_a_batch_avoids_them(seed: int) -> None:
    message = cluster(seed, "multi-allocate", "--groups=1")
    suspects = some_nodes(message, seed, 0.3)
    found = steward(suspected(message, suspects), "--no-capacity-checks")
    without = steward(drained(message, suspects), "--no-capacity-checks")
    if without["success"] and not without["result"][1]:
        used = {node for _, nodes in found["result"][0] for node in nodes}
        assert suspects.isdisjoint(used), found["info"]


@pytest.mark.parametrize("seed", seeds(25, 250))
@pytest.mark.parametrize("kind", ["relocate", "allocate-secondary"])
def test_a_new_node_of_an_instance_is_another_one(kind: str, seed: int) -> None:
    message = cluster(seed, kind)
    own = {*message["instances"][message["request"]["name"]]["nodes"]}
    suspects = some_nodes(message, seed) - own
    found = steward(suspected(message, suspects), "--no-capacity-checks")
    without = steward(drained(message, suspects), "--no-capacity-checks")
    if without["success"]:
        chosen = {*found["result"]} if kind == "relocate" else {found["result"]}
        assert suspects.isdisjoint(chosen), found["info"]
    assert found["success"] == steward(message, "--no-capacity-checks")["success"]


def copies(answer: Message) -> int:
    operations = [one for job in answer["result"][2] for one in job]
    return sum(one["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS" for one in operations)


@pytest.mark.parametrize("seed", seeds(20, 200))
@pytest.mark.parametrize("kind", MOVING)
def test_an_instance_that_leaves_avoids_them(kind: str, seed: int) -> None:
    """Where no more copies and no less preferred group are needed for that."""
    message = cluster(seed, kind)
    message["request"]["instances"] = message["request"]["instances"][:1]
    (name,) = message["request"]["instances"]
    suspects = some_nodes(message, seed) - {*message["instances"][name]["nodes"]}
    found = steward(suspected(message, suspects), "--no-capacity-checks")
    without = steward(drained(message, suspects), "--no-capacity-checks")
    moved, other = found["result"][0], without["result"][0]
    assert len(moved) >= len(other)
    if other and copies(found) == copies(without) and moved[0][1] == other[0][1]:
        assert suspects.isdisjoint(moved[0][2]), found["info"]


@pytest.mark.parametrize("seed", seeds(8, 80))
def test_a_node_is_left_for_others(seed: int) -> None:
    """As the daemon empties a node for a planned maintenance."""
    message = cluster(seed, "all", "--groups=1", "--mix=drbd=1")
    homes = {one["nodes"][0] for one in message["instances"].values()}
    node = min(homes)
    name = min(n for n, one in message["instances"].items() if one["nodes"][0] == node)
    own = {*message["instances"][name]["nodes"]}
    suspects = some_nodes(message, seed) - own
    leaving = Leaving(node, [name], {}, frozenset(), 1)
    context = Context(Options(capacity_checks=False))

    def used(given: Message) -> set[str]:
        read, _ = read_message(orjson.dumps(given))
        return {one for move in leave_node(leaving, read, context).moves for one in move.nodes}

    if used(drained(message, suspects)):
        assert suspects.isdisjoint(used(suspected(message, suspects)))


@pytest.mark.parametrize("only_repairs", [False, True])
@pytest.mark.parametrize("seed", seeds(6, 60))
def test_balancing_moves_nothing_to_them(seed: int, *, only_repairs: bool) -> None:
    message = cluster(seed, "all", "--per-node=4", nodes=6)
    suspects = some_nodes(message, seed, 0.4)
    read, _ = read_message(orjson.dumps(suspected(message, suspects)))
    request = Balance(only_repairs=only_repairs)
    found = dispatch(request, read, Config(), Options(), explain=False)
    assert isinstance(found, Answer)
    answer: Any = found.result
    at = {name: tuple(one["nodes"]) for name, one in message["instances"].items()}
    moved = {
        node
        for name, _, nodes in answer[0]
        for node in {*nodes[:1]} - {*at[name][:1]} | {*nodes} - {*at[name]}
    }
    assert suspects.isdisjoint(moved)
    note = "nothing is moved to suspect nodes: "
    down = ("offline", "drained")
    usable = {
        name
        for name in suspects
        if message["nodes"][name]["vm_capable"] and not any(map(message["nodes"][name].get, down))
    }
    assert (note in found.info) == bool(usable)
    operations = [one for job in answer[2] for one in job]
    new = {one[key] for one in operations for key in ("remote_node", "target_node") if one.get(key)}
    assert suspects.isdisjoint(new)


def test_the_note_names_node_and_reason() -> None:
    message = cluster(3, "allocate-one", "--groups=1", "--mix=drbd=1")
    (best,) = steward(message)["result"]
    noted = suspected(message, {best})
    answer = steward(noted)
    assert answer["result"] != [best]
    assert answer["info"].endswith(f" (used last: {best}, which {WHY})")
    (explained,) = outcome(noted, explain=True).explanations
    assert isinstance(explained, Explanation)
    assert explained.notes == (f"used last: {best}, which {WHY}",)
    everywhere = suspected(message, {*message["nodes"]})
    assert steward(everywhere)["result"] == [best]


def test_it_is_used_where_nothing_else_fits() -> None:
    message = cluster(3, "allocate-one", "--groups=1", "--mix=drbd=1")
    (best,) = steward(message)["result"]
    message["request"]["restrict-to-nodes"] = [best]
    assert steward(suspected(message, {best}))["result"] == [best]


@pytest.mark.parametrize("seed", seeds(10, 100))
@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
def test_exclusive_storage(kind: str, seed: int) -> None:
    """There the score does not decide."""
    message = cluster(seed, kind, "--exclusive-storage", "--groups=1", "--mix=plain=1")
    suspects = some_nodes(message, seed)
    found = steward(suspected(message, suspects), "--no-capacity-checks")
    other = deepcopy(message)
    other["request"]["restrict-to-nodes"] = [n for n in message["nodes"] if n not in suspects]
    if steward(other, "--no-capacity-checks")["success"]:
        assert suspects.isdisjoint(found["result"]), found["info"]
