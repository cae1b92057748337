"""Running job sets: order, failures, interrupts, and a Ganeti that goes away for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence

import pytest

from ganeti_steward.allocators.cli.run_options import progress_line, summary
from ganeti_steward.allocators.jobs.operations import migrate
from ganeti_steward.allocators.jobs.run_jobs import Interrupts, JobRun, Result, run_job_sets
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.jobs import Submitted
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job


def job(name: str) -> Job:
    return [migrate(name)]


SETS = [[job("a"), job("b")], [job("c")], [job("d"), job("e")]]


class Queue:
    """A job queue in which every look at a job takes it one state further."""

    where = "the queue"

    def __init__(self, **ends: str) -> None:
        """Instance -> how its job ends, success if not given."""
        self.ends = ends
        self.submitted: list[list[str]] = []
        self.reasons: set[str] = set()
        self.away = 0
        """how many of the next calls fail"""
        self.refused = ""
        self.looks: dict[int, Iterator[str]] = {}
        self.polled: list[list[int]] = []
        self.names: dict[int, str] = {}

    def refusal(self, one: Job) -> str:
        return self.refused if one[0]["instance_name"] == "d" else ""

    def submit(self, jobs: Sequence[Job], reason: str) -> list[Submitted]:
        self._call()
        self.reasons.add(reason)
        self.submitted.append([one[0]["instance_name"] for one in jobs])
        return [self._take(one[0]["instance_name"]) for one in jobs]

    def _take(self, name: str) -> Submitted:
        end = self.ends.get(name, "success")
        if end == "refused":
            return Submitted((), "queue drained")
        number = len(self.names) + 1
        self.names[number] = name
        self.looks[number] = iter(["queued", "running", *[end] * 99])
        return Submitted((number,), "in part" if end == "partly" else "")

    def states(self, numbers: Sequence[int]) -> list[JobState]:
        self._call()
        self.polled.append(list(numbers))
        return [self._state(number) for number in numbers]

    def _state(self, number: int) -> JobState:
        status = next(self.looks[number]).replace("partly", "success")
        return JobState(number, status, "no disk" if status == "error" else "")

    def _call(self) -> None:
        if self.away:
            self.away -= 1
            raise StewardError("no connection")

    def cancel(self, number: int) -> str:
        raise NotImplementedError


def run(queue: Queue, interrupts: Sequence[int] = ()) -> tuple[Result, list[JobRun]]:
    """``interrupts``: how often was interrupted at each look, the last for ever."""
    reported: list[JobRun] = []
    counts = [*interrupts] or [0]
    result = run_job_sets(
        queue,
        SETS,
        reason="test",
        report=reported.append,
        interrupts=lambda: counts.pop(0) if len(counts) > 1 else counts[0],
        sleep=lambda seconds: None,
    )
    return result, reported


def names(runs: Sequence[JobRun]) -> list[str]:
    return [one.job[0]["instance_name"] for one in runs]


def test_all_sets() -> None:
    queue = Queue()
    result, reported = run(queue)
    assert result.complete
    assert queue.submitted == [["a", "b"], ["c"], ["d", "e"]]
    assert queue.reasons == {"test"}
    assert names(result.done) == ["a", "b", "c", "d", "e"]
    # A set begins when every job of the one before has ended.
    assert [(names([one])[0], one.status) for one in reported][:8] == [
        ("a", "queued"),
        ("b", "queued"),
        ("a", "running"),
        ("b", "running"),
        ("a", "success"),
        ("b", "success"),
        ("c", "queued"),
        ("c", "running"),
    ]
    assert summary(result) == "5 jobs done"


@pytest.mark.parametrize("end", ["error", "canceled", "lost", "refused", "partly"])
def test_the_first_failure_stops(end: str) -> None:
    queue = Queue(c=end)
    result, _ = run(queue)
    assert not result.complete
    assert queue.submitted == [["a", "b"], ["c"]]
    assert names(result.done) == ["a", "b"]
    assert names(result.failed) == ["c"]
    assert [one[0]["instance_name"] for one in result.left] == ["d", "e"]
    assert result.running == ()


def test_a_failure_lets_its_set_end() -> None:
    queue = Queue(a="error")
    result, reported = run(queue)
    assert queue.submitted == [["a", "b"]]
    assert names(result.done) == ["b"]
    assert names(result.failed) == ["a"]
    assert reported[-2].error == "no disk"
    assert progress_line(reported[-2], 3).endswith("a: migrate: error (no disk)")
    assert summary(result).splitlines() == [
        "1 job done, 1 failed, 3 not begun",
        "failed: a: migrate",
        "not begun: c: migrate",
        "not begun: d: migrate",
        "not begun: e: migrate",
    ]


def test_jobs_that_have_ended_are_not_polled() -> None:
    queue = Queue()
    queue.ends = {}
    run(queue)
    assert queue.polled[:4] == [[1, 2], [1, 2], [1, 2], [3]]


def test_an_interrupt_lets_the_running_set_end() -> None:
    queue = Queue()
    # Called before the first set and before each poll; the second set is never begun.
    result, _ = run(queue, [0, 0, 1])
    assert queue.submitted == [["a", "b"]]
    assert names(result.done) == ["a", "b"]
    assert result.interrupted
    assert not result.complete
    assert result.running == ()
    assert [one[0]["instance_name"] for one in result.left] == ["c", "d", "e"]


def test_a_second_interrupt_leaves_at_once() -> None:
    queue = Queue()
    result, _ = run(queue, [0, 0, 1, 2])
    assert names(result.running) == ["a", "b"]
    assert not result.complete
    lines = summary(result).splitlines()
    assert lines[0] == "0 jobs done, 3 not begun"
    assert lines[1:3] == ["goes on: job 1, a: migrate", "goes on: job 2, b: migrate"]


def test_nothing_is_begun_after_an_interrupt() -> None:
    queue = Queue()
    result, _ = run(queue, [1])
    assert queue.submitted == []
    assert len(result.left) == 5
    assert not result.complete


def test_a_job_that_cannot_run_is_reported_before_any_starts() -> None:
    queue = Queue()
    queue.refused = "no way"
    with pytest.raises(StewardError, match="the queue: no way; nothing was done"):
        run(queue)
    assert queue.submitted == []


class Flaky(Queue):
    """Goes away after the first submission."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls

    def submit(self, jobs: Sequence[Job], reason: str) -> list[Submitted]:
        done = super().submit(jobs, reason)
        self.away, self.calls = self.calls, 0
        return done


