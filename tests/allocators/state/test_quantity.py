"""The quantities of nodes at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from messages import answer, message

from ganeti_steward.allocators.state.quantity import times_with_rest


@pytest.mark.parametrize(("memory", "success"), [(15359, True), (15360, False)])
def test_one_mib_is_left_beyond_the_reserve(memory: int, success: bool) -> None:
    """n2 has 16384 MiB free and must be able to take over 1024 MiB (allocation 3.3)."""
    tree = message()
    tree["request"] |= {"memory": memory, "restrict-to-nodes": ["n2.test"]}
    assert answer(tree, "--no-capacity-checks")["success"] is success


def test_how_often_a_size_can_be_taken_with_one_left() -> None:
    free = np.array([-3, 0, 1, 2, 3, 4, 5])
    assert times_with_rest(free, 2).tolist() == [0, 0, 0, 0, 1, 1, 2]
