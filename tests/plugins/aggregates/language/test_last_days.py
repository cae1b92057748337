"""The last day of a reservation: what is warned about, and when."""

from __future__ import annotations

import json
import time
from calendar import timegm
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from message_tags import RESERVING, ask_for, put

from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.plugins.aggregates.constraint import Constraint
from ganeti_steward.plugins.aggregates.language.limits import Clock, day, ended, warning

if TYPE_CHECKING:
    from sites import Capture, Site

END: Final = {"reservation:r1": "2026-12-31"}


@pytest.fixture(autouse=True)
def _zone() -> Iterator[None]:
    """Dates are those of the machine's time zone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def at(year: int, month: int, date: int, hour: int = 12) -> Clock:
    seconds = float(timegm((year, month, date, hour, 0, 0)))
    return lambda: seconds


@pytest.mark.parametrize(
    ("clock", "text"),
    [
        (at(2026, 12, 23, 23), ""),
        (at(2026, 12, 24, 0), "reservation:r1 ends on 2026-12-31"),
        (at(2026, 12, 31, 23), "reservation:r1 ends on 2026-12-31"),
        (at(2027, 1, 1, 0), "reservation:r1 ended on 2026-12-31"),
    ],
)
def test_when(clock: Clock, text: str) -> None:
    assert warning(END, "reservation:r1", clock) == text
    assert warning(END, "reservation:r2", clock) == ""
    assert ended(END, "reservation:r1", clock) == ("ended" in text)


def test_days_over_the_end_of_a_month() -> None:
    assert day(at(2028, 2, 25), 7) == "2028-03-03"
    assert day(at(2026, 12, 31, 23), 1) == "2027-01-01"


def test_a_note_on_an_allocation(capture: Capture) -> None:
    """It is placed, because nothing happens by itself."""
    message = capture("allocate-diskless")
    message["cluster_tags"] += [*RESERVING, "steward:until:reservation:r1+2026-12-31"]
    put(message, "reservation:r1", "node2.lab")
    ask_for(message, "reservation:r1")
    cluster, request = read_message(json.dumps(message).encode())
    name = message["request"]["name"]
    for clock, notes in (
        (at(2026, 12, 31), []),
        (at(2027, 1, 1), [f"{name} requests reservation:r1, which ended on 2026-12-31"]),
    ):
        plugin = Constraint(clock)
        assert plugin.steward_annotate(request, cluster, Answer(["node2.lab"], "")) == notes


def test_in_the_program(site: Site, capture: Capture) -> None:
    """By a tag, a date of the configuration or a text there; of several the first counts."""
    message = capture("allocate-diskless")
    message["cluster_tags"] += [*RESERVING, "steward:until:reservation:r1+2970-12-31"]
    put(message, "reservation:r1", "node2.lab")
    ask_for(message, "reservation:r1")
    assert "ended" not in site.ask(message).info
    for date in ("2020-01-31", '"2020-01-31"'):
        site.configure(more=f'[aggregates.until]\n"reservation:r1" = {date}\n')
        assert "requests reservation:r1, which ended on 2020-01-31" in site.ask(message).info
        assert site.place(message) == ["node2.lab"]
