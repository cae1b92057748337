"""Held jobs in the queue of a stand-in that obeys filter rules: who starts, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clusters
import pytest
import worlds
from fake_parts import LOST, UNDECIDED, Fakes
from standin import StandIn
from standin_server import serving

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.actions.changes import RELEASE, JobChange, Releases
from ganeti_steward.plugins.maintenance.confd.choice import Vote
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.job_releases import (
    AtOnce,
    Beside,
    JobReleases,
    Question,
    Released,
)
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.runtime import Runtime
from ganeti_steward.plugins.model.filter_action import Facts
from ganeti_steward.plugins.model.task import Held

if TYPE_CHECKING:
    from collections.abc import Callable

JOB = [{"OP_ID": "OP_TEST_DELAY", "duration": 0, "reason": []}]
A = "aaaaaaaa-1111-4111-8111-111111111111"
#: A Monday, 00:00 UTC.
MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
_WEEK = 7 * 24 * 60


@pytest.fixture(scope="session")
def message() -> clusters.Message:
    return clusters.generate("--nodes=2", "--seed=5")


class Queue:
    """The stand-in and its client."""

    def __init__(self, stand_in: StandIn, luxi: Luxi) -> None:
        self.stand_in, self.luxi = stand_in, luxi
        self.releases = JobReleases(luxi, Config)

    def hold(self, action: str, priority: int = 50) -> None:
        trail = [["steward:filter-action", action, 1]]
        self.stand_in.replace_filter(A, priority, [], "PAUSE", trail)

    def submit(self) -> int:
        (number,) = (one for _, one in self.stand_in.submit([JOB]))
        return int(number)

    def status(self, number: int) -> str:
        self.stand_in.advance()
        return str(self.stand_in.queue.rows[number]["status"])

    def round(self, **facts: Any) -> Releases:
        """One decision that is carried out."""
        found = self.releases.decide(Facts(facts.pop("now", 0), **facts))
        done, failed = self.releases.carry_out(found.changes, lambda: False)
        assert (tuple(done), failed) == (found.changes, [])
        return found

    @property
    def accepting(self) -> list[Any]:
        rules = self.stand_in.filters.values()
        return [rule["predicates"] for rule in rules if rule["action"] == "ACCEPT"]


@pytest.fixture
def queue(tmp_path: Path, message: clusters.Message) -> Iterator[Queue]:
    stand_in = StandIn(message)
    with serving(tmp_path, stand_in) as luxi:
        yield Queue(stand_in, luxi)


def test_nothing_starts_outside_its_window(queue: Queue) -> None:
    """100 random windows and times; what is inside is counted minute by minute."""
    choose, started = random.Random(11), 0
    for _ in range(100):
        day, first, length = choose.randrange(7), choose.randrange(1440), choose.randrange(1, 1440)
        until, minute = (first + length) % 1440, choose.randrange(_WEEK)
        name = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[day]
        clock = f"{first // 60:02}:{first % 60:02}-{until // 60:02}:{until % 60:02}"
        every = choose.random() < 0.5
        inside = {
            (one * 1440 + first + more) % _WEEK
            for one in (range(7) if every else [day])
            for more in range(length)
        }
        queue.hold(f"WINDOW {clock}" if every else f"WINDOW {name} {clock}")
        number = queue.submit()
        assert queue.status(number) == "queued"
        offset = choose.choice((0, 3600, -5 * 3600))
        moment = MONDAY + timedelta(minutes=minute, seconds=choose.randrange(60) - offset)
        queue.round(now=int(moment.timestamp()) * 10**9, utc_offset=offset)
        expected = "success" if minute in inside else "queued"
        assert queue.status(number) == expected, (clock, name, every, moment)
        started += expected == "success"
        queue.luxi.cancel(number)
        queue.round(now=0)
        assert queue.accepting == []
    assert 20 < started < 80


def test_exactly_the_approved_job_starts(queue: Queue) -> None:
    queue.hold("APPROVE")
    numbers = [queue.submit() for _ in range(12)]
    queue.round()
    queue.round(approved=frozenset({numbers[0]}))
    statuses = [queue.status(one) for one in numbers]
    assert statuses == ["success"] + ["queued"] * 11
    assert queue.accepting == [[["jobid", ["=", "id", numbers[0]]]]]
    queue.round()
    assert queue.accepting == []


def test_jobs_without_such_a_rule_are_not_read(queue: Queue, monkeypatch: Any) -> None:
    queue.submit()
    monkeypatch.setattr(JobReleases, "_jobs", None)
    assert queue.round() == Releases()


def test_only_jobs_that_may_be_pending_are_read_again(queue: Queue) -> None:
    assert queue.status(queue.submit()) == "success"
    queue.hold("APPROVE")
    last = queue.submit()
    queue.round()
    read = list[Any]()
    rows = queue.luxi.rows
    queue.luxi.rows = lambda what, *more: read.append((what, *more)) or rows(what, *more)  # type: ignore[method-assign,func-returns-value]
    queue.round()
    assert ("job", ("id",), [">=", "id", last]) in read
    queue.round(approved=frozenset({last}))
    assert queue.status(last) == "success"


def test_a_job_that_can_start_only_later_is_held_again(queue: Queue, monkeypatch: Any) -> None:
    """The window closes while something else keeps the job in the queue."""
    queue.hold("WINDOW Mon 00:00-01:00")
    monkeypatch.setattr(queue.stand_in.queue, "advance", lambda: None)
    number = queue.submit()
    monday = int(MONDAY.timestamp()) * 10**9
    queue.round(now=monday)
    assert queue.accepting
    queue.round(now=monday + 2 * 3600 * 10**9)
    monkeypatch.undo()
    assert queue.accepting == []
    assert queue.status(number) == "queued"


@pytest.mark.parametrize("writes", range(3))
def test_a_daemon_that_ends_between_two_writes(queue: Queue, writes: int) -> None:
    """Whatever was written, only approved jobs start; the next daemon goes on and cleans up."""
    queue.hold("APPROVE")
    numbers = [queue.submit() for _ in range(4)]
    approved = frozenset(numbers[:2])
    found = queue.releases.decide(Facts(0, approved=approved))
    assert len(found.changes) == 2
    queue.releases.carry_out(found.changes[:writes], lambda: False)
    assert [queue.status(one) for one in numbers].count("success") == writes
    queue.releases = JobReleases(queue.luxi, Config)
    queue.round(approved=approved)
    assert [queue.status(one) for one in numbers] == ["success"] * 2 + ["queued"] * 2
    queue.round(approved=approved)
    assert queue.accepting == []


def test_a_change_that_fails_does_not_stop_the_others(queue: Queue) -> None:
    queue.hold("APPROVE")
    first, second = queue.submit(), queue.submit()
    found = queue.releases.decide(Facts(0, approved=frozenset({first, second})))
    queue.stand_in.filters.clear()
    wrong = found.changes[0]._replace(release="no uuid")
    done, failed = queue.releases.carry_out((wrong, found.changes[1]), lambda: False)
    assert [one.job for one in done] == [second]
    assert [one.subject for one in failed] == [A]
    assert "Unable to parse UUID" in failed[0].sentence


def test_a_round_makes_so_many_changes_and_the_next_one_goes_on(queue: Queue) -> None:
    queue.hold("WINDOW 00:00-24:00")
    numbers = [queue.submit() for _ in range(60)]
    found = queue.releases.decide(Facts(0))
    assert queue.releases.carry_out(found.changes, lambda: True)[0] == []
    ends = iter([False] * 5 + [True])
    assert len(queue.releases.carry_out(found.changes[:9], lambda: next(ends))[0]) == 5
    found = queue.releases.decide(Facts(0))
    done, held = queue.releases.carry_out(found.changes, lambda: False)
    assert (len(done), [one.brake for one in held]) == (50, ["round"])
    assert held[0].sentence.startswith("after 50 changes the round ends, it would release job ")
    queue.releases.carry_out(queue.releases.decide(Facts(0)).changes, lambda: False)
    assert {queue.status(one) for one in numbers} == {"success"}


# -- in a round


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    fakes = Fakes()
    with fakes.signals.handled():
        yield fakes
    fakes.wakeup.close()


@pytest.fixture
def approving(queue: Queue, fakes: Fakes) -> Callable[..., Round]:
    """A round while job 1 is held and approved."""
    queue.hold("APPROVE")
    queue.submit()
    tags = frozenset({"maintd:approve:1"})

    def run(mode: str = "act", *more: str) -> Round:
        master = worlds.node("n1", master=True)
        fakes.world = worlds.world([master], cluster_tags=tags | set(more))
        releasing = AtOnce(queue.releases, fakes.vote, lambda: fakes.signals.stopping)
        return fakes.rounds(Maintd(mode=mode), releasing=releasing).round()

    return run


def test_a_round_releases(approving: Callable[..., Round], queue: Queue) -> None:
    outcome = approving()
    assert [one.sentence for one in outcome.released] == [
        "release job 1: the cluster has the tag maintd:approve:1"
    ]
    assert queue.status(1) == "success"


@pytest.mark.parametrize(
    ("mode", "tags", "brake"),
    [("observe", (), "observe"), ("act", ("maintd:pause:not-now",), "pause")],
)
def test_a_round_that_must_not(
    approving: Callable[..., Round], queue: Queue, mode: str, tags: tuple[str, ...], brake: str
) -> None:
    outcome = approving(mode, *tags)
    assert outcome.released == ()
    assert [(one.subject, one.brake) for one in outcome.held] == [(A, brake)]
    assert "it would release job 1" in outcome.held[0].sentence
    assert queue.status(1) == "queued"


def test_an_undecided_vote_releases_nothing(
    approving: Callable[..., Round], queue: Queue, fakes: Fakes
) -> None:
    fakes.votes = [UNDECIDED]
    assert any("it would release job 1" in one.sentence for one in approving().held)
    fakes.votes = [fakes.vote(), UNDECIDED]
    assert any("it would release job 1" in one.sentence for one in approving().held)
    fakes.votes = [fakes.vote(), LOST]
    lost = approving()
    assert (lost.lost, lost.released) == (LOST.reason, ())
    assert any("is not the master any more" in one.sentence for one in lost.held)
    assert queue.status(1) == "queued"


@pytest.mark.parametrize("err", [StewardError("no luxid"), ZeroDivisionError("x")])
def test_a_fault_holds_all_jobs_and_the_round_goes_on(
    approving: Callable[..., Round], queue: Queue, monkeypatch: Any, err: Exception
) -> None:
    def fail(*_: object) -> None:
        raise err

    monkeypatch.setattr(queue.releases, "decide", fail)
    outcome = approving()
    assert outcome.fault == ""
    assert [one.brake for one in outcome.held] == ["filter-action"]
    assert outcome.held[0].sentence.startswith("jobs that filter rules hold stay held: ")
    assert queue.status(1) == "queued"


# -- beside the rounds


class Threads:
    """Threads that end when they are let."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []
        self.now, self.woken = 0.0, 0
        self.alive = False

    def start(self, name: str, work: Callable[[], None]) -> Threads:
        assert name == "held jobs"
        self.work.append(work)
        self.alive = True
        return self

    def is_alive(self) -> bool:
        return self.alive

    def join(self, timeout: float | None = None) -> None:
        raise AssertionError("a round waits")

    def wake(self) -> None:
        self.woken += 1

    def end(self) -> None:
        self.work.pop()()
        self.alive = False

    def beside(self, answers: list[Released | Exception]) -> Beside:
        def answer(question: Question) -> Released:
            found = answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        runtime = Runtime(monotonic=lambda: self.now, start=self.start)
        return Beside(answer, self.wake, runtime)


