"""How long rounds take: nodes side by side, few instances of a node at a time."""

from __future__ import annotations

from ganeti_steward.allocators.rolling.pace import Pace, seconds_of
from ganeti_steward.allocators.rolling.roll import Leave, Round

PACE = Pace(
    copied_per_second=10, migrated_per_second=100, failover_seconds=5, set_up_seconds=0, at_once=2
)


def leave(how: str, source: str, memory: int, copied: int = 0) -> Leave:
    return Leave(f"{how} {memory}", how, source, "", memory, copied)


def seconds(*leaves: Leave, returns: bool = False) -> float:
    return seconds_of(Round(("n1", "n2"), leaves, (), ()), PACE, returns=returns)


def test_each_way_to_leave() -> None:
    assert seconds() == 0
    assert seconds(leave("migrate", "n1", 400)) == 4
    assert seconds(leave("migrate", "n1", 400), returns=True) == 8
    assert seconds(leave("shutdown", "n1", 400)) == 5
    assert seconds(leave("move", "n1", 400, 100)) == 15


def test_nodes_are_emptied_side_by_side() -> None:
    assert seconds(leave("migrate", "n1", 400), leave("migrate", "n2", 600)) == 6


def test_some_of_a_node_move_at_the_same_time() -> None:
    same = [leave("migrate", "n1", 400)] * 4
    assert seconds(*same) == 8
    assert seconds(*same, leave("migrate", "n1", 2000)) == 20
