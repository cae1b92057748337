"""Each sentence of the security page names a test that exists, or follows from Ganeti."""

from __future__ import annotations

import re
from typing import Final

import pytest
from paths import DOCS, ROOT

PAGE: Final = (DOCS / "explanation" / "security.md").read_text()
NAMED: Final = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
#: Cells of the last column of the tables of sentences.
CELLS: Final = [
    row.strip(" |").rpartition(" | ")[2]
    for table in re.findall(r"^\| what \| test \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    for row in table.splitlines()
]


def test_every_sentence_has_its_test() -> None:
    assert len(CELLS) > 25
    assert [cell for cell in CELLS if "::" not in cell and cell != "-"] == []


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_the_test_exists(file: str, function: str) -> None:
    assert f"def {function}(" in (ROOT / "tests" / file).read_text()
