"""``balance --only-repairs``: what is wrong ends where that is possible, and nothing else moves."""

from __future__ import annotations

import itertools
import random
from copy import deepcopy
from typing import Any

import orjson
import pytest
from clusters import cluster as cluster_of
from messages import message as small
from spreading import Primaries, Rule, crowds, spread_out, worse
from thorough import seeds

from ganeti_steward.allocators.balancing.planning.balance import balance
from ganeti_steward.allocators.score.cluster_score import state_after
from ganeti_steward.allocators.score.score import FAULTS, Scorer
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.state import State
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.explanation import GroupBalance
from ganeti_steward.core.model.requests import Balance

Message = dict[str, Any]

#: The tags of the cluster, and what they say.
RULES = (
    ("steward:spread:rack+service:*", Rule("rack:", "service:*", 1, False)),
    ("steward:spread:rack:hard+service:*", Rule("rack:", "service:*", 1, True)),
    ("steward:spread:rack:max:2+service:*", Rule("rack:", "service:*", 2, False)),
    ("steward:spread:power:hard:max:2+service:*", Rule("power:", "service:*", 2, True)),
)


def few(seed: int) -> tuple[Message, list[Rule]]:
    """Few nodes and instances, so that all places of all instances can be tried."""
    rng = random.Random(seed)
    message = small()
    one = next(iter(message["nodes"].values()))
    template = next(iter(message["instances"].values()))
    racks = rng.choice([2, 3])
    room = rng.choice([2, 3])  # instances on one node
    names = [f"node{at}.example.com" for at in range(rng.choice([3, 4, 5]))]
    message["nodes"] = {
        name: {
            **deepcopy(one),
            "tags": [f"rack:{at % racks}", f"power:{rng.choice('ab')}"],
            "total_memory": 1024 * (room + 1),
            "free_memory": 1024 * (room + 1),
        }
        for at, name in enumerate(names)
    }
    number = rng.randint(3, min(6, (len(names) - 1) * room))
    message["instances"] = {}
    for at in range(number):
        home = rng.choice([n for n in names if message["nodes"][n]["free_memory"] > 1024])
        message["nodes"][home]["free_memory"] -= 1000
        instance = message["instances"][f"i{at}.example.com"] = deepcopy(template)
        instance |= {"disk_template": "ext", "nodes": [home], "memory": 1000, "vcpus": 1}
        instance |= {"tags": [f"service:{rng.choice('xxy')}"], "disks": [], "disk_space_total": 0}
    for node in message["nodes"].values():
        node["i_pri_memory"] = node["i_pri_up_memory"] = 0
    chosen = rng.sample(RULES, rng.choice([1, 2]))
    message["cluster_tags"] = [tag for tag, _ in chosen]
    message["request"] = {"type": "balance"}
    return message, [rule for _, rule in chosen]


def wrong(message: Message, rules: list[Rule], primaries: Primaries) -> int:
    """How many instances too many all places have."""
    tags = {name: one["tags"] for name, one in message["instances"].items()}
    return sum(
        max(number - rule.most, 0)
        for rule in rules
        for number in crowds(message, rule, tags, primaries).values()
    )


def planned(message: Message) -> tuple[Primaries, list[GroupBalance], Message]:
    """Where all primaries are when the plan is done."""
    cluster, _ = read_message(orjson.dumps(message))
    outcome: Any = balance(Balance(only_repairs=True), cluster, Context(explain=True))
    primaries = {name: one["nodes"][0] for name, one in message["instances"].items()}
    primaries |= {name: nodes[0] for name, _, nodes in outcome.result[0]}
    answer = {"success": True, "result": outcome.result}
    return primaries, list(outcome.explanations), answer


@pytest.mark.parametrize("seed", seeds(40, 200))
def test_nothing_is_left_where_nothing_need_be(seed: int) -> None:
    """Judged by trying all places of all instances."""
    message, rules = few(seed)
    names, nodes = list(message["instances"]), list(message["nodes"])
    taken = dict.fromkeys(nodes, 0)
    for one in message["instances"].values():
        taken[one["nodes"][0]] += 1
    room = {n: taken[n] + (message["nodes"][n]["free_memory"] - 1) // 1000 for n in nodes}
    least = min(
        wrong(message, rules, dict(zip(names, places, strict=True)))
        for places in itertools.product(nodes, repeat=len(names))
        if all(places.count(node) <= room[node] for node in nodes)
    )
    primaries, _, answer = planned(message)
    assert worse(message, rules, answer) == []
    if least == 0:
        assert wrong(message, rules, primaries) == 0


def faults(state: State) -> float:
    """What is wrong with all node groups, as the score weighs it."""
    groups = range(len(state.frame.cluster.groups))
    found = [Scorer(state, state.frame.group == group).components() for group in groups]
    return sum(one.get(name, 0.0) for one in found for name in FAULTS)


Moved = list[tuple[str, str, list[str]]]


def after(state: State, moved: Moved) -> State:
    """The state with the moves of a plan."""
    cluster = state.frame.cluster
    return state_after(state, [(cluster.instance(name), nodes) for name, _, nodes in moved])


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_no_more_is_left_than_by_balancing_and_nothing_moves_without_need(seed: int) -> None:
    message = cluster_of(seed, "all", nodes=6)
    if seed % 2:
        message, _ = spread_out(message, seed)
    message["request"] = {"type": "balance"}
    cluster, _ = read_message(orjson.dumps(message))
    state = load(cluster, None, 0)
    outcomes: list[Any] = [
        balance(request, cluster, Context()) for request in (Balance(only_repairs=True), Balance())
    ]
    repairs, evened = (outcome.result[0] for outcome in outcomes)
    left = faults(after(state, repairs))
    assert left <= faults(after(state, evened)) + 1e-6
    # One that ends nothing itself may make room for others.
    others = [[other for other in repairs if other is not one] for one in repairs]
    needless = [moves for moves in others if faults(after(state, moves)) <= left + 0.5]
    assert len(needless) <= 3


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_copies_are_rare_where_migrations_do(seed: int) -> None:
    """A plan without any may leave as little: then at most two are made."""
    message, _ = spread_out(cluster_of(seed, "all", "--mix=drbd=1", nodes=6), seed)
    message["request"] = {"type": "balance"}
    cluster, _ = read_message(orjson.dumps(message))
    state, left, copies = load(cluster, None, 0), [], []
    for disk_moves in (False, True):
        request = Balance(only_repairs=True, disk_moves=disk_moves)
        outcome: Any = balance(request, cluster, Context())
        left.append(faults(after(state, outcome.result[0])))
        operations = [one["OP_ID"] for job in outcome.result[2] for one in job]
        copies.append(operations.count("OP_INSTANCE_REPLACE_DISKS"))
    assert copies[0] == 0
    assert left[1] <= left[0]
    assert left[1] < left[0] or copies[1] <= 2


def test_an_even_plan_is_not_made() -> None:
    """A group that is uneven and has no fault."""
    message, _ = few(1)
    message["cluster_tags"] = []
    home = next(iter(message["nodes"]))
    for one in message["instances"].values():
        one["nodes"] = [home]
    message["nodes"][home]["total_memory"] = message["nodes"][home]["free_memory"] = 10**6
    cluster, _ = read_message(orjson.dumps(message))
    moves: Any = balance(Balance(), cluster, Context())
    assert moves.result[0]
    moves = balance(Balance(only_repairs=True), cluster, Context())
    assert moves.result[0] == []
