"""What fits exactly, and what does not by one MiB, of rules for a place."""

from __future__ import annotations

import pytest
from messages import answer, message, put, wanted


@pytest.mark.parametrize(("memory", "success"), [(1023, True), (1024, False)])
def test_a_secondary_has_one_mib_to_spare(memory: int, success: bool) -> None:
    """Also one that fails N+1 before."""
    tree = put(message(), "nodes/n2.test/free_memory", 1024)
    put(tree, "instances/d1.test/memory", 4096)
    tree["request"] = {"type": "allocate", **wanted("new.test", "drbd"), "memory": memory}
    tree["request"]["restrict-to-nodes"] = ["n2.test", "n3.test"]
    found = answer(tree, "--no-capacity-checks")
    assert found["success"] is success, found["info"]
    assert sorted(found["result"]) == (["n2.test", "n3.test"] if success else [])


@pytest.mark.parametrize(("ratio", "success"), [(0.0, False), (-1.0, True), (4.0, True)])
def test_only_a_negative_vcpu_ratio_switches_the_rule_off(ratio: float, success: bool) -> None:
    tree = put(message(), "nodegroups/uuid-g/ipolicy/vcpu-ratio", ratio)
    found = answer(tree, "--no-capacity-checks")
    assert found["success"] is success, found["info"]
