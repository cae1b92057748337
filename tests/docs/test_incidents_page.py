"""The page about incidents: its drawing and its table are those of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from asserting import some

from ganeti_steward.plugins.maintenance.engine import diagram
from ganeti_steward.plugins.maintenance.engine.diagram import svg, table_rows
from ganeti_steward.plugins.maintenance.engine.transitions import TABLE, Event
from ganeti_steward.plugins.model.incident import STATUSES

DOCS: Final = Path(__file__).parents[2] / "docs" / "explanation"
PAGE: Final = (DOCS / "incidents.md").read_text()


def test_the_drawing_is_made_from_the_table() -> None:
    found = (DOCS / "incidents.svg").read_text()
    assert found == svg(), "gnt-steward maintd --diagram > docs/explanation/incidents.svg"
    assert "(incidents.svg)" in PAGE


@pytest.mark.parametrize("event", Event)
def test_every_event_is_drawn(event: Event) -> None:
    drawn = " ".join(svg().split())
    for word in some(event.value.split()):
        assert word in drawn


def test_a_transition_less_changes_the_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = svg()
    fewer = {key: to for key, to in TABLE.items() if key != ("failed", Event.TAG_REMOVED)}
    monkeypatch.setattr(diagram, "TABLE", fewer)
    assert svg() != before


def test_the_table_of_the_page_is_complete() -> None:
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in table_rows()]
    found = PAGE.split("| state | event | next state | in addition |\n|---|---|---|---|\n")[1]
    assert found.split("\n\n")[0].splitlines() == lines


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_is_explained(status: str) -> None:
    assert f"| `{status}` |" in PAGE
