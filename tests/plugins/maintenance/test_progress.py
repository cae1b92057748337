"""How far the repair of an incident is."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import NOW, incident, instance

from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Submission
from ganeti_steward.plugins.model.progress import Emptied, empties, progress, still_there


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
    instances = [instance("a", "n1", "n2"), instance("b", "n2", "n1"), instance("c", "n2", "n3")]
    evacuated = with_open()
    assert still_there(evacuated, instances) == 2
    assert still_there(evacuated._replace(action=MAINTENANCE), instances) == 1
    assert empties(evacuated)
    assert not empties(evacuated._replace(status="noted"))
    assert not empties(evacuated._replace(action="live-repair"))
