"""``gnt-steward maintenance wait``: what it prints, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.cli.planned.maintenance_wait import (
    EXIT_LATE,
    EXIT_OTHER_END,
    EXIT_TIMEOUT,
    follow,
)

if TYPE_CHECKING:
    from front import Front

Seen = tuple[str, str] | StewardError


class Time:
    """A clock that goes on by sleeping only."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def followed(
    seen: Sequence[Seen], wanted: str = "ready", limit: float = float("inf")
) -> tuple[int, float]:
    """Exit status and seconds, where each look shows the next of these."""
    rest, time = iter(seen), Time()

    def look() -> tuple[str, str]:
        found = next(rest)
        if isinstance(found, StewardError):
            raise found
        return found

    status = follow("n2", wanted, limit, look, clock=time, sleep=time.sleep)
    assert next(rest, None) is None
    return status, time.now - 1000


@pytest.mark.parametrize(
    ("states", "wanted", "status"),
    [
        (["requested", "emptying", "ready"], "ready", 0),
        (["requested", "working"], "ready", EXIT_OTHER_END),
        (["done"], "ready", EXIT_OTHER_END),
        (["done"], "done", 0),
        (["ready", "ready", "returning", "home"], "home", 0),
        (["home", "done"], "done", 0),
        (["paused", "canceling", "canceled"], "ready", EXIT_OTHER_END),
        (["emptying", "failed"], "done", EXIT_OTHER_END),
        (["emptying", ""], "done", EXIT_OTHER_END),
        (["requested", "late"], "ready", EXIT_LATE),
    ],
)
def test_how_it_ends(states: list[str], wanted: str, status: int) -> None:
    assert followed([(one, "") for one in states], wanted) == (status, 5 * (len(states) - 1))


def test_the_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    assert followed([("emptying", "")] * 4, limit=12) == (EXIT_TIMEOUT, 12)
    out, err = capsys.readouterr()
    assert out == "n2: emptying\n"
    assert "n2 is not ready within 12 s" in err
    # It looks once, whatever the timeout is.
    assert followed([("ready", "")], limit=0) == (0, 0)
    assert followed([("emptying", "")], limit=0) == (EXIT_TIMEOUT, 0)


def test_each_change_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    waits = [("emptying", "a"), ("emptying", "a"), ("emptying", "b"), ("ready", "")]
    assert followed(waits)[0] == 0
    assert capsys.readouterr().out == "n2: emptying: a\nn2: emptying: b\nn2: ready\n"


def test_a_look_that_fails_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    down = StewardError("luxid: Connection refused")
    assert followed([("emptying", ""), down, down, ("ready", "")]) == (0, 15)
    assert "luxid: Connection refused; it is tried again" in capsys.readouterr().err
    with pytest.raises(StewardError):
        followed([down])


@pytest.mark.parametrize("given", ["-1", "soon", "nan", "inf"])
def test_a_timeout_that_is_none(front: Front, given: str) -> None:
    done = front("maintenance", "wait", "n2", f"--timeout={given}")
    assert done.status == 2
    assert "is not a number of seconds" in done.err
