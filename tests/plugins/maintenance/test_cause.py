"""What a node reports as broken, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from ganeti_steward.plugins.model.cause import cause


def finding(source: str, details: Any, status: str = "evacuate") -> dict[str, Any]:
    return {"source": source, "status": status, "details": details}


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ([finding("command:psu", "psu 2 failed")], "command:psu: psu 2 failed"),
        ([finding("smart:sda", {"faults": ["pending sectors"]})], "smart:sda: pending sectors"),
        (
            [finding("nagios:fans", {"state": "CRITICAL", "text": "fan 1"})],
            "nagios:fans: CRITICAL fan 1",
        ),
        ([finding("a", None)], "a"),
        ([finding("a", {"x": 1})], 'a: {"x": 1}'),
        (
            [finding("a", "small", "live-repair"), finding("b", "large"), finding("c", "large")],
            "b: large (and 2 more)",
        ),
        ([finding("a", "x" * 200)], f"a: {'x' * 100}..."),
        ("no findings", "no findings"),
        (None, ""),
        ([3], "[3]"),
    ],
)
def test_cause(details: Any, expected: str) -> None:
    assert cause({"status": "evacuate", "details": details}) == expected


def test_of_a_large_object_the_beginning_is_known() -> None:
    assert cause({"status": "evacuate", "cut": {"bytes": 9000, "beginning": "[{..."}}) == "[{..."