def test_a_pause_of_the_daemon_is_survived() -> None:
    result, _ = run(Flaky(9))
    assert result.complete


def test_a_daemon_that_stays_away() -> None:
    result, _ = run(Flaky(99))
    assert names(result.running) == ["a", "b"]
    assert result.trouble == "no connection"
    assert len(result.left) == 3
    assert "no longer waited for: no connection" in summary(result)


def test_a_submission_of_which_nothing_is_known() -> None:
    queue = Queue()
    queue.away = 1
    result, reported = run(queue)
    assert [one.status for one in result.failed] == ["unknown", "unknown"]
    assert [one.error for one in reported] == ["no connection"] * 2
    assert len(result.left) == 3


class Chains(Queue):
    """Each job becomes two, as through RAPI."""

    def submit(self, jobs: Sequence[Job], reason: str) -> list[Submitted]:
        self.submitted.append([one[0]["instance_name"] for one in jobs])
        numbers = iter(range(1, 99))
        return [Submitted((next(numbers), next(numbers))) for _ in jobs]


def chain(*looks: tuple[str, str]) -> list[str]:
    """What is reported of a job of two operations that have these states at each poll."""
    queue = Chains()
    rows = iter(looks)

    def states(numbers: Sequence[int]) -> list[JobState]:
        row = next(rows)
        return [JobState(n, row[n - 1], "e" if row[n - 1] == "error" else "") for n in numbers]

    queue.states = states  # type: ignore[method-assign]
    reported: list[JobRun] = []
    result = run_job_sets(
        queue, [[job("a")]], reason="x", report=reported.append, sleep=lambda seconds: None
    )
    assert result.complete is (looks[-1] == ("success", "success"))
    return [one.status for one in reported]


def test_jobs_that_became_several() -> None:
    assert chain(
        ("queued", "queued"),
        ("running", "queued"),
        ("success", "queued"),
        ("success", "running"),
        ("success", "success"),
    ) == ["queued", "running", "queued", "running", "success"]
    # The failure of the first is reported when the second has ended too.
    assert chain(("running", "queued"), ("error", "queued"), ("error", "error")) == [
        "queued",
        "running",
        "error",
    ]
    assert chain(("success", "canceled")) == ["queued", "canceled"]


def test_signals_are_counted() -> None:
    reported: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    with Interrupts(reported.append) as interrupts:
        assert interrupts() == 0
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts() == 1
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts() == 2
        # The third one is not caught any more.
        assert signal.getsignal(signal.SIGINT) == before
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert reported == [1, 2]
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
