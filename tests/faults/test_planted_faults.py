"""The simulator finds faults that are planted in the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import planted_faults
import pytest
from planted_faults import CannotPlant, Change, PlantedFault, Result, changed, found_by, totals

FAULTS: Final = {one.name: one for one in planted_faults.planted_faults()}

#: Those that a few histories find.
QUICK: Final = ("brake-most-nodes", "record-after-submission", "same-submission-id")


def test_there_are_many() -> None:
    assert len(FAULTS) >= 40
    assert {*QUICK} <= {*FAULTS}


@pytest.mark.parametrize("name", FAULTS)
def test_applies(name: str) -> None:
    """The product has the text that it changes, and is Python after it."""
    fault = FAULTS[name]
    for file, text in changed(fault).items():
        compile(text, file, "exec")
    assert fault.breaks.endswith(".")


def test_no_two_are_the_same() -> None:
    assert len({one.changes for one in FAULTS.values()}) == len(FAULTS)


def test_a_text_that_is_missing_is_reported() -> None:
    fault = PlantedFault("one", "Nothing.", (Change("README.md", "no such text", ""),))
    with pytest.raises(CannotPlant, match=r"one: README.md has the text 0 times, not once"):
        changed(fault)


def test_plant_leaves_the_checkout_alone(tmp_path: Path) -> None:
    fault = FAULTS["brake-hold"]
    file = Path(fault.changes[0].file)
    before = (planted_faults.ROOT / file).read_text(encoding="utf-8")
    planted_faults.plant(fault, tmp_path)
    package = tmp_path / "ganeti_steward"
    assert (package / file).read_text(encoding="utf-8") != before
    assert (planted_faults.ROOT / file).read_text(encoding="utf-8") == before
    assert (package / file.parent / "step.py").samefile(
        planted_faults.ROOT / file.parent / "step.py"
    )
    assert (package / "core").samefile(planted_faults.ROOT / "core")


@pytest.mark.parametrize("name", QUICK)
def test_quick_ones_are_found(name: str) -> None:
    result = found_by(FAULTS[name], histories=20)
    assert result.broken, f"{name} survived {result.rounds} rounds"


def test_totals() -> None:
    fault = FAULTS["brake-hold"]
    results = [Result(fault, 10 * at, at, "limits" if at else "", "1", "") for at in range(4)]
    assert totals(results) == "3 of 4 planted faults were found, after 20 rounds (median)"
    assert totals(results[:1]) == "0 of 1 planted faults were found"


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, one in FAULTS.items() if not one.missing])
def test_is_found(name: str) -> None:
    result = found_by(FAULTS[name])
    assert result.broken, f"{name} survived {result.rounds} rounds: {FAULTS[name].breaks}"
