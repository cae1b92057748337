"""Each difference from Ganeti's maintenance daemon names a test that exists."""

from __future__ import annotations

from typing import Final

import pytest
from paths import ROOT

PAGE: Final = ROOT / "tests/differences-from-ganeti-maintd.md"
ROWS: Final = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE.read_text().split("|---|---|\n")[1].splitlines()
]


def test_none_is_left_out() -> None:
    assert len(ROWS) == len({ours for ours, _ in ROWS}) == 32


@pytest.mark.parametrize(("ours", "name"), ROWS)
def test_the_test_exists(ours: str, name: str) -> None:
    file, _, function = name.strip("`").partition("::")
    assert f"def {function}(" in (ROOT / "tests" / file).read_text(), ours
