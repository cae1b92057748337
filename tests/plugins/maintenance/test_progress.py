"""How far the repair of an incident is."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import NOW, incident

from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Maintenance, Submission
from ganeti_steward.plugins.model.progress import (
    Emptied,
    Home,
    RollProgress,
    emptied,
    empties,
    progress,
    rolls,
)


def with_open(*submissions: Submission) -> Incident:
    return incident("n1", status="pending", open=submissions)


def moving(*names: str, **more: Any) -> Submission:
    return Submission("s", more.pop("step", "move"), ("n1", "n2"), names, NOW, **more)


@pytest.mark.parametrize(
    ("open_", "emptied", "expected"),
    [
        ((moving("i16"),), Emptied(3, 6), "3 of 6 moved, moving i16"),
        ((moving("i16"),), None, "moving i16"),
        ((), Emptied(6, 6), "6 to be moved"),
        ((), Emptied(0, 6), "6 of 6 moved"),
        ((), Emptied(0, 0), ""),
        ((), None, ""),
        ((moving("a", "b", "c", "d", "e"),), None, "moving a, b, c and 2 more"),
        ((moving(step="drain"),), None, "drain n1, n2"),
        ((moving(step="command", command="swap-psu"),), None, "running swap-psu"),
        ((moving("i1", step="start"), moving("i2")), None, "starting i1, moving i2"),
    ],
)
def test_progress(open_: tuple[Submission, ...], emptied: Emptied | None, expected: str) -> None:
    assert progress(with_open(*open_), emptied) == expected


def test_what_leaves_a_node() -> None:
    """For an evacuation copies leave as well, for a maintenance what runs there."""
    homes = [Home(("n1", "n2")), Home(("n2", "n1")), Home(("n2", "n3")), Home(("n1",), up=False)]
    evacuated = with_open()
    kept = evacuated._replace(action=MAINTENANCE, maintenance=Maintenance("move"))
    assert emptied(evacuated, homes) == Emptied(3, 3)
    assert emptied(kept, homes) == Emptied(1, 1)
    assert empties(evacuated)
    assert not empties(evacuated._replace(status="noted"))
    assert not empties(evacuated._replace(action="live-repair"))
    assert empties(kept)


@pytest.mark.parametrize("more", [{"ready": True}, {"begun": NOW}, {"worked": NOW}])
def test_nothing_leaves_a_node_that_is_empty(more: dict[str, Any]) -> None:
    """It is rebooted, or has come back: what has moved says nothing about that."""
    request = Maintenance("stop", ran=("a", "b"))._replace(**more)
    assert not empties(with_open()._replace(action=MAINTENANCE, maintenance=request))


def test_what_was_there_at_the_beginning() -> None:
    """As an earlier look found it; the record of a maintenance has it."""
    homes = [Home(("n1", "n2"))]
    ran = Maintenance("move", ran=("a", "b", "c"))
    kept = with_open()._replace(action=MAINTENANCE, maintenance=ran)
    assert emptied(with_open(), homes, Emptied(3, 4)) == Emptied(1, 4)
    assert emptied(kept, homes) == Emptied(1, 3)
    assert emptied(kept, homes, Emptied(2, 5)) == Emptied(1, 5)


def rolled(number: int, status: str = "noted", since: int = 0, **more: Any) -> Incident:
    """A node of a roll of seven; ``since``: s since its status changed."""
    request = Maintenance("stop", roll="r1", roll_nodes=7)._replace(**more)
    one = incident(f"n{number}", status=status, changed=NOW - since * 10**9, first_seen=number)
    return one._replace(uuid=f"u{number}", action=MAINTENANCE, maintenance=request)


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        # The first has 400 s left, the others follow one after the other.
        ([(1, "pending", 200), (2, "noted", 0), (3, "noted", 0)], RollProgress(7, 4, 0, 1600)),
        ([(1, "completed", 0), (2, "noted", 0)], RollProgress(7, 6, 0, 600)),
        # It takes longer than expected.
        ([(1, "pending", 700), (2, "noted", 0)], RollProgress(7, 5, 0, None)),
    ],
)
def test_a_roll(left: list[tuple[int, str, int]], expected: RollProgress) -> None:
    found = [rolled(number, status, since, expected=600) for number, status, since in left]
    assert rolls(found, NOW) == [expected]


def test_several_nodes_of_a_roll_at_once() -> None:
    """Of places for two, each node takes the one that is free first."""
    more = {"expected": 600, "at_once": 2}
    found = [rolled(1, "pending", 100, **more), rolled(2, "pending", 400, **more)]
    found += [rolled(3, **more), rolled(4, **more)]
    assert rolls(found, NOW) == [RollProgress(7, 3, 0, 1100)]


def test_nodes_of_a_roll_that_would_be_late() -> None:
    """They are left, and take no time."""
    late = {"expected": 600, "deadline": NOW + 60 * 10**9}
    first = rolled(1, "pending", 200, **late)
    assert rolls([rolled(2, **late), first], NOW) == [RollProgress(7, 5, 1, 400)]
    assert rolls([rolled(2, **late)], NOW) == [RollProgress(7, 6, 1, None)]


def test_a_roll_without_a_forecast() -> None:
    """Its time is not known; what has ended, or was requested alone, makes no roll."""
    assert rolls([rolled(2), rolled(1, "pending")], NOW) == [RollProgress(7, 5, 0, None)]
    assert rolls([rolled(1, "completed"), rolled(2, roll="")], NOW) == []
    both = [rolled(3, roll="r2", roll_nodes=1), rolled(1)]
    assert [one.nodes for one in rolls(both, NOW)] == [7, 1]
