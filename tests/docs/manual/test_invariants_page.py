"""docs/explanation/invariants.md has every invariant of the simulated histories."""

from __future__ import annotations

import re

from fault_world.checks import INVARIANTS
from paths import DOCS


def test_the_page_has_each_invariant() -> None:
    text = (DOCS / "explanation" / "invariants.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\* `([a-z-]+)`: (.+(?:\n  .+)*)$", text, re.MULTILINE)
    assert {name: " ".join(what.split()) for name, what in rows} == dict(INVARIANTS)
    assert len(rows) == len(INVARIANTS)
