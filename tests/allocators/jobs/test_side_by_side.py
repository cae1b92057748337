"""Jobs that do not depend on each other: so many at a time, and a failure holds back none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_run_jobs import Queue, job, names

from ganeti_steward.allocators.jobs.run_jobs import Result, run_side_by_side


def run(queue: Queue, most: int = 2, interrupts: Callable[[], int] = lambda: 0) -> Result:
    members = [job(name) for name in "abcde"]
    return run_side_by_side(
        queue, members, most, reason="x", interrupts=interrupts, sleep=lambda seconds: None
    )


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_so_many_at_a_time(most: int) -> None:
    queue = Queue()
    result = run(queue, most)
    assert result.complete
    assert names(result.runs) == [*"abcde"]
    assert max(map(len, queue.polled)) == min(most, 5)


@pytest.mark.parametrize("end", ["error", "canceled", "lost", "refused", "partly"])
def test_a_failure_holds_back_none(end: str) -> None:
    result = run(Queue(a=end, c=end))
    assert (names(result.failed), names(result.done)) == (["a", "c"], ["b", "d", "e"])
    assert result.left == ()


def test_when_none_is_taken_each_is_named() -> None:
    result = run(Queue(**dict.fromkeys("abcde", "refused")))
    assert names(result.failed) == [*"abcde"]
    assert {one.error for one in result.failed} == {"queue drained"}


def test_an_interrupt_submits_nothing_more() -> None:
    queue = Queue()
    result = run(queue, interrupts=lambda: int(bool(queue.polled)))
    assert (names(result.done), len(result.left), result.interrupted) == (["a", "b"], 3, True)


def test_a_second_interrupt_leaves_at_once() -> None:
    queue = Queue()
    result = run(queue, interrupts=lambda: 2 * bool(queue.polled))
    assert (names(result.running), result.interrupted) == (["a", "b"], True)


def test_ganeti_that_stays_away() -> None:
    queue = Queue()

    def away() -> int:
        queue.away = 99 if queue.submitted else 0
        return 0

    result = run(queue, interrupts=away)
    assert (result.trouble, names(result.running), len(result.left)) == (
        "no connection",
        ["a", "b"],
        3,
    )
