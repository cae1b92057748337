"""Thresholds of collectors: what is taken, and that every fault is named."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import pytest

from ganeti_steward.core.config.declaration import read_section
from ganeti_steward.diagnose.collectors.shared.thresholds import (
    LIMITS,
    Count,
    Figure,
    Repair,
    Status,
    limit_of,
)


class Kind(NamedTuple):
    hot_status: Status = "live-repair"
    least_speed: Figure = 1.5
    ports: Count = 2
    speeds: Annotated[tuple[str, ...], LIMITS] = ()
    repair: Repair = ""


def read(given: Any) -> tuple[Kind | None, list[str]]:
    faults: list[str] = []
    return read_section(Kind, "collector.some", given, faults), faults


def test_values() -> None:
    given = {
        "hot-status": "evacuate",
        "least-speed": 3,
        "ports": 0,
        "speeds": ["a=1", "b=c=2.5"],
        "repair": "fix-it_1",
    }
    section, faults = read(given)
    assert (section, faults) == (Kind("evacuate", 3, 0, ("a=1", "b=c=2.5"), "fix-it_1"), [])
    assert section is not None
    assert [limit_of(section.speeds, name) for name in ("a", "b=c", "b")] == [1.0, 2.5, None]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hot-status", "ok"),
        ("hot-status", 1),
        ("least-speed", "3"),
        ("least-speed", -0.5),
        ("least-speed", True),
        ("least-speed", float("nan")),
        ("ports", 1.5),
        ("ports", False),
        ("speeds", "a"),
        ("speeds", [1]),
        ("speeds", 1),
        ("repair", "../../bin/sh"),
        ("repair", "fix it"),
        ("repair", 7),
    ],
)
def test_a_fault(key: str, value: Any) -> None:
    section, (fault,) = read({key: value})
    assert section is None
    assert fault.startswith(f"collector.some.{key}: ")


def test_every_limit_of_another_form_is_named() -> None:
    faults = read({"speeds": ["a=1", "b", "=2", "c=-1", "d=inf"]})[1]
    assert faults == [
        "collector.some.speeds: 'b', '=2', 'c=-1', 'd=inf' are not of the form PATTERN=NUMBER"
    ]
    assert read({"speeds": ["b"]})[1] == [
        "collector.some.speeds: 'b' is not of the form PATTERN=NUMBER"
    ]
