"""How far the repair of an incident is."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import NOW, incident

from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Maintenance, Submission
from ganeti_steward.plugins.model.progress import Emptied, Home, emptied, empties, progress


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
