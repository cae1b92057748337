"""The page about incidents: its drawing and its events are those of the program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from asserting import some

from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN, TABLE, mermaid
from ganeti_steward.plugins.model.incident import STATUSES

DOCS: Final = Path(__file__).parents[2] / "docs" / "explanation"
PAGE: Final = (DOCS / "incidents.md").read_text()


def test_the_drawing_is_made_from_the_table() -> None:
    drawn = PAGE.split("```mermaid\n")[1].split("```")[0]
    assert drawn == mermaid(), (
        "docs/explanation/incidents.md: put in what gnt-steward maintd --diagram prints"
    )


def test_every_transition_is_drawn() -> None:
    drawn = dict(line.strip().split(": ") for line in mermaid().splitlines()[1:])
    for (state, event), to in some(TABLE.items()):
        assert event.value in drawn[f"{state} --> {'[*]' if to == FORGOTTEN else to}"]


def test_every_event_is_explained() -> None:
    rows = PAGE.split("| event | when |\n|---|---|\n")[1].split("\n\n")[0].splitlines()
    explained = {row.split(" | ")[0].removeprefix("| ") for row in rows}
    assert {event.value for _, event in TABLE} == explained, (
        "docs/explanation/incidents.md, Events: not the events of engine/transitions.py"
    )


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_is_explained(status: str) -> None:
    assert f"| `{status}` |" in PAGE, f"docs/explanation/incidents.md: no row for {status}"


def test_the_statuses_over_http() -> None:
    text = (DOCS.parent / "reference" / "maintd-status.md").read_text()
    (words,) = re.findall(r"^\* `repair-status`: (.*)$", text, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", words)) == STATUSES, (
        "docs/reference/maintd-status.md: `repair-status` names all statuses, in their order"
    )
