"""The comparison on docs/explanation/dead-nodes.md names scenarios that show it."""

from __future__ import annotations

import re

from asserting import some
from paths import DOCS, ROOT

#: What the page names that only a real Ganeti shows.
LAB = {"fail", "hang", "lie"}


def test_each_row_names_what_exists() -> None:
    text = (DOCS / "explanation/dead-nodes.md").read_text(encoding="utf-8").split("## Beside ")[1]
    rows = [line.split(" | ")[-1] for line in text.splitlines() if line.startswith("| ")][1:]
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    scenarios = {file.stem for file in (ROOT / "tests/data/scenarios").glob("*.txt")}
    lab = (ROOT / "tests/lab/daemon/faults/test_dead_node.py").read_text(encoding="utf-8")
    settings = {"dead-after", "failover-unsynced"}
    for name in some(named - settings):
        assert name in scenarios or (name in LAB and f'"{name}"' in lab), name
    assert len(rows) == 11
