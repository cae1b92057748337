"""The capacity test on very large clusters: its arrays do not grow with the square of the nodes."""

from __future__ import annotations

import tracemalloc
from functools import cache

import numpy as np
import orjson
import pytest
from clusters import generate

from ganeti_steward.allocators.score import global_n1
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.quantity import UNALLOCATED
from ganeti_steward.allocators.state.state import State
from ganeti_steward.core.iallocator.message import read_message


@cache
def large(nodes: int, *options: str) -> State:
    """A cluster with instances that have no secondary on every node."""
    given = (f"--nodes={nodes}", "--per-node=2", "--mix=ext=2,plain=1", "--seed=5", *options)
    message = generate(*given)
    cluster, _ = read_message(orjson.dumps(message))
    return load(cluster, "plain", 4096)


def with_less_memory(state: State, divisor: int) -> State:
    now = state.now.copy()
    now[UNALLOCATED] //= divisor
    return state._replace(now=now)


@pytest.mark.parametrize("divisor", [1, 1000])
def test_the_peak_is_less_than_one_array_of_all_nodes_by_all_nodes(divisor: int) -> None:
    state = with_less_memory(large(1000), divisor)
    size = state.frame.size
    test = CapacityTest(state, np.ones(size, np.bool_))
    tracemalloc.start()
    try:
        test._uncertain(state, (0,))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size * size * np.dtype(np.int64).itemsize


@pytest.mark.parametrize(("block", "roomy"), [(1, 60), (7, 60), (10_000, 1), (3, 10), (10, 3)])
@pytest.mark.parametrize("groups", [1, 10])
def test_the_result_does_not_depend_on_the_blocks(
    groups: int, block: int, roomy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A hundredth of the free memory is too little for some nodes' instances and enough for others'.
    whole = large(60, f"--groups={groups}", "--mix=ext=2,plain=1,drbd=2")
    state = with_less_memory(whole, 100 // groups)
    every = tuple(range(state.frame.size))
    found = CapacityTest(state, np.ones(state.frame.size, np.bool_))._uncertain(state, every)
    assert 0 < found.sum() < state.frame.size
    monkeypatch.setattr(global_n1, "_BLOCK", block)
    monkeypatch.setattr(global_n1, "_ROOMY", roomy)
    again = CapacityTest(state, np.ones(state.frame.size, np.bool_))._uncertain(state, every)
    assert np.array_equal(found, again)
