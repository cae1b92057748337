"""When a child has to be stopped, whatever it reports."""

from __future__ import annotations

import pytest

from ganeti_steward.core.hooks.child import BadMessageError, Begin, End
from ganeti_steward.core.hooks.isolation import BETWEEN, LONGEST, LONGEST_CALL, Watch


def watch() -> Watch:
    found = Watch("rogue", lambda name: name == "balanced")
    found.start(0.0)
    return found


def test_the_outermost_call_counts() -> None:
    one = watch()
    one.take(Begin("balanced", 10), 0.0)
    one.take(Begin("rogue", 60), 5.0)
    assert one.deadline() == 10
    assert str(one.overdue(10)) == (
        "plugin rogue: was running when the 10 s of balanced were over and was stopped"
    )
    one.take(End(), 6.0)
    one.take(End(), 7.0)
    assert one.deadline() == 7 + BETWEEN


def test_reports_without_end_end_as_well() -> None:
    """A plugin that writes reports of calls gains no more than the time of a question."""
    one, now = watch(), 0.0
    while not (late := one.overdue(now)):
        one.take(Begin("rogue", LONGEST_CALL), now)
        one.take(End(), now)
        now += BETWEEN / 2
    assert now == LONGEST
    assert str(late) == "plugin rogue: took longer than its 7200 s and was stopped"


@pytest.mark.parametrize("limit", [0, -1, LONGEST_CALL + 1, float("inf"), float("nan")])
def test_limits_that_no_call_has(limit: float) -> None:
    with pytest.raises(BadMessageError):
        watch().take(Begin("rogue", limit), 0.0)
