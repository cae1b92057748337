"""Which reply counts, when waiting can end, and who is master."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ganeti_steward.core.ganeti.confd.choice import (
    Disagreement,
    Mastership,
    NoAnswer,
    is_enough,
    newest,
    vote,
)
from ganeti_steward.core.ganeti.confd.messages import Reply, Status

ME: Final = "node1.lab"
OTHER: Final = "node2.lab"


def replies(*answers: tuple[Any, int], status: Status = Status.OK) -> list[Reply]:
    return [
        Reply(f"192.0.2.{at}", status, answer, serial)
        for at, (answer, serial) in enumerate(answers, 1)
    ]


def test_the_highest_serial_counts() -> None:
    assert newest(replies(("old", 4), ("new", 5), ("older", 1))).answer == "new"


def test_a_success_counts_before_an_error() -> None:
    error = replies(("not loaded", 9), status=Status.ERROR)
    assert newest([*error, *replies(("right", 2))]).answer == "right"
    assert newest(error).status is Status.ERROR


def test_different_answers_of_one_serial_are_no_answer() -> None:
    with pytest.raises(Disagreement, match=r"192\.0\.2\.1 and 192\.0\.2\.2 answer differently"):
        newest(replies(("a", 3), ("b", 3), ("c", 1)))


def test_no_reply() -> None:
    with pytest.raises(NoAnswer):
        newest([])


@pytest.mark.parametrize(
    ("queried", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4), (20, 11)]
)
def test_enough(queried: int, needed: int) -> None:
    alike = replies(*[("a", 1)] * needed)
    assert is_enough(alike, queried)
    assert not is_enough(alike[1:], queried)


def test_disagreeing_replies_are_not_enough() -> None:
    assert not is_enough(replies(("a", 1), ("b", 1), ("a", 2)), 3)
    assert not is_enough(replies(("a", 1), ("a", 1), status=Status.ERROR), 2)


def masters(*names: str, serial: int = 7) -> list[Reply]:
    return replies(*(([name, "192.0.2.100", "192.0.2.1"], serial) for name in names))


@pytest.mark.parametrize(
    ("found", "candidates", "expected"),
    [
        (masters(ME), 1, Mastership.MASTER),
        (masters(ME), 2, Mastership.UNDECIDED),
        (masters(ME, ME), 2, Mastership.MASTER),
        (masters(ME, ME), 3, Mastership.MASTER),
        (masters(ME, ME), 4, Mastership.UNDECIDED),
        (masters(ME, ME, ME), 5, Mastership.MASTER),
        (masters(OTHER), 5, Mastership.NOT_MASTER),
        (masters(OTHER, ME), 2, Mastership.UNDECIDED),
        ([], 3, Mastership.UNDECIDED),
        (replies(("config not loaded", 0), status=Status.ERROR), 1, Mastership.UNDECIDED),
        (replies((None, 3)), 1, Mastership.UNDECIDED),
        (replies((ME, 3)), 1, Mastership.MASTER),
    ],
)
def test_vote(found: list[Reply], candidates: int, expected: Mastership) -> None:
    result = vote(ME, found, candidates)
    assert result.mastership is expected
    assert result.reason


def test_a_deposed_master_with_stale_replies_is_not_master() -> None:
    """Most candidates are cut off or stale; one has the failover's higher serial."""
    found = [*masters(ME, ME, ME, serial=7), *masters(OTHER, serial=8)]
    result = vote(ME, found, 5)
    assert (result.mastership, result.master) == (Mastership.NOT_MASTER, OTHER)
    assert "1 of 5 master candidates name node2.lab (serial 8)" in result.reason


def test_replies_of_lower_serial_do_not_vote() -> None:
    found = [*masters(ME, ME, serial=7), *masters(ME, serial=8)]
    assert vote(ME, found, 3).mastership is Mastership.UNDECIDED