QUESTION = Question(Facts(0), "act", frozenset())
LATE = Held(A, "filter-action", "OPEN holds job 1: it is closed")
DONE = JobChange(RELEASE, 2, A, "u", 49, "it is open")


def test_a_round_does_not_wait() -> None:
    """It gets what was done before it, once; what is held is reported in each round."""
    threads = Threads()
    beside = threads.beside([Released((DONE,), (LATE,)), Released(held=(LATE,))])
    assert beside(QUESTION) == Released()
    threads.now = 25.0
    ((subject, brake, sentence, *_),) = beside(QUESTION).held
    assert (subject, brake) == ("cluster", "round")
    assert sentence == "the decision about held jobs takes 25 s so far; they stay held"
    assert len(threads.work) == 1
    threads.end()
    assert threads.woken == 1
    assert beside(QUESTION) == Released((DONE,), (LATE,))
    threads.now = 60.0
    assert [one.sentence for one in beside(QUESTION).held] == [
        LATE.sentence,
        "the decision about held jobs takes 35 s so far; they stay held",
    ]
    threads.end()
    assert beside(QUESTION) == Released(held=(LATE,))
    assert threads.woken == 1


def test_a_fault_of_the_thread_is_reported() -> None:
    threads = Threads()
    beside = threads.beside([ZeroDivisionError("x"), Released()])
    beside(QUESTION)
    threads.end()
    ((_, brake, sentence, *_),) = beside(QUESTION).held
    assert (brake, sentence.partition(": ")[0]) == (
        "filter-action",
        "jobs that filter rules hold stay held",
    )
    threads.end()
    assert beside(QUESTION) == Released()


