"""Maintenance windows: which moments of a week they hold."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ganeti_steward.plugins.model.windows import is_open, read_window

#: A Monday.
MONDAY = datetime(2024, 1, 1)


def moment(day: int, text: str) -> datetime:
    hour, minute = map(int, text.split(":"))
    return MONDAY + timedelta(days=day, hours=hour, minutes=minute)


@pytest.mark.parametrize(
    ("window", "inside", "outside"),
    [
        ("08:00-20:00", [(0, "08:00"), (6, "19:59")], [(0, "07:59"), (3, "20:00")]),
        ("22:00-06:00", [(0, "22:00"), (0, "05:59"), (6, "23:59")], [(0, "06:00"), (2, "21:59")]),
        ("Sat 08:00-20:00", [(5, "08:00")], [(4, "12:00"), (6, "12:00")]),
        ("Fri 22:00-06:00", [(4, "22:00"), (5, "05:59")], [(4, "05:00"), (5, "22:00")]),
        ("Sat-Mon 00:00-24:00", [(5, "00:00"), (6, "12:00"), (0, "23:59")], [(1, "00:00")]),
        ("Sun 20:00-04:00", [(6, "21:00"), (0, "03:59")], [(0, "04:00"), (6, "03:00")]),
        ("12:00-12:00", [(0, "12:00"), (0, "11:59")], []),
    ],
)
def test_holds(window: str, inside: list[tuple[int, str]], outside: list[tuple[int, str]]) -> None:
    assert [is_open([window], moment(*one)) for one in inside] == [True] * len(inside)
    assert [is_open([window], moment(*one)) for one in outside] == [False] * len(outside)


def test_without_windows_it_is_always_open() -> None:
    assert is_open([], MONDAY)


def test_one_of_several_is_enough() -> None:
    assert is_open(["Sat 08:00-20:00", "Mon 00:00-01:00"], MONDAY)


@pytest.mark.parametrize(
    "text", ["", "25:00-26:00", "8:00-9:00", "08:00", "Foo 08:00-09:00", "08:00-24:01", "Mon 08-09"]
)
def test_no_window(text: str) -> None:
    assert read_window(text) is None
