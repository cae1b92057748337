"""docs/explanation/invariants.md names every invariant of the simulated histories."""

from __future__ import annotations

import re

from fault_world.checks import INVARIANTS
from paths import DOCS


def test_the_page_names_each_invariant_once() -> None:
    text = (DOCS / "explanation" / "invariants.md").read_text(encoding="utf-8")
    lists = re.findall(r"^\|.* \| (`.*`) \|$", text, re.MULTILINE)
    names = [name for cell in lists for name in re.findall(r"`([a-z-]+)`", cell)]
    assert sorted(names) == sorted(INVARIANTS)
    assert f"checks {len(INVARIANTS)} invariants" in " ".join(text.split())
