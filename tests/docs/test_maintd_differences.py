"""Each difference from Ganeti's maintenance daemon names a test that exists, or says why not."""

from __future__ import annotations

import re
from typing import Final

import pytest
from paths import ROOT

PAGE: Final = ROOT / "docs/explanation/differences-from-ganeti-maintd.md"
ROWS: Final = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| \d", line)
]


def test_none_is_left_out() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 33))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_the_test_exists(row: list[str]) -> None:
    _, _, ours, name = row
    if name == "none":
        assert ours.startswith("None")
        return
    file, _, function = name.strip("`").partition("::")
    assert f"def {function}(" in (ROOT / "tests" / file).read_text()
