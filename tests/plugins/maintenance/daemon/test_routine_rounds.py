"""Routine work in a round: handed over with the repairs, waited for, remembered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from fake_parts import LOST, MASTER, UNDECIDED, Fakes, starting
from worlds import NOW, incident

from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.judge import RecordFault
from ganeti_steward.plugins.maintenance.engine.decision import Decision, Lasting, RoutineStarted
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.queue.calls import TaskOutcome
from ganeti_steward.plugins.maintenance.queue.routine_jobs import Seen
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import RoutinePlan, Task, Wait
from ganeti_steward.plugins.model.world import World

A = incident("n1")
TASK = Task("move", frozenset({"n2"}), frozenset(), "balance n2", [[{"OP_ID": "OP_X"}]])
WORK = RoutineStarted("rebalance", "r1", TASK, (0,))
SETTINGS = Maintd(mode="act", routine=("rebalance",))
RUNNING = RoutineJob(7, "rebalance", "move", "", ("n2",), (), status="running")


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    fakes = Fakes()
    with fakes.signals.handled():
        yield fakes
    fakes.wakeup.close()


def test_repairs_and_routine_work_are_handed_over_together(fakes: Fakes) -> None:
    fakes.stored = {A.uuid: A}
    fakes.decisions = iter([starting(A)._replace(routine=(WORK,))])
    outcome = fakes.rounds(SETTINGS).round()
    assert fakes.done("submit") == [("submit", (A.uuid, "rebalance cluster"))]
    assert (outcome.routine, outcome.waiting) == ((WORK,), (101, 901))


def test_jobs_of_before_are_waited_for(fakes: Fakes) -> None:
    fakes.routine = Seen((RUNNING, RUNNING._replace(number=8, status="success")))
    rounds = fakes.rounds(SETTINGS)
    outcome = rounds.round()
    assert outcome.waiting == (7,)
    fakes.jobs = {7: JobState(7, "success")}
    rounds._wait(outcome)
    assert fakes.done("ended") == [("ended", (7,))]


@pytest.mark.parametrize(
    ("outcome", "started"),
    [
        (TaskOutcome(refused="no such instance"), 0),
        (TaskOutcome(unknown="no answer"), 0),
        (TaskOutcome((5,), "a job was refused"), 1),
    ],
)
def test_a_refusal_is_reported(outcome: TaskOutcome, started: int, fakes: Fakes) -> None:
    fakes.outcomes["rebalance cluster"] = outcome
    fakes.decisions = iter([Decision(routine=(WORK,))])
    found = fakes.rounds(SETTINGS).round()
    assert len(found.routine) == started
    assert [tuple(one[:3]) for one in found.held] == [
        ("rebalance cluster", "submit", f"balance n2: {outcome.refused or outcome.unknown}")
    ]


@pytest.mark.parametrize("vote", [UNDECIDED, LOST])
def test_nothing_is_handed_over_without_a_vote(vote: object, fakes: Fakes) -> None:
    fakes.votes = [MASTER, vote]  # type: ignore[list-item]
    fakes.decisions = iter([Decision(routine=(WORK,))])
    rounds = fakes.rounds(SETTINGS)
    outcome = rounds.round()
    assert [one.brake for one in outcome.held] == ["master"]
    assert bool(outcome.lost) == (vote is LOST)
    assert fakes.done("submit") == []


def test_what_the_step_gets(fakes: Fakes) -> None:
    """Also what the decision before has left; free space that only a job can find out."""
    fakes.routine, fakes.tagged = Seen((RUNNING,), known=False), {9: JobState(9, "success")}
    fakes.record_faults = [RecordFault("u", "n", "rule u is no record")]
    fakes.decisions = iter([Decision(since={"rebalance": Lasting({"g": 5})})])
    rounds = fakes.rounds(SETTINGS)
    rounds.round()
    rounds.round()
    first, second = fakes.inputs
    assert (first.world.routine, first.world.tagged_jobs) == ((RUNNING,), fakes.tagged)
    assert (first.calls_known, first.unreadable) == (False, {"n": "rule u is no record"})
    assert [first.since, second.since] == [{}, {"rebalance": Lasting({"g": 5})}]
    assert fakes.storage


def test_a_preview_takes_what_waits_to_last_as_having_lasted(fakes: Fakes) -> None:
    """A mark of a round before is none of its own."""
    since = {"rebalance": Lasting({"g": 5}, {"g": {"mark": 5}})}
    fakes.decisions = iter([Decision(since=since), Decision(routine=(WORK,))])
    _, decision, _ = fakes.rounds(SETTINGS).decide(lasting=True)
    assert [one.since for one in fakes.inputs] == [{}, {"rebalance": Lasting({"g": 0})}]
    assert decision.routine == (WORK,)


def test_without_routine_work_nothing_is_read_for_it(fakes: Fakes) -> None:
    fakes.routine, fakes.tagged = Seen((RUNNING,)), {9: JobState(9, "success")}
    fakes.rounds().round()
    (inputs,) = fakes.inputs
    assert (inputs.world.routine, inputs.world.tagged_jobs, fakes.storage) == ((), {}, False)


def test_a_planner_that_raises_holds_its_work_only(fakes: Fakes) -> None:
    def plan(plugin: str, world: World) -> Sequence[RoutinePlan]:
        if plugin == "first":
            raise ValueError("broken")
        return [Wait(f"seen at {world.now - NOW}")]

    both = Maintd(mode="act", routine=("first", "second"))
    outcome = fakes.rounds(both, step=step, routine_planner=plan).round()
    assert [tuple(one[:3]) for one in outcome.held] == [
        ("first cluster", "wait", "it cannot be planned: ValueError: broken"),
        ("second cluster", "wait", "seen at 0"),
    ]
