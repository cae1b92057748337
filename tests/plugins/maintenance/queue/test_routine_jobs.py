"""Jobs of routine work are handed over with the repairs' and read back from the queue alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from records import signing_store
from test_submit import DELAY, SECOND, run, started

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import LuxiQueue
from ganeti_steward.plugins.maintenance.engine.decision import RoutineStarted
from ganeti_steward.plugins.maintenance.queue.routine_jobs import RECENT, RoutineJobs
from ganeti_steward.plugins.maintenance.queue.submit import submit
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.task import Task

if TYPE_CHECKING:
    from standin import StandIn

NODES, INSTANCES = frozenset({"n2", "n1"}), frozenset({"i1"})
TASK = Task("move", NODES, INSTANCES, "balance it", ([DELAY], [DELAY, DELAY]), subject="group1")
WORK = RoutineStarted("rebalance", "r1", TASK, (2048, 0))


def ours(number: int, **more: object) -> RoutineJob:
    made = RoutineJob(number, "rebalance", "move", "group1", ("n1", "n2"), ("i1",))
    return made._replace(**more)  # type: ignore[arg-type]


def without_times(jobs: tuple[RoutineJob, ...]) -> list[RoutineJob]:
    return [one._replace(submitted=0, ended=0) for one in jobs]


def test_one_call_and_back(stand_in: StandIn, luxi: Luxi) -> None:
    """What a task is stands in its jobs; a job without it is none."""
    run(luxi, started(9, [DELAY]))
    before = len(stand_in.submissions)
    done = submit([], {}, signing_store(luxi), luxi, [WORK])
    assert len(stand_in.submissions) == before + 1
    assert done.routine["r1"].numbers == (2, 3)
    now = stand_in.clock()
    seen = RoutineJobs(luxi, lambda: True).look(now)
    assert seen.known
    found = [one._replace(status="", error="") for one in without_times(seen.jobs)]
    assert found == [ours(2, copied=2048), ours(3)]
    assert all(abs(one.submitted - now) < 3600 * SECOND for one in seen.jobs)


def test_repairs_and_routine_work_are_one_call(stand_in: StandIn, luxi: Luxi) -> None:
    """A task that luxid cannot read is found among both kinds."""
    bad: list[Job] = [[{"OP_ID": "OP_NO_SUCH"}]]
    wrong = RoutineStarted("rebalance", "r2", TASK._replace(jobs=bad), (0,))
    done = submit([], {}, signing_store(luxi), luxi, [WORK, wrong])
    assert (done.routine["r1"].numbers, done.routine["r1"].refused) == ((1, 2), "")
    assert "OP_NO_SUCH" in done.routine["r2"].refused


def test_ended_jobs_are_known_for_an_hour(stand_in: StandIn, luxi: Luxi) -> None:
    stand_in.fail("OP_TEST_DELAY", "", "no disk")
    submit([], {}, signing_store(luxi), luxi, [WORK])
    jobs, now = RoutineJobs(luxi, lambda: True), stand_in.clock()
    first = jobs.look(now).jobs
    assert [(one.status, one.error, one.open, one.failed) for one in first] == [
        ("error", "no disk", False, True)
    ] * 2
    assert all(one.ended for one in first)
    assert not jobs.running
    assert len(jobs.look(now + RECENT - 60 * SECOND).jobs) == 2
    assert jobs.look(now + RECENT + 60 * SECOND).jobs == ()


def test_each_job_is_read_once(stand_in: StandIn, luxi: Luxi) -> None:
    """Once no lower number can appear any more."""
    stand_in.pace(3600)
    submit([], {}, signing_store(luxi), luxi, [WORK])
    over = iter((False, True, True))
    jobs, now = RoutineJobs(luxi, lambda: next(over)), stand_in.clock()
    conditions: list[object] = []
    rows = luxi.rows
    luxi.rows = lambda what, fields, condition=None: (  # type: ignore[method-assign]
        conditions.append(condition),
        rows(what, fields, condition),
    )[1]
    assert [jobs.look(now).known for _ in range(3)] == [False, True, True]
    assert jobs.running
    looks = [one for one in conditions if isinstance(one, list) and one[0] == ">"]
    assert looks == [[">", "id", 0]] * 4 + [[">", "id", 2]]


def test_numbers_that_are_given_out_again(stand_in: StandIn, luxi: Luxi) -> None:
    """The jobs of the last time are forgotten with their numbers."""
    submit([], {}, signing_store(luxi), luxi, [WORK])
    given = [0]
    jobs, now = RoutineJobs(luxi, lambda: True, lambda: given[0]), stand_in.clock()
    first = jobs.look(now).jobs
    stand_in.queue.last = 0
    submit([], {}, signing_store(luxi), luxi, [WORK])
    given[0] = 2
    second = jobs.look(now).jobs
    assert [one.number for one in first] == [one.number for one in second] == [1, 2]
    assert all(old.submitted < new.submitted for old, new in zip(first, second, strict=True))


def test_jobs_of_an_earlier_daemon_are_waited_for(stand_in: StandIn, luxi: Luxi) -> None:
    """Luxid stores them while this one begins."""
    over = [False]
    jobs, now = RoutineJobs(luxi, lambda: over[0]), stand_in.clock()
    assert not jobs.look(now).known
    submit([], {}, signing_store(luxi), luxi, [WORK])
    assert not jobs.look(now + 3600 * SECOND).known
    over[0] = True
    assert [one.number for one in jobs.look(now).jobs] == [1, 2]


def test_without_routine_work_the_queue_is_not_read(stand_in: StandIn, luxi: Luxi) -> None:
    """Except for jobs that were begun before it was switched off."""
    stand_in.pace(3600)
    queue = LuxiQueue(luxi, signing_store(luxi))
    queue.submit([], {}, [WORK])
    now = stand_in.clock()
    assert queue.routine(now, wanted=False).jobs == ()
    assert len(queue.routine(now, wanted=True).jobs) == 2
    assert len(queue.routine(now, wanted=False).jobs) == 2


def test_jobs_that_tags_name(stand_in: StandIn, luxi: Luxi) -> None:
    submit([], {}, signing_store(luxi), luxi, [WORK])
    prefix = "ganeti:watcher:autorepair:pending:fix-storage:1-2"
    for row, text in zip(stand_in.ganeti.instances, ("1+2", "", "7x+99"), strict=False):
        row["tags"] = [f"{prefix}:1700000000:{text}"]
    found = LuxiQueue(luxi, signing_store(luxi)).tagged_jobs()
    assert {number: state.ended for number, state in found.items()} == {1: True, 2: True, 99: True}
    assert found[99] == JobState.lost(99)
