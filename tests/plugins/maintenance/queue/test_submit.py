"""Intent first: what is handed over is found again, and never handed over twice."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from daemons import luxid
from records import signing_store

from ganeti_steward.allocators.jobs.operations import migrate
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.finding import EVACUATE
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.queue.calls import Calls
from ganeti_steward.plugins.maintenance.queue.submit import (
    HandedOver,
    LookedUp,
    cancel,
    job_states,
    look_up,
    noted,
    submit,
)
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.operations import after
from ganeti_steward.plugins.model.task import Task

if TYPE_CHECKING:
    from standin import StandIn

SECOND = 10**9
DELAY = {
    "OP_ID": "OP_TEST_DELAY",
    "duration": 0.1,
    "on_master": False,
    "on_nodes": [],
    "no_locks": True,
    "interruptible": False,
    "repeat": 0,
}


def uuid_of(number: int) -> str:
    return f"0f0f0f0f-1111-2222-3333-{number:012}"


def opened(number: int, command: str = "") -> Incident:
    """An incident with the submission its step has decided."""
    submission = Submission(f"s{number}", "move", (), (), 5, command=command)
    made = Incident(uuid_of(number), "n", "node2.lab", b'{"status":"evacuate"}', EVACUATE)
    return made._replace(jobs=(1,), open=(submission,))


def started(number: int, *jobs: Job, command: str = "") -> Started:
    task = Task("move", frozenset(), frozenset(), "why", jobs, command)
    return Started(uuid_of(number), f"s{number}", task)


def run(luxi: Luxi, *tasks: Started) -> HandedOver:
    incidents = {one.incident: opened(int(one.submission[1:]), one.task.command) for one in tasks}
    store = signing_store(luxi)
    for incident in incidents.values():
        store.write(incident)
    done = submit(tasks, incidents, store, luxi)
    assert store.read_all().incidents == incidents | done.incidents or done.unknown
    return done


def ends(done: HandedOver) -> dict[str, tuple[tuple[int, ...], str]]:
    """Submission -> numbers and refusal."""
    found = (one.open[0] for one in done.incidents.values())
    return {one.id: (one.jobs, one.refused) for one in found}


def test_all_tasks_in_one_call(stand_in: StandIn, luxi: Luxi) -> None:
    one, two = started(1, [DELAY, DELAY], [DELAY]), started(2, [DELAY])
    done = run(luxi, one, two)
    assert ends(done) == {"s1": ((1, 2), ""), "s2": ((3,), "")}
    assert done.unknown == {}
    assert [incident.jobs for incident in done.incidents.values()] == [(1, 2), (1, 3)]
    (call,) = stand_in.submissions
    for job, uuid, submission in zip(
        call, [uuid_of(1)] * 2 + [uuid_of(2)], ["s1", "s1", "s2"], strict=True
    ):
        for operation in job:
            assert [entry[:2] for entry in operation["reason"]] == [
                ["gnt:daemon:maintd", uuid],
                ["gnt:daemon:maintd:submission", submission],
            ]


def test_relative_dependencies_stay_within_the_task(stand_in: StandIn, luxi: Luxi) -> None:
    """They count back from the job itself, so that jobs of other tasks may come before it."""
    chain = ([DELAY], [after(DELAY, [-1])], [after(DELAY, [-2, -1, 1])])
    done = run(luxi, started(1, [DELAY]), started(2, *chain))
    assert ends(done)["s2"] == ((2, 3, 4), "")
    depends = [stand_in.queue.rows[n]["ops"][0]["depends"] for n in (2, 3, 4)]
    assert depends == [
        None,
        [[2, ["success"]]],
        [[2, ["success"]], [3, ["success"]], [1, ["success"]]],
    ]


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ([], "step move has neither jobs nor a command"),
        ([[]], "job 1 of step move has no operation"),
        (
            [[DELAY], [{"OP_ID": {1}}]],
            "job 2 of step move is not a list of operations: Object of typ",
        ),
        (
            [[5]],
            "job 1 of step move is not a list of operations: 'int' object has no attribute 'get'",
        ),
        (
            [[DELAY | {"depends": [5]}]],
            "job 1 of step move is not a list of operations: cannot unpa",
        ),
        ([[migrate("ü")]], "job 1 of step move holds other text than ASCII, which luxid does no"),
        ([[after(DELAY, [-1])]], "job 1 of step move depends on a job that is not in the same"),
        ([[DELAY], [after(DELAY, [-2])]], "job 2 of step move depends on a job that is not in th"),
        ([[after(DELAY, [0])]], "job 1 of step move depends on a job that is not in the same"),
    ],
)
def test_a_task_luxid_must_not_get(
    jobs: Sequence[Any], fault: str, stand_in: StandIn, luxi: Luxi
) -> None:
    """It is refused; the others of the round go on."""
    done = run(luxi, started(1, *jobs), started(2, [DELAY]))
    numbers, refused = ends(done)["s1"]
    assert numbers == ()
    assert refused.startswith(fault)
    assert ends(done)["s2"] == ((1,), "")
    assert len(stand_in.submissions) == 1


def test_an_operation_luxid_does_not_know(stand_in: StandIn, luxi: Luxi) -> None:
    """Luxid takes none of the call then; the task it is in is found."""
    wrong = started(2, [DELAY], [{"OP_ID": "OP_NO_SUCH"}])
    done = run(luxi, started(1, [DELAY]), wrong, started(3, [DELAY]))
    found = ends(done)
    assert found["s1"] == ((1,), "")
    assert found["s3"] == ((2,), "")
    numbers, refused = found["s2"]
    assert numbers == ()
    assert refused.endswith("Failed to parse request: SubmitManyJobs: Unknown opcode OP_NO_SUCH")
    assert len(stand_in.queue.rows) == 2


def test_a_job_that_is_refused_alone(tmp_path: Path) -> None:
    def answer(method: str, arguments: list[Any]) -> Any:
        if method == "SubmitManyJobs":
            return [[True, 7], [False, "disk full"], [True, 9]]
        return arguments[0]

    with luxid(tmp_path, answer) as daemon:
        luxi = Luxi(daemon.path)
        tasks = [started(1, [DELAY], [DELAY]), started(2, [DELAY])]
        incidents = {one.incident: opened(int(one.submission[1:])) for one in tasks}
        done = submit(tasks, incidents, signing_store(luxi), luxi)
    assert ends(done) == {"s1": ((7,), "disk full"), "s2": ((9,), "")}


def test_a_drained_queue_is_no_fault_of_the_tasks(stand_in: StandIn, luxi: Luxi) -> None:
    """Luxid has taken none: what was recorded is taken back at once."""
    luxi.call("SetDrainFlag", True)
    done = run(luxi, started(1, [DELAY]), started(2, [DELAY]))
    assert {text.rsplit(": ", 1)[1] for text in done.withdrawn.values()} == {"Queue drained"}
    assert [(one.jobs, one.open) for one in done.incidents.values()] == [((1,), ())] * 2
    assert stand_in.submissions == []


def test_luxid_that_is_not_there(luxi: Luxi, tmp_path: Path) -> None:
    """The call was not made: that is known without looking anywhere."""
    calls, gone = Calls(), Luxi(str(tmp_path / "none"))
    done = submit(
        [started(1, [DELAY])], {uuid_of(1): opened(1)}, signing_store(gone), gone, calls=calls
    )
    assert "runs on the master only" in done.withdrawn["s1"]
    assert "that is not recorded" in done.unknown["s1"]
    assert look_up(opened(1).open, luxi, calls, going_on).found == {"s1": ()}


def going_on(submissions: Collection[str]) -> dict[str, str]:
    """The calls of an earlier daemon have not ended."""
    return dict.fromkeys(submissions, "a call goes on")


def over(submissions: Collection[str]) -> dict[str, str]:
    """The calls of an earlier daemon have ended."""
    return {}


def test_an_answer_that_never_comes(tmp_path: Path, luxi: Luxi) -> None:
    """The connection was closed, so the call is over: the queue has what came of it."""

    def answer(method: str, arguments: list[Any]) -> Any:
        if method == "SubmitManyJobs":
            luxi.call(method, arguments[0])
            return None
        return arguments[0]

    calls = Calls()
    with luxid(tmp_path, answer) as daemon:
        client = Luxi(daemon.path)
        incidents = {uuid_of(1): opened(1)}
        done = submit([started(1, [DELAY])], incidents, signing_store(client), client, calls=calls)
    assert done.incidents == {}
    assert "the connection was closed before the answer" in done.unknown["s1"]
    assert [request["method"] for request in daemon.requests] == ["SubmitManyJobs"]
    assert look_up(opened(1).open, luxi, calls, going_on).found == {"s1": (1,)}


def test_numbers_that_cannot_be_recorded(tmp_path: Path) -> None:
    refusal = json.dumps({"success": False, "result": "no"}).encode() + b"\x03"

    def answer(method: str, arguments: list[Any]) -> Any:
        return [[True, 7]] if method == "SubmitManyJobs" else refusal

    with luxid(tmp_path, answer) as daemon:
        luxi = Luxi(daemon.path)
        done = submit([started(1, [DELAY])], {uuid_of(1): opened(1)}, signing_store(luxi), luxi)
    assert done.incidents[uuid_of(1)].jobs == (1, 7)
    assert done.unknown["s1"].startswith("the job numbers (7) are not recorded: ")


def test_two_submissions_of_one_incident(luxi: Luxi) -> None:
    incident = opened(1)
    incident = incident._replace(open=(*incident.open, Submission("s2", "tag", (), (), 5)))
    store = signing_store(luxi)
    both = [started(1, [DELAY]), started(2, [DELAY])._replace(incident=uuid_of(1))]
    done = submit(both, {uuid_of(1): incident}, store, luxi)
    (found,) = done.incidents.values()
    assert [(one.id, one.jobs) for one in found.open] == [("s1", (1,)), ("s2", (2,))]
    assert store.read_all().incidents == done.incidents


def test_commands_are_not_handed_over(stand_in: StandIn, luxi: Luxi) -> None:
    assert run(luxi, started(1, command="fix")) == HandedOver({}, {})
    assert stand_in.submissions == []


def test_after_a_crash_jobs_are_found(luxi: Luxi) -> None:
    run(luxi, started(1, [DELAY], [DELAY]), started(2, [DELAY]))
    lost = [opened(number).open[0] for number in (1, 2, 3)]
    known = lost[0]._replace(id="known", jobs=(5,))
    refused = lost[0]._replace(id="refused", refused="no")
    command = lost[0]._replace(id="command", command="fix")
    found = look_up([*lost, known, refused, command], luxi, Calls(), over)
    assert found == LookedUp({"s1": (1, 2), "s2": (3,), "s3": ()})


def test_what_luxid_may_be_storing_is_waited_for(stand_in: StandIn, luxi: Luxi) -> None:
    """However long that takes; what is stored already is known, if it is known to be all."""
    run(luxi, started(1, [DELAY], [DELAY]), started(2, [DELAY]))
    one, two, three = (opened(number).open[0] for number in (1, 2, 3))
    some = [one._replace(size=2), two._replace(size=2), three._replace(size=1)]
    found = look_up([*some, one._replace(id="s4")], luxi, Calls(), going_on)
    assert found == LookedUp({"s1": (1, 2)}, awaited=going_on(("s2", "s3", "s4")))


def test_a_job_of_a_job_is_none_of_the_submission(stand_in: StandIn, luxi: Luxi) -> None:
    """It has the trail of the one that has submitted it, and counts for nothing."""
    run(luxi, started(1, [DELAY]))
    (parent,) = stand_in.queue.rows.values()
    luxi.call("SubmitManyJobs", [[DELAY | {"reason": parent["ops"][0]["reason"]}]])
    wanted = opened(1).open[0]._replace(size=2)
    assert look_up([wanted], luxi, Calls(), going_on).found == {}
    assert look_up([wanted], luxi, Calls(), over).found == {"s1": (1, 2)}


def test_archived_jobs_are_found(stand_in: StandIn, luxi: Luxi) -> None:
    run(luxi, started(1, [DELAY]))
    luxi.call("ArchiveJob", 1)
    assert look_up(opened(1).open, luxi, Calls(), over).found == {"s1": (1,)}
    later = opened(1).open[0]._replace(after=1)
    assert look_up([later], luxi, Calls(), over).found == {"s1": ()}


def test_nothing_to_look_up_is_no_call(tmp_path: Path) -> None:
    assert look_up([], Luxi(str(tmp_path / "none")), Calls(), going_on) == LookedUp()


def test_states(stand_in: StandIn, luxi: Luxi) -> None:
    done = run(luxi, started(1, [DELAY], [migrate("nosuch")]))
    (incident,) = done.incidents.values()
    gone = noted(opened(2), "s2", (99,))
    states = job_states([incident, gone, opened(3)], luxi)
    fault = JobState(2, "error", "Instance 'nosuch' not known")
    assert {n: state._replace(results=()) for n, state in states.items()} == {
        1: JobState(1, "success"),
        2: fault,
        99: JobState.lost(99),
    }
    assert job_states([], luxi) == {}


def test_cancel(stand_in: StandIn, luxi: Luxi) -> None:
    luxi.call("test.pace", 60)
    run(luxi, started(1, [DELAY], [after(DELAY, [-1])]))
    assert cancel([2, 1, 9], luxi) == {
        2: "Dequeued job 2",
        1: "Job no longer waiting, can't cancel (informed it anyway)",
        9: "Job 9 not found in queue",
    }
    assert [state.status for state in luxi.states([1, 2])] == ["running", "canceled"]


def test_cancel_without_luxid(tmp_path: Path) -> None:
    (text,) = cancel([1], Luxi(str(tmp_path / "none"))).values()
    assert text.endswith("luxid runs on the master only")
