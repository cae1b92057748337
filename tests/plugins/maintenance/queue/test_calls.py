"""A call that hands jobs over is waited for until luxid has ended it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.queue.calls import Calls, TaskOutcome
from ganeti_steward.plugins.model.task import Task

TASK = Task("move", frozenset({"n2", "n1"}), frozenset({"i1"}), "why")
ONE, TWO = Started("u1", "s1", TASK), Started("u2", "s2", TASK)


class Luxid:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.rung = threading.Event()
        self.answer: Callable[[], Mapping[str, TaskOutcome]] = lambda: {"s1": TaskOutcome((7,))}

    def __call__(self) -> Mapping[str, TaskOutcome]:
        assert self.may_answer.wait(30)
        return self.answer()


@pytest.fixture
def luxid() -> Luxid:
    return Luxid()


def test_an_answer_in_time(luxid: Luxid) -> None:
    calls = Calls(30, luxid.rung.set)
    luxid.may_answer.set()
    assert calls.make([ONE], luxid) == {"s1": TaskOutcome((7,))}
    assert (calls.running(), calls.outcome("s1")) == ((), TaskOutcome((7,)))
    assert not luxid.rung.is_set(), "the round that waited for it is not followed by another one"


def test_a_late_answer(luxid: Luxid) -> None:
    """Until it comes the submission is under way, and nothing else is known of it."""
    calls = Calls(0.01, luxid.rung.set)
    unknown = calls.make([ONE, TWO], luxid)
    text = "luxid has not answered within 0.01 s; the answer is waited for"
    assert unknown == dict.fromkeys(("s1", "s2"), TaskOutcome(unknown=text))
    assert (calls.running(), calls.outcome("s1")) == ((ONE, TWO), None)
    luxid.answer = lambda: {"s1": TaskOutcome((7,)), "s2": TaskOutcome(refused="no")}
    luxid.may_answer.set()
    assert luxid.rung.wait(30)
    until(lambda: not calls.running())
    assert [calls.outcome(one) for one in ("s1", "s2")] == [
        TaskOutcome((7,)),
        TaskOutcome(refused="no"),
    ]


def until(holds: Callable[[], Any]) -> None:
    for _ in range(3000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never holds")


def test_a_call_that_breaks_is_over(luxid: Luxid) -> None:
    def broken() -> Mapping[str, TaskOutcome]:
        raise ZeroDivisionError("x")

    calls = Calls(30)
    assert calls.make([ONE], broken) == {"s1": TaskOutcome(unknown="ZeroDivisionError: x")}
    assert calls.running() == ()


def test_what_records_say_is_forgotten(luxid: Luxid) -> None:
    calls = Calls(30)
    luxid.may_answer.set()
    calls.make([ONE], luxid)
    calls.withdraw("s2", "the vote is undecided")
    calls.forget(["s2"])
    assert calls.outcome("s1") is None
    assert calls.outcome("s2") == TaskOutcome(withdrawn="the vote is undecided")
