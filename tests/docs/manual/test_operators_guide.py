"""The operator's guide is complete: states, words, tags, metrics, log lines of the program."""

from __future__ import annotations

import re
from typing import Final

import pytest
import source_facts
from paths import DOCS

from ganeti_steward.core.model.finding import STATUSES as NODE_STATES
from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.language.tags import KEYS
from ganeti_steward.plugins.filters.actions.changes import BRAKE, LATER
from ganeti_steward.plugins.maintenance.edges import answers, metrics, poll
from ganeti_steward.plugins.maintenance.engine.transitions import TABLE
from ganeti_steward.plugins.model.incident import STATUSES as INCIDENT_STATES

GUIDE: Final = (DOCS / "how-to" / "operate.md").read_text()
LINES: Final = (DOCS / "reference" / "log-lines.md").read_text()


def in_first_columns(text: str) -> set[str]:
    """The code in the first cells of the rows of all tables."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


ROWS: Final = in_first_columns(GUIDE)
SPANS: Final = re.findall(r"`([^`\n]+)`", LINES)
REFUSED: Final = {
    value
    for name, value in [*vars(answers).items(), ("STATUS", poll.STATUS)]
    if name.isupper() and isinstance(value, str)
}


@pytest.mark.parametrize("state", sorted({*INCIDENT_STATES, *TABLE.values()}))
def test_every_state_of_an_incident(state: str) -> None:
    assert state in ROWS, f"docs/how-to/operate.md: no row for the state {state}"


@pytest.mark.parametrize("word", [*NODE_STATES, *metrics._OBSERVATIONS, *sorted(REFUSED)])
def test_every_word_about_a_node(word: str) -> None:
    assert word in ROWS


def test_every_word_of_what_is_held_back() -> None:
    words = source_facts.held_words() | {BRAKE, LATER}
    assert len(words) > 20
    table = GUIDE.split("## What is held back")[1].split("\n## ")[0]
    assert in_first_columns(table) == words


def test_every_tag_and_source() -> None:
    literal = source_facts.tags()
    composed = {f"{TAG_PREFIX}{key}" for keys in KEYS.values() for key in keys}
    assert len(literal) > 15
    assert len(composed) > 10
    known = "\n".join(sorted(ROWS))
    for tag in sorted(literal | composed):
        assert re.search(rf"^{re.escape(tag)}", known, re.MULTILINE), tag


@pytest.mark.parametrize("name", metrics.names())
def test_every_metric(name: str) -> None:
    assert name in ROWS, f"docs/how-to/operate.md: no row for the metric {name}"


def pattern(line: str) -> str:
    """What of a line is literal; a span of the page has words in the place of the rest."""
    return r"[A-Z][A-Z: ]*".join(re.escape(part) for part in re.split(r"%\w", line))


def test_every_log_line() -> None:
    lines = source_facts.log_lines()
    assert len(lines) > 40
    missing = [
        line for line in lines if not any(re.fullmatch(pattern(line), span) for span in SPANS)
    ]
    assert missing == []
