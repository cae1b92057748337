"""Which reply counts, when waiting can end, and who is master."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ganeti_steward.plugins.maintenance.confd.choice import (
    Disagreement,
    Mastership,
    NoAnswer,
    is_enough,
    newest,
    vote,
)
from ganeti_steward.plugins.maintenance.confd.messages import Reply, ReplyStatus

ME: Final = "node1.lab"
OTHER: Final = "node2.lab"


def replies(*answers: tuple[Any, int], status: ReplyStatus = ReplyStatus.OK) -> list[Reply]:
    return [
        Reply(f"192.0.2.{at}", status, answer, serial)
        for at, (answer, serial) in enumerate(answers, 1)
    ]


def test_the_highest_serial_counts() -> None:
    assert newest(replies(("old", 4), ("new", 5), ("older", 1))).answer == "new"


def test_a_success_counts_before_an_error() -> None:
    error = replies(("not loaded", 9), status=ReplyStatus.ERROR)
    assert newest([*error, *replies(("right", 2))]).answer == "right"
    assert newest(error).status is ReplyStatus.ERROR


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
    assert not is_enough(replies(("a", 1), ("a", 1), status=ReplyStatus.ERROR), 2)


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
        (replies(("config not loaded", 0), status=ReplyStatus.ERROR), 1, Mastership.UNDECIDED),
        (replies((None, 3)), 1, Mastership.UNDECIDED),
        (replies((ME, 3)), 1, Mastership.MASTER),
    ],
)
def test_vote(found: list[Reply], candidates: int, expected: Mastership) -> None:
    result = vote(ME, found, candidates)
    assert result.mastership is expected
    assert result.reason


#: What a reply to the vote is: this node at the old serial, the other at a higher one, a lie.
OLD, NEW, LIE = (ME, 7), (OTHER, 8), ("node9.lab", 10**12)


@pytest.mark.parametrize(
    ("found", "candidates", "expected"),
    [
        # A lie of one candidate, with some of the others silent.
        ([OLD, OLD, LIE], 3, Mastership.UNDECIDED),
        ([OLD, OLD, OLD, OLD, LIE], 5, Mastership.UNDECIDED),
        ([OLD, OLD, LIE], 5, Mastership.UNDECIDED),
        ([OLD, OLD, OLD, (ME, 10**12)], 5, Mastership.UNDECIDED),
        ([OLD, OLD, ("node9.lab", 7)], 3, Mastership.UNDECIDED),
        # No majority is against it: as a failover while others are down.
        ([OLD, LIE], 2, Mastership.NOT_MASTER),
        ([OLD, LIE], 3, Mastership.NOT_MASTER),
        ([LIE], 1, Mastership.NOT_MASTER),
        # The old master while a failover reaches the candidates one after the other.
        ([OLD, NEW], 2, Mastership.NOT_MASTER),
        ([NEW, NEW], 2, Mastership.NOT_MASTER),
        ([OLD, OLD, NEW], 3, Mastership.UNDECIDED),
        ([OLD, NEW, NEW], 3, Mastership.NOT_MASTER),
        ([OLD, NEW], 3, Mastership.NOT_MASTER),
        ([NEW, NEW, NEW], 3, Mastership.NOT_MASTER),
        ([OLD, OLD, OLD, NEW, NEW], 5, Mastership.UNDECIDED),
        ([OLD, OLD, NEW, NEW, NEW], 5, Mastership.NOT_MASTER),
        ([OLD, NEW, NEW], 5, Mastership.NOT_MASTER),
        # A second failover while one candidate still has the copy before the first.
        ([OLD, NEW, ("node3.lab", 9)], 3, Mastership.NOT_MASTER),
        # The new master: others still name the old one.
        ([(ME, 8), (OTHER, 7), (OTHER, 7)], 3, Mastership.UNDECIDED),
        ([(ME, 8), (ME, 8), (OTHER, 7)], 3, Mastership.MASTER),
    ],
)
def test_candidates_that_contradict_each_other(
    found: list[tuple[str, int]], candidates: int, expected: Mastership
) -> None:
    """In whatever order the replies come; see `vote`."""
    named = replies(*(([name], serial) for name, serial in found))
    for given in (named, named[::-1]):
        assert vote(ME, given, candidates).mastership is expected


def test_a_minority_against_a_majority_is_named() -> None:
    result = vote(ME, replies(([ME], 7), ([ME], 6), (["node9.lab"], 10**12)), 3)
    assert result.master == "node9.lab"
    assert result.reason == (
        "1 of 3 master candidates name node9.lab (serial 1000000000000), but 2 name this node, "
        "node1.lab (serial 7): one of the two is old or wrong"
    )


@pytest.mark.parametrize("name", ["", "a b", "x\n", "\x1b[2J", "-x", "x" * 256, "n\u00f6de"])
def test_a_name_that_is_none_does_not_vote(name: str) -> None:
    found = [*masters(ME, ME), *replies(([name], 10**12))]
    assert vote(ME, found, 3).mastership is Mastership.MASTER


def test_replies_of_lower_serial_do_not_vote() -> None:
    found = [*masters(ME, ME, serial=7), *masters(ME, serial=8)]
    assert vote(ME, found, 3).mastership is Mastership.UNDECIDED
