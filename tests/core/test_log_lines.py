"""Lines of the log: texts of others in them cannot look like lines of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti_steward.core import log

#: What a record, a report or a request may hold.
HOSTILE = "x\n2026-11-21 01:53:11,410: steward pid=1 INFO forged\x1b[2J"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    root = logging.getLogger("ganeti_steward")
    before = root.handlers, root.level, root.propagate
    log.set_up(str(tmp_path / "steward.log"), "info")
    yield tmp_path / "steward.log"
    for handler in root.handlers:
        handler.close()
    root.handlers, root.level, root.propagate = before


def test_a_text_stays_on_its_line(file: Path) -> None:
    logging.getLogger("ganeti_steward.test").info("a report: %s", HOSTILE)
    (line,) = file.read_text().splitlines()
    assert line.endswith("forged\\x1b[2J")


def test_no_line_of_a_traceback_looks_like_one(file: Path) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("ganeti_steward.test").exception("a plugin failed")
    first, *others = file.read_text().splitlines()
    assert first.endswith(" ERROR a plugin failed")
    assert "Traceback (most recent call last):" in others[0]
    assert all(line.startswith("  ") and line.isprintable() for line in others)
