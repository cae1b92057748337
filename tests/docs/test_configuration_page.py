"""The reference page of the configuration is what the declarations say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from ganeti_steward.core import builtins
from ganeti_steward.core.config.reference import reference_page

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_page_is_the_declarations() -> None:
    assert PAGE.read_text() == reference_page(), (
        f"run `gnt-steward check-config --reference > {PAGE}`"
    )


@pytest.mark.parametrize("section", [*builtins.SECTIONS, "nagios.NAME", "weigh", "plugin.NAME"])
def test_every_section_is_described(section: str) -> None:
    text = PAGE.read_text().split(f"\n## [{section}]\n\n")[1].split("\n## ")[0]
    assert re.match(r"[A-Z][^|]+[.]\n", text)
    rows = [row for row in text.splitlines() if row.startswith("| `")]
    assert all(re.fullmatch(r"\|( [^|]+ \|){4}", row) for row in rows)
    assert rows or section in ("weigh", "plugin.NAME")
