"""The capacity test: what is known of a node at once equals what moving each instance shows."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import orjson
import pytest
from asserting import some
from clusters import Message, cluster, generate
from thorough import seeds

from ganeti_steward.allocators.score import emptying
from ganeti_steward.allocators.score.emptying import Stuck, all_leave, evacuate
from ganeti_steward.allocators.score.few_nodes import FewNodes, is_for
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.arrays import Ints, Mask
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.state import State
from ganeti_steward.core.iallocator.message import read_message

KVM = 4096
#: Instances that need memory only, alone and with others beside them.
MIXES = ("ext=1", "ext=2,sharedfile=1", "drbd=2,ext=3", "ext=4,plain=1", "drbd=3,ext=1")
FEATURES = (
    (),
    ("--migration-tags",),
    ("--missing-mem=2000", "--offline=1"),
    ("--down=.3", "--drained=1"),
)
SEEDS = seeds(60, 600)


def _state(message: Message) -> State:
    snapshot, _ = read_message(orjson.dumps(message))
    return load(snapshot, "drbd", KVM)


@cache
def _full(seed: int) -> State:
    """Copies of instances take what is free, up to about what the fullest node needs elsewhere."""
    rng = random.Random(seed)
    state = _state(
        generate(
            f"--nodes={rng.choice([3, 4, 6])}",
            f"--per-node={rng.choice([2, 4, 8])}",
            f"--mix={MIXES[seed % len(MIXES)]}",
            "--fill=.4",
            f"--seed={seed}",
            *rng.choice(FEATURES),
        )
    )
    demands = [one.demand for every in state.residents.values() for one in every]
    demands = [demand for demand in demands if not demand.drbd and demand.use]
    left = rng.choice([0.8, 1.0, 1.2, 1.5])
    while demands and state.now[quantity.UNALLOCATED].sum() > left * _fullest(state):
        node = int(state.now[quantity.UNALLOCATED].argmax())
        state = state.placed(rng.choice(demands), node)
    return state


def _fullest(state: State) -> int:
    """MiB of memory of the instances of one node, the most of all."""
    return max(sum(one.demand.use for one in every) for every in state.residents.values())


def _step_by_step(state: State, node: int) -> frozenset[Stuck]:
    """What is stuck where the rules check every step, also those that are certain to pass."""

    def uncertain(at: State) -> tuple[Ints, Ints, Mask]:
        secondary, primary, good = pairs(at)
        return secondary, primary, np.zeros_like(good)

    pairs = emptying.failover_pairs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emptying, "failover_pairs", uncertain)
        patch.setattr(emptying, "_all_fit", lambda sizes: False)
        return evacuate(state, node)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_certain_is_so_step_by_step(seed: int) -> None:
    state = _full(seed)
    for node in some(range(state.frame.size)):
        stuck = _step_by_step(state, node)
        assert evacuate(state, node) == stuck
        assert all_leave(state, node) in (None, not stuck)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_few_nodes_are_chosen_as_with_arrays(seed: int) -> None:
    """Instance by instance, where all are moved, also those that are certain to find a place."""
    state = _full(seed)
    for node in some(state.residents):
        _check_choices(state, node)


def test_of_equal_nodes_the_last_is_chosen() -> None:
    state = _equal_nodes(5)
    demand = state.residents[0][0].demand
    for resident in [one for residents in state.residents.values() for one in residents]:
        state = state.removed(resident)
    for _ in range(6):
        state = state.placed(demand, 1)
    assert _check_choices(state, 1)[:4] == [4, 3, 2, 0]


def _check_choices(state: State, node: int) -> list[int | None]:
    """Where the instances go, which is where arrays have them go."""
    residents = state.residents[node]
    moving = [one for one in residents if one.demand.instance.template in emptying.MOVABLE]
    demands, work = [one.demand for one in moving], state
    assert is_for(state, node, demands)
    nodes, chosen = FewNodes(state, node, emptying._targets(state, node), demands), []
    for at, resident in enumerate(moving):
        moved = emptying._moved(work, resident)
        chosen.append(nodes.move(at))
        assert chosen[-1] == _new_primary(work, moved, node)
        work = moved or work
    return chosen


def _new_primary(before: State, after: State | None, source: int) -> int | None:
    if after is None:
        return None
    more = np.flatnonzero(after.now[quantity.PRIMARIES] > before.now[quantity.PRIMARIES])
    (target,) = more.tolist()
    assert after.now[quantity.PRIMARIES, source] == before.now[quantity.PRIMARIES, source] - 1
    return int(target)


def test_what_is_certain_is_seldom_unknown() -> None:
    found = [
        all_leave(_full(seed), node)
        for seed in range(60)
        for node in range(_full(seed).frame.size)
        if MIXES[seed % len(MIXES)].startswith("ext=") and "plain" not in MIXES[seed % len(MIXES)]
    ]
    assert found.count(True) > 20
    assert found.count(False) > 20
    assert found.count(None) < len(found) / 4


def test_a_stopped_instance_has_no_place_where_memory_is_overdrawn() -> None:
    """It takes none, but a node without any left takes no instance."""
    state = _equal_nodes(2)
    stopped = state.residents[0][0].demand._replace(use=0)
    for resident in state.residents[0]:
        state = state.removed(resident)
    state = state.placed(stopped, 0)
    assert all_leave(state, 0) is True
    more = state.residents[1][0].demand
    while state.now[quantity.UNALLOCATED, 1] > 0:
        state = state.placed(more, 1)
    assert not all_leave(state, 0)
    assert evacuate(state, 0)


def _equal_nodes(number: int) -> State:
    return _state(generate(f"--nodes={number}", "--mix=ext=1", "--hetero=0", "--seed=1"))


@pytest.mark.parametrize(
    "options",
    [
        ["--excl-tags=1"],
        ["--location-tags", "--desired-location=1"],
        ["--exclusive-storage"],
        ["--nodes=41"],
    ],
)
def test_what_a_few_nodes_do_not_count(options: list[str]) -> None:
    state = _state(generate("--nodes=4", "--mix=ext=1", "--seed=1", *options))
    residents = state.residents[0]
    assert not is_for(state, 0, [one.demand for one in residents])


def test_equal_instances_are_always_certain() -> None:
    """All that counts then is how many fit on each node, however they are placed."""
    state = _equal_nodes(3)
    demand = state.residents[0][0].demand
    for resident in [one for residents in state.residents.values() for one in residents]:
        state = state.removed(resident)
    verdicts = []
    for copies in range(1, int(state.now[quantity.UNALLOCATED].min()) // demand.use):
        for node in range(3):
            state = state.placed(demand, node)
        fitting = (state.now[quantity.UNALLOCATED, 1:] - 1) // demand.use
        verdicts.append(all_leave(state, 0))
        assert verdicts[-1] == (copies <= fitting.sum())
    assert set(verdicts) == {True, False}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_is_worse_where_something_is_newly_stuck(seed: int) -> None:
    """And one that was tested before is known again, with all that is stuck there."""
    before = _full(seed)
    everywhere = np.ones(before.frame.size, np.bool_)
    test = CapacityTest(before, everywhere)
    demands = {node: residents[0].demand for node, residents in before.residents.items()}
    for node, demand in some(demands.items()):
        for target in range(0 if demand.drbd else before.frame.size):
            after = before.placed(demand, target)
            stuck = CapacityTest(before, everywhere).newly_stuck(after, (target,))
            assert test.is_worse(after, (target,)) == bool(stuck), (node, target)
            assert test.newly_stuck(after, (target,)) == stuck


@pytest.mark.parametrize("seed", seeds(30, 60))
def test_nodes_taken_as_certain_can_really_be_emptied(seed: int) -> None:
    kind = ("allocate-one", "allocate-pair")[seed % 2]
    state = _state(cluster(seed, kind, "--vm-incapable=0"))
    _empty_the_certain(state)


@pytest.mark.parametrize("seed", seeds(60, 400))
def test_nodes_with_few_spindles_taken_as_certain_can_really_be_emptied(seed: int) -> None:
    """Up to about what one node needs elsewhere; some share theirs, some have lost their disks."""
    rng = random.Random(seed)
    unknown = rng.choice([0, 0, 0.03, 0.3])
    message = generate(
        f"--nodes={rng.choice([3, 4, 6])}",
        f"--per-node={rng.choice([2, 4])}",
        f"--mix={rng.choice(['plain=1', 'drbd=1', 'drbd=2,plain=2,ext=1'])}",
        f"--offline={rng.choice([0, 0, 1])}",
        "--exclusive-storage",
        "--fill=.3",
        f"--seed={seed}",
    )
    for node in message["nodes"].values():
        if node["offline"]:
            continue
        node["free_spindles"] = rng.choice([-1, 0, 1, 3, 6, 40])
        if rng.random() < 0.1:
            node["ndparams"]["exclusive_storage"] = False
        if rng.random() < 0.1:
            node |= {"free_disk": None, "total_disk": None}
    if seed % 2:
        # A policy without limits does not ask for the spindles of disks.
        message["nodegroups"]["uuid-group-00"]["ipolicy"]["minmax"] = []
    for instance in message["instances"].values():
        for disk in instance["disks"]:
            disk["spindles"] = rng.choice([0, 1, 2, 3]) if rng.random() >= unknown else None
    state = _state(message)
    _empty_the_certain(state)
    for node in some(range(state.frame.size)):
        stuck = _step_by_step(state, node)
        assert evacuate(state, node) == stuck
        assert all_leave(state, node) in (None, not stuck)


@pytest.mark.parametrize("seed", range(20))
def test_full_nodes_taken_as_certain_can_really_be_emptied(seed: int) -> None:
    """Where drbd instances that fail over leave little to the others."""
    message = generate(
        "--nodes=3", "--per-node=12", "--mix=drbd=3,ext=1", "--fill=.95", f"--seed={seed}"
    )
    _empty_the_certain(_state(message))


def _empty_the_certain(state: State) -> None:
    test = CapacityTest(state, np.ones(state.frame.size, np.bool_))
    no_changes = tuple(range(state.frame.size))
    unsure = test._uncertain(state, no_changes)
    assert unsure.shape == (state.frame.size,)
    for node in np.flatnonzero(~unsure).tolist():
        assert not _step_by_step(state, node)


def test_a_full_node_is_not_taken_as_certain() -> None:
    message = generate("--nodes=4", "--mix=plain=1", "--fill=.95", "--per-node=30", "--seed=3")
    state = _state(message)
    test = CapacityTest(state, np.ones(4, np.bool_))
    stuck = [bool(evacuate(state, node)) for node in range(4)]
    assert any(stuck)
    assert (test._uncertain(state, (0, 1, 2, 3)) | ~np.array(stuck)).all()
