"""Times as commands show them."""

from __future__ import annotations

import pytest

from ganeti_steward.plugins.texts import local_time, utc_time


@pytest.mark.parametrize("at", [10**40, -(10**40), -(10**400)])
def test_what_is_no_time_is_shown_as_it_is(at: int) -> None:
    assert local_time(at) == utc_time(at) == str(at)


def test_times() -> None:
    assert utc_time(1_767_787_200 * 10**9) == "2026-01-07 12:00:00 UTC"
    assert local_time(0) == local_time(None) == "-"
    assert local_time(1_767_787_200 * 10**9)[:3] == "202"