def test_a_lost_vote_ends_the_next_round(queue: Queue, fakes: Fakes) -> None:
    threads = Threads()
    beside = threads.beside([Released(lost="n2 is the master"), Released()])
    rounds = fakes.rounds(Maintd(mode="act"), releasing=beside)
    assert rounds.round().lost == ""
    threads.end()
    assert threads.woken == 1
    assert rounds.round().lost == "n2 is the master"


def test_a_decision_has_an_end(queue: Queue) -> None:
    """Its time is over; the jobs stay held, and are released when there is time."""
    queue.hold("WINDOW 00:00-24:00")
    number = queue.submit()
    now = iter([0.0, 30.0])
    queue.releases = JobReleases(queue.luxi, Config, lambda: next(now, 0.0))
    late = queue.round()
    assert [one.sentence for one in late.held] == [
        "the work of one decision was not enough for job 1; the next rounds go on with what is left"
    ]
    assert queue.status(number) == "queued"
    queue.round()
    assert queue.status(number) == "success"


def test_a_pause_that_comes_during_the_decision(queue: Queue, fakes: Fakes) -> None:
    """The tags of the question are older."""
    queue.hold("WINDOW 00:00-24:00")
    number = queue.submit()

    def vote() -> Vote:
        queue.stand_in.ganeti.info["tags"] = ["maintd:pause:not-now"]
        return fakes.vote()

    found = AtOnce(queue.releases, vote, lambda: False)(QUESTION)
    assert found.done == ()
    assert [one.brake for one in found.held] == ["pause"]
    assert queue.status(number) == "queued"
