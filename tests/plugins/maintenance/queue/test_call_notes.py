"""What a daemon that is killed leaves to the next one about its calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.queue.calls import CallNotes, Calls, TaskOutcome
from ganeti_steward.plugins.model.task import Task

ONE = Started("u1", "s1", Task("move", frozenset(), frozenset(), "why"))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Of a file that a first daemon has completed."""
    made = str(tmp_path / "calls")
    CallNotes(made).forget_before()
    return made


def test_what_is_handed_over_is_noted_and_nothing_else(path: str) -> None:
    notes = CallNotes(path)
    assert not notes.any_before
    notes.begin(["s1", "s2"])
    after = CallNotes(path)
    assert (after.may_go_on("s1"), after.may_go_on("s3"), after.any_before) == (True, False, True)
    notes.end(["s1"])
    after = CallNotes(path)
    assert (after.may_go_on("s1"), after.may_go_on("s2")) == (False, True)
    notes.end(["s2"])
    assert not CallNotes(path).any_before


def test_what_the_one_before_has_left_stays_noted_until_it_is_over(path: str) -> None:
    """Also for the daemon after the next one."""
    CallNotes(path).begin(["s1"])
    notes = CallNotes(path)
    notes.begin(["s2"])
    assert CallNotes(path).may_go_on("s1")
    notes.forget_before()
    after = CallNotes(path)
    assert (after.may_go_on("s1"), after.may_go_on("s2")) == (False, True)


@pytest.mark.parametrize(
    "text", [None, "", "[]", '{"calls": []}', '{"calls": [1], "complete": true}', "\xff"]
)
def test_without_good_notes_every_call_may_go_on(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "calls"
    if text is not None:
        path.write_text(text, encoding="latin-1")
    notes = CallNotes(str(path))
    assert notes.may_go_on("s1")
    assert notes.any_before
    notes.begin(["s1"])
    notes.end(["s1"])
    # It is not complete before the calls of before are over.
    assert CallNotes(str(path)).any_before
    notes.forget_before()
    assert not CallNotes(str(path)).any_before


def test_what_is_noted_is_known_where_more_may_go_on(tmp_path: Path) -> None:
    """Of a first daemon, which cannot know of calls before it, and which is killed."""
    path = str(tmp_path / "calls")
    CallNotes(path).begin(["s1"])
    notes = CallNotes(path)
    assert (notes.may_go_on("s1"), notes.may_go_on("s2")) == (True, True)
    assert notes.without_record([])
    assert notes.without_record(["s2"])
    assert not notes.without_record(["s1", "s2"])


def test_who_is_not_the_daemon_writes_nothing(path: str) -> None:
    CallNotes(path).begin(["s1"])
    CallNotes(path, writes=False).forget_before()
    assert CallNotes(path).may_go_on("s1")


def test_a_call_that_cannot_be_noted_is_not_made(tmp_path: Path) -> None:
    notes = CallNotes(str(tmp_path / "none" / "calls"))
    with pytest.raises(StewardError, match="cannot be written: No such file"):
        notes.begin(["s1"])
    made: list[str] = []
    found = Calls(30, notes=notes).make([ONE], lambda: made.append("call") or {})  # type: ignore[func-returns-value]
    assert "cannot be written" in found["s1"].withdrawn
    assert made == []


def test_a_call_is_noted_while_it_goes_on(path: str) -> None:
    noted: list[bool] = []

    def call() -> dict[str, TaskOutcome]:
        noted.append(CallNotes(path).may_go_on("s1"))
        return {"s1": TaskOutcome((7,))}

    make: Callable[..., object] = Calls(30, notes=CallNotes(path)).make
    make([ONE], call)
    assert noted == [True]
    assert not CallNotes(path).any_before
