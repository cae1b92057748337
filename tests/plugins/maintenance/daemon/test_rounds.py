"""The loop: what is done in which order, and what a fault leaves undone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from errno import ENOSPC, EPIPE
from typing import Final

import pytest
from fake_parts import (
    LOST,
    MASTER,
    UNDECIDED,
    A,
    B,
    Fakes,
    deciding,
    fault,
    starting,
    two_incidents,
)
from worlds import NOW

from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.mastership import NotMaster
from ganeti_steward.plugins.maintenance.daemon.parts import Observers
from ganeti_steward.plugins.maintenance.edges.judge import RecordFault
from ganeti_steward.plugins.maintenance.engine.decision import (
    NOT_KNOWN,
    CommandResult,
    Decision,
    Inputs,
    PluginPlan,
    Recent,
    Started,
)
from ganeti_steward.plugins.maintenance.engine.routine import RoutinePlanner
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.engine.tasks import MOST_REPEATS, Planner
from ganeti_steward.plugins.model.incident import Maintenance, Submission
from ganeti_steward.plugins.model.orphan import OrphanJob
from ganeti_steward.plugins.model.storage import NodeStorage
from ganeti_steward.plugins.model.task import MASTER_FAILOVER, Task, Wait
from ganeti_steward.plugins.model.world import Reported, Silent, Succession, Watcher, World


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with two_incidents() as fakes:
        yield fakes


def test_the_order_of_a_round(fakes: Fakes) -> None:
    """What ends is recorded before what begins."""
    decision = starting(A)._replace(removed=(B.uuid,), cancels=(7,))
    outcome = deciding(fakes, decision).rounds().round()
    assert fakes.done() == [
        ("vote", None),
        ("read", None),
        ("states", ()),
        ("world", None),
        ("watch", 3),
        ("step", None),
        ("remove", B.uuid),
        ("write", A.uuid),
        ("cancel", (7,)),
        ("vote", None),
        ("submit", (A.uuid,)),
    ]
    assert fakes.stored[A.uuid].open[0].jobs == fakes.stored[A.uuid].jobs == (101,)
    assert outcome.waiting == (101,)
    assert outcome.incidents == fakes.stored
    assert outcome.held == ()
    assert [change.event for change in outcome.changes] == ["first task submitted"]
    assert fakes.rewrites == [True]


def test_free_space_is_queried_only_where_instances_may_move(fakes: Fakes) -> None:
    fakes.rounds().round()
    assert fakes.storage
    fakes.stored = {A.uuid: A._replace(status="completed")}
    fakes.rounds().round()
    assert not fakes.storage
    fakes.observations = {B.node: Reported(B.original, "evacuate", "", 0)}
    fakes.rounds().round()
    assert fakes.storage


def test_the_storage_of_ailing_nodes_is_read_where_it_is_repaired(fakes: Fakes) -> None:
    read = {"n1": NodeStorage("xenvg")}
    wanted = Maintd(mode="act", repair_storage=True)
    fakes.rounds(wanted, read_storage=lambda world: read).round()
    fakes.rounds(read_storage=lambda world: read).round()
    fakes.votes = [UNDECIDED]
    fakes.rounds(wanted, read_storage=lambda world: read).round()
    assert [one.world.storage for one in fakes.inputs] == [read, {}, {}]


def test_what_the_watcher_does_is_read_in_each_round(fakes: Fakes) -> None:
    """Also where the vote is undecided: nothing is submitted for it."""
    seen: list[tuple[int, int]] = []

    def read(world: World, last_job: int) -> World:
        seen.append((world.now, last_job))
        return world._replace(watcher=Watcher(paused=7))

    fakes.jobs = {41: JobState(41, "running")}
    fakes.votes = [MASTER, UNDECIDED]
    rounds = fakes.rounds(read_watcher=read)
    rounds.round()
    rounds.round()
    assert [one.world.watcher.paused for one in fakes.inputs] == [7, 7]
    assert seen == [(NOW, 41)] * 2


def test_since_when_an_instance_is_down_is_remembered_or_taken_as_long(fakes: Fakes) -> None:
    down = Decision(recent=Recent(down={"web": NOW}))
    rounds = deciding(fakes, down, down, down).rounds()
    rounds.round()
    rounds.round()
    rounds = deciding(fakes, down, down).rounds()
    rounds.decide(lasting=True)
    known = [one.recent.down for one in fakes.inputs]
    assert known == [{}, {"web": NOW}, {}, {"web": 0}]


def test_a_lost_vote_ends_the_daemon(fakes: Fakes) -> None:
    fakes.votes = [LOST]
    with pytest.raises(NotMaster, match="name n2"):
        fakes.rounds().run()
    assert fakes.done() == [("vote", None)]


def test_a_vote_lost_before_the_submission_ends_the_daemon(fakes: Fakes) -> None:
    """What was recorded before it is reported, and nothing is recorded after it."""
    fakes.votes = [MASTER, LOST]
    with pytest.raises(NotMaster):
        deciding(fakes, starting(A, B)).rounds().run()
    assert fakes.done("write", "submit") == [("write", A.uuid), ("write", B.uuid)]
    (outcome,) = fakes.rounds_reported
    assert [one.after and one.after.uuid for one in outcome.changes] == [A.uuid, B.uuid]
    assert [(one.subject, one.brake) for one in outcome.held] == [
        (A.uuid, "master"),
        (B.uuid, "master"),
    ]
    assert outcome.started == ()


@pytest.mark.parametrize("err", [fault("no luxid"), ZeroDivisionError("x")])
def test_what_was_recorded_is_reported_whatever_fails_after_it(
    err: Exception, fakes: Fakes
) -> None:
    fakes.faults["submit", (A.uuid,)] = err
    outcome = deciding(fakes, starting(A)).rounds().round()
    assert outcome.fault.endswith(str(err))
    assert [one.after and one.after.status for one in outcome.changes] == ["pending"]
    assert outcome.incidents[A.uuid].status == "pending"


def test_votes_that_stay_undecided_are_no_repetitions(fakes: Fakes) -> None:
    """Each time an intent is recorded and taken back; nothing has succeeded."""
    fakes.stored = {B.uuid: B}
    fakes.observations = {B.node: Reported(B.original, B.action, "", NOW)}
    drain: Job = [{"OP_ID": "OP_NODE_SET_PARAMS"}]
    nodes = frozenset({B.node_name})
    task = Task("drain", nodes, frozenset(), f"drain {B.node_name}", (drain,))
    rounds = fakes.rounds(
        Maintd(mode="act", hold_time=0), step=step, planner=lambda *_: [PluginPlan("x", task)]
    )
    for _ in range(3 * MOST_REPEATS):
        fakes.votes = [MASTER, UNDECIDED]
        rounds.round()
    incident = fakes.stored[B.uuid]
    assert (incident.status, incident.open, incident.repeated) == ("pending", (), 0)
    assert fakes.done("submit") == []
    rounds.round()
    assert fakes.done("submit") == [("submit", (B.uuid,))]


def test_jobs_without_a_record_are_waited_for(fakes: Fakes) -> None:
    """A job that luxid is just taking has no number yet."""
    fakes.orphans = [OrphanJob(number, "gone", "s", (), ()) for number in (0, 15)]
    outcome = fakes.rounds().round()
    assert outcome.waiting == (15,)
    (inputs,) = fakes.inputs
    assert inputs.world.orphans == tuple(fakes.orphans)


def test_what_creations_are_held_for_is_compared_in_every_round(fakes: Fakes) -> None:
    fakes.stored = {A.uuid: A}
    rounds = fakes.rounds()
    rounds.round()
    rounds.round()
    assert fakes.reconciled == [{A.uuid: A}] * 2
    fakes.votes = [UNDECIDED]
    rounds.round()
    assert len(fakes.reconciled) == 2


def test_an_undecided_vote_writes_nothing(fakes: Fakes) -> None:
    fakes.votes = [UNDECIDED]
    outcome = deciding(fakes, starting(A)).rounds().round()
    assert fakes.done("write", "submit") == []
    assert not fakes.storage
    (held,) = outcome.held
    assert (held.subject, held.brake) == ("cluster", "master")
    assert "none of 3 master candidates answered" in held.sentence
    assert outcome.undecided == "none of 3 master candidates answered"
    assert outcome.changes == ()


def test_an_undecided_vote_before_the_submission_withdraws_it(fakes: Fakes) -> None:
    fakes.votes = [MASTER, UNDECIDED]
    outcome = deciding(fakes, starting(A, B)).rounds().round()
    assert fakes.done("submit") == []
    assert [one.open for one in fakes.stored.values()] == [(), ()]
    assert [held.subject for held in outcome.held] == [A.uuid, B.uuid]
    assert "undecided" in outcome.held[0].sentence


def test_without_a_record_nothing_is_submitted(fakes: Fakes) -> None:
    fakes.faults["write", A.uuid] = fault()
    outcome = deciding(fakes, starting(A, B)).rounds().round()
    assert fakes.done("submit") == [("submit", (B.uuid,))]
    (held,) = outcome.held
    assert (held.subject, held.brake) == (A.uuid, "record")
    assert held.sentence == "its record could not be written: luxid is not running"
    assert [change.after for change in outcome.changes] == [starting(B).records[0]]


@pytest.mark.parametrize("error", [fault("luxid is not running"), KeyError("x")])
def test_a_fault_of_one_removal_stays_its_own(fakes: Fakes, error: Exception) -> None:
    fakes.faults["remove", A.uuid] = error
    decision = starting(B)._replace(removed=(A.uuid,))
    outcome = deciding(fakes, decision).rounds().round()
    assert [(held.subject, held.brake) for held in outcome.held] == [(A.uuid, "record")]
    assert fakes.done("submit") == [("submit", (B.uuid,))]
    assert set(outcome.incidents) == {A.uuid, B.uuid}


def test_a_submission_without_an_answer_is_held_and_looked_up(fakes: Fakes) -> None:
    fakes.unknown = {A.uuid: "no answer within 120 s"}
    rounds = deciding(fakes, starting(A, B)).rounds()
    outcome = rounds.round()
    (held,) = outcome.held
    assert held.subject == A.uuid
    assert held.sentence == "drain n1: no answer within 120 s"
    assert outcome.waiting == (102,)
    fakes.queued["submission-of-n1"] = (9,)
    rounds.round()
    assert fakes.inputs[1].found == {"submission-of-n1": (9,)}


def test_a_fault_of_the_round_is_reported(fakes: Fakes) -> None:
    fakes.faults["read", None] = fault("nothing listens at the socket")
    outcome = fakes.rounds().round()
    assert outcome.fault == "nothing listens at the socket"
    assert outcome.world is None
    fakes.faults["read", None] = ZeroDivisionError("by zero")
    assert fakes.rounds().round().fault == "ZeroDivisionError: by zero"


def test_a_plan_that_raises_is_a_wait(fakes: Fakes) -> None:
    (planned,) = planned_by(fakes)
    assert isinstance(planned.plan, Wait)
    assert planned.plan.reason == "it cannot be planned: ValueError: the planner is broken"


def test_a_record_that_cannot_be_read_holds_its_node(fakes: Fakes) -> None:
    fakes.record_faults = [RecordFault("u", A.node, "filter rule u is no record")]
    fakes.observations = {uuid: Silent(0, "test") for uuid in (A.node, B.node)}
    (planned,) = planned_by(fakes)
    assert isinstance(planned.plan, Wait)
    assert planned.plan.reason == "nothing is done to the node: filter rule u is no record"
    assert set(fakes.inputs[0].world.observations) == {B.node}
    assert [held.subject for held in fakes.rounds_reported[0].held] == ["u"]


def test_a_record_that_names_no_node_holds_none(fakes: Fakes) -> None:
    """Any rule can look like a record, and must not stop all work; it is reported."""
    fakes.record_faults = [RecordFault("u", "", "filter rule u is no record")]
    fakes.observations = {uuid: Silent(0, "test") for uuid in (A.node, B.node)}
    (planned,) = planned_by(fakes)
    assert "nothing is done" not in str(planned.plan)
    assert set(fakes.inputs[0].world.observations) == {A.node, B.node}
    assert fakes.inputs[0].unreadable == {}
    assert [held.subject for held in fakes.rounds_reported[0].held] == ["u"]


def test_a_record_that_is_ignored_holds_nothing(fakes: Fakes) -> None:
    fakes.record_notes = [RecordFault(f"u{n:02}", A.node, "filter rule u") for n in range(25)]
    fakes.observations = {A.node: Silent(0, "test")}
    (planned,) = planned_by(fakes)
    assert planned.plan.reason == "it cannot be planned: ValueError: the planner is broken"
    assert [*fakes.inputs[0].world.observations] == [A.node]
    held = fakes.rounds_reported[0].held
    assert [one.subject for one in held] == [*(f"u{n:02}" for n in range(20)), "cluster"]
    assert held[-1].sentence == "5 more filter rules look like incidents"


def test_without_a_won_vote_no_record_is_written(fakes: Fakes) -> None:
    fakes.votes = [UNDECIDED]
    fakes.rounds().round()
    fakes.rounds().decide()
    assert fakes.rewrites == [False, False]


def planned_by(fakes: Fakes) -> Sequence[PluginPlan]:
    """What the step gets for incident A."""
    plans: list[Sequence[PluginPlan]] = []

    def step(
        inputs: Inputs, settings: Maintd, planner: Planner, routine: RoutinePlanner
    ) -> Decision:
        plans.append(planner(A, inputs.world))
        return fakes.step(inputs, settings, planner, routine)

    fakes.rounds_reported.append(fakes.rounds(step=step).round())
    return plans[0]


def test_an_observer_that_raises_ends_nothing(fakes: Fakes) -> None:
    """Neither one of rounds nor one of steps, whatever it raises."""

    def broken(*_: object) -> None:
        raise failures.pop(0)

    failures: list[Exception] = []
    observers = Observers(
        {"this fails": broken, "the test": fakes.rounds_reported.append}, {"that fails": broken}
    )
    deciding(fakes, starting(A), starting(B))
    rounds = fakes.rounds(observers=observers)
    full = OSError(ENOSPC, os.strerror(ENOSPC))
    for one in (full, BrokenPipeError(EPIPE, os.strerror(EPIPE)), ValueError("no"), MemoryError()):
        failures += [one, one]
        observers.round(rounds.round())
        that, this = observers.problems
        fault = one.strerror if isinstance(one, OSError) else f"{type(one).__name__}: {one}"
        assert that.sentence.startswith(f"that fails: {fault} (")
        assert this.sentence.startswith(f"this fails: {fault} (")
    assert [outcome.fault for outcome in fakes.rounds_reported] == [""] * 4
    assert [len(outcome.started) for outcome in fakes.rounds_reported] == [1, 1, 0, 0]


# Repair commands


def test_a_command_goes_to_the_agent_of_the_node(fakes: Fakes) -> None:
    deciding(fakes, starting(A, command="fix")).rounds().round()
    assert fakes.done("command") == [("command", ("n1", "fix"))]
    assert fakes.done("submit") == []


HANDOVER: Final = Submission(
    "submission-of-n1",
    MASTER_FAILOVER,
    ("n1", "n2"),
    (),
    NOW,
    command=MASTER_FAILOVER,
    agent="n2",
)
TAKE_OVER: Final = Task(
    MASTER_FAILOVER,
    frozenset({"n1", "n2"}),
    frozenset(),
    "why",
    command=MASTER_FAILOVER,
    agent="n2",
)
HANDED: Final = A._replace(open=(HANDOVER,), maintenance=Maintenance("refuse", with_master=True))


def test_the_agent_of_the_candidate_is_requested_after_the_record(fakes: Fakes) -> None:
    started = Started(A.uuid, HANDOVER.id, TAKE_OVER)
    deciding(fakes, Decision(records=(HANDED,), started=(started,))).rounds().round()
    wanted = json.dumps({"maintenance": A.uuid, "master": "n1"}, separators=(",", ":"))
    assert fakes.done("take over") == [("take over", ("n2", wanted))]
    names = [call.what for call in fakes.calls]
    assert names.index("write") < names.index("take over")


def test_jobs_that_came_since_the_reading_keep_the_master(fakes: Fakes) -> None:
    """The intent is taken back: nothing was requested."""
    started = Started(A.uuid, HANDOVER.id, TAKE_OVER)
    fakes.meanwhile = {"write": lambda: fakes.open_jobs.append(18)}
    rounds = deciding(fakes, Decision(records=(HANDED,), started=(started,))).rounds()
    outcome = rounds.round()
    assert fakes.done("take over") == []
    assert "jobs have come meanwhile: 18; held: why" in [one.sentence for one in outcome.held]
    assert fakes.stored[A.uuid].open == ()


def test_nothing_is_recorded_while_another_node_becomes_the_master(fakes: Fakes) -> None:
    """What the old master writes then could overwrite what the new one writes; until the answer is
    known, or five minutes have passed."""
    fakes.stored = {A.uuid: HANDED, B.uuid: B}
    change = Decision(records=(B._replace(note="changed"),))
    rounds = deciding(fakes, *[change] * 4).rounds()
    outcome = rounds.round()
    assert fakes.done("write") == []
    assert "nothing is submitted or recorded: n2 was requested" in outcome.held[-1].sentence
    fakes.results = {HANDOVER.id: CommandResult(False, "no connection", NOT_KNOWN)}
    rounds.round()
    assert fakes.done("write") == []
    fakes.results = {HANDOVER.id: CommandResult(False, "exit status 1")}
    rounds.round()
    assert fakes.done("write") != []


def test_who_may_become_the_master_is_read_only_where_that_is_wanted(fakes: Fakes) -> None:
    """Each candidate is queried, and waited for."""
    current = frozenset({"192.0.2.2"})
    rounds = fakes.rounds(current_candidates=lambda: current)
    fakes.open_jobs = [17]
    rounds.round()
    assert fakes.inputs[-1].world.succession is None
    fakes.stored = {A.uuid: HANDED._replace(open=())}
    rounds.round()
    found = fakes.inputs[-1].world.succession
    assert found == Succession(current, (17,))


def test_the_results_of_open_commands_go_to_the_step(fakes: Fakes) -> None:
    rounds = deciding(fakes, starting(A, command="fix")).rounds()
    rounds.round()
    result = CommandResult(True, "exit status 0")
    fakes.results = {"submission-of-n1": result, "another": result}
    rounds.round()
    assert fakes.inputs[1].results == {"submission-of-n1": result}


def test_a_command_of_an_earlier_process_is_queried_in_the_first_round(fakes: Fakes) -> None:
    """A daemon that is killed again and again gets on all the same."""
    opened = Submission("s1", "command", ("n1",), (), 5, command="fix")
    fakes.stored = {A.uuid: A._replace(open=(opened,))}
    fakes.results = {"s1": CommandResult(True, "exit status 0")}
    fakes.rounds().round()
    assert fakes.inputs[0].results == fakes.results
