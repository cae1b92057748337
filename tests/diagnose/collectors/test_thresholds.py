"""Thresholds of collectors: what is taken, and that every fault is named."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ganeti_steward.core.errors import BadSettings
from ganeti_steward.diagnose.collectors.shared.thresholds import read_settings


class Kind(NamedTuple):
    hot_status: str = "live-repair"
    least_speed: float = 1.5
    ports: int = 2
    loud: bool = False
    ignore: tuple[str, ...] = ()
    label: str = ""
    repair: str = ""


def test_defaults() -> None:
    assert read_settings(Kind, "some", {}) == Kind()


def test_values() -> None:
    given = {
        "hot-status": "evacuate",
        "least-speed": 3,
        "ports": 0,
        "loud": True,
        "ignore": ["a", "b"],
        "label": "x",
        "repair": "fix-it_1",
    }
    assert read_settings(Kind, "some", given) == Kind(
        "evacuate", 3, 0, True, ("a", "b"), "x", "fix-it_1"
    )


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
        ("loud", 1),
        ("ignore", "a"),
        ("ignore", [1]),
        ("label", 1),
        ("repair", "../../bin/sh"),
        ("repair", "fix it"),
        ("repair", 7),
    ],
)
def test_a_fault(key: str, value: Any) -> None:
    with pytest.raises(BadSettings) as told:
        read_settings(Kind, "some", {key: value})
    assert str(told.value).startswith(f"collector.some.{key}: ")
    assert " is expected, found " in str(told.value)


def test_every_fault_is_named() -> None:
    with pytest.raises(BadSettings) as told:
        read_settings(Kind, "some", {"ports": "x", "hot_status": "Ok", "nothing": 1})
    assert len(told.value.faults) == 3
    assert "collector.some.hot_status: no such key (known: hot-status, " in str(told.value)
