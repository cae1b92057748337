"""Which tests a part of a tier runs (``--part``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from thorough import THOROUGH, TIER

if TYPE_CHECKING:
    import pytest

#: What ``contrib/test --write-slow`` writes: a line for each test, seconds and node id.
SLOW: Final = Path(__file__).resolve().parents[2] / "slow.txt"

#: ``first``: tier 1.  ``slow``: what that leaves, without labs.  ``units``: both.  ``labs``: what
#: needs a cluster, without the smoke run, which is among the others.
PARTS: Final = ("first", "slow", "units", "labs")


def slow_tests(file: Path = SLOW) -> frozenset[str]:
    """Node ids of slow cases, and of functions of which all cases are slow."""
    lines = file.read_text().splitlines() if file.exists() else []
    return frozenset(line.split(None, 1)[1] for line in lines if not line.startswith("#"))


def chosen(items: list[pytest.Item], part: str | None) -> list[pytest.Item]:
    """The tests that belong to a part; without one all that the tier runs."""
    slow = slow_tests()

    def in_part(item: pytest.Item) -> bool:
        marks = {mark.name for mark in item.iter_markers()}
        if "thorough" in marks and TIER != THOROUGH:
            return False
        in_lab = "lab" in marks and "smoke" not in marks
        if part is None or in_lab or part == "labs":
            return part is None or in_lab == (part == "labs")
        later = "full" in marks or not slow.isdisjoint({item.nodeid, item.nodeid.split("[")[0]})
        return part == "units" or later == (part == "slow")

    return [item for item in items if in_part(item)]
