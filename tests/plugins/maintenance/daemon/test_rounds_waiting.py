"""The loop: what a signal ends, what a round waits for, and when it verifies disks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fake_parts import (
    UNDECIDED,
    WAITING,
    A,
    B,
    Fakes,
    deciding,
    fault,
    starting,
    two_incidents,
)
from worlds import incident

from ganeti_steward.core.model.job_state import SUCCESS, JobState
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Observers
from ganeti_steward.plugins.maintenance.daemon.wakeup import DaemonStopped
from ganeti_steward.plugins.maintenance.engine.decision import (
    Decision,
    RoutineStarted,
)
from ganeti_steward.plugins.model.incident import MAINTENANCE, Maintenance
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import World


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with two_incidents() as fakes:
        yield fakes


def test_a_signal_ends_a_read_at_once(fakes: Fakes) -> None:
    fakes.meanwhile["world"] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(DaemonStopped):
        fakes.rounds().round()
    assert fakes.done("step") == []


def test_a_signal_lets_a_submission_be_recorded(fakes: Fakes) -> None:
    fakes.meanwhile["submit"] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    deciding(fakes, starting(A, B)).rounds().run()
    assert [one.jobs for one in fakes.stored.values()] == [(101,), (102,)]
    assert len(fakes.rounds_reported) == 1


def test_a_signal_while_records_are_written_submits_nothing(fakes: Fakes) -> None:
    fakes.meanwhile["write"] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    outcome = deciding(fakes, starting(A, B)).rounds().round()
    assert fakes.done("submit") == []
    assert fakes.stored[B.uuid] == B
    assert fakes.stored[A.uuid].open == ()
    assert [held.sentence for held in outcome.held] == ["the daemon ends; held: drain n1"]
    assert [change.before for change in outcome.changes] == [A]


def test_a_signal_ends_a_vote(fakes: Fakes) -> None:
    rounds = deciding(fakes, starting(A)).rounds()
    fakes.meanwhile["remove"] = lambda: fakes.meanwhile.update(
        vote=lambda: os.kill(os.getpid(), signal.SIGTERM)
    )
    fakes.decisions = iter([starting(A)._replace(removed=(B.uuid,))])
    outcome = rounds.round()
    assert fakes.done("submit") == []
    assert fakes.stored[A.uuid].open == ()
    assert "the daemon ends" in outcome.held[0].sentence


def test_a_signal_ends_the_wait(fakes: Fakes) -> None:
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    began = time.monotonic()
    fakes.rounds(Maintd(round_interval=60)).run()
    assert time.monotonic() - began < 50
    assert len(fakes.rounds_reported) == 1


def test_a_change_begins_a_round(fakes: Fakes) -> None:
    began = time.monotonic()
    fakes.decisions = iter([starting(A)])
    rounds = fakes.rounds(Maintd(round_interval=60))
    rounds._wait(rounds.round())
    assert 0.9 < time.monotonic() - began < 50


def test_jobs_of_routine_work_begin_a_round(fakes: Fakes) -> None:
    """The next one may set tags that name them."""
    began = time.monotonic()
    task = Task("move", frozenset(), frozenset(), "move")
    fakes.decisions = iter([Decision(routine=(RoutineStarted("first", "id", task),))])
    rounds = fakes.rounds(Maintd(round_interval=60))
    rounds._wait(rounds.round())
    assert 0.9 < time.monotonic() - began < 30


def test_the_end_of_a_job_begins_a_round(fakes: Fakes) -> None:
    fakes.jobs = {5: JobState(5, "running")}
    threading.Timer(0.5, lambda: fakes.jobs.update({5: JobState(5, SUCCESS)})).start()
    began = time.monotonic()
    fakes.rounds(Maintd(round_interval=60))._wait(WAITING)
    assert 0.4 < time.monotonic() - began < 50


def test_a_queue_that_does_not_answer_ends_no_wait(fakes: Fakes) -> None:
    fakes.faults["ended", (5,)] = fault()
    began = time.monotonic()
    fakes.rounds(Maintd(round_interval=2))._wait(WAITING)
    assert time.monotonic() - began >= 1.9


def test_a_reload_changes_the_settings_of_the_next_round(fakes: Fakes) -> None:
    used: list[float] = []
    rounds = fakes.rounds(
        Maintd(round_interval=60),
        observers=Observers(
            steps={"the test": lambda _, settings: used.append(settings.hold_time)}
        ),
    )
    fakes.settings = Maintd(hold_time=7)

    def second() -> None:
        if len(fakes.done("step")) == 1:
            os.kill(os.getpid(), signal.SIGHUP)
        else:
            fakes.meanwhile["world"] = lambda: os.kill(os.getpid(), signal.SIGTERM)
            fakes.settings = None
            os.kill(os.getpid(), signal.SIGHUP)

    fakes.meanwhile["step"] = second
    with pytest.raises(DaemonStopped):
        rounds.run()
    assert used == [300, 7]


SEEN = "gnt-cluster verify-disks: the disks must be activated of 1 instance: drbd3"
REQUEST = incident("n2", MAINTENANCE, maintenance=Maintenance("refuse"))


@pytest.mark.parametrize(
    ("changes", "wanted", "runs"),
    [
        ({}, {}, 1),
        ({"status": "completed"}, {}, 0),
        ({"status": "pending"}, {}, 0),
        ({"action": "evacuate", "maintenance": None}, {}, 0),
        ({}, {"mode": "observe"}, 0),
        ({}, {"windows": ("Tue 01:00-02:00",)}, 0),
    ],
)
def test_it_runs_only_where_something_would_begin(
    fakes: Fakes, changes: dict[str, Any], wanted: dict[str, Any], runs: int
) -> None:
    found: list[World] = []

    def verified(world: World) -> tuple[str, ...]:
        found.append(world)
        return (SEEN,)

    fakes.stored = {REQUEST.uuid: REQUEST._replace(**changes)}
    fakes.rounds(Maintd(**{"mode": "act", **wanted}), verify_disks=verified).round()
    (inputs,) = fakes.inputs
    assert len(found) == runs
    requested = changes.get("status", "noted") == "noted" and "maintenance" not in changes
    assert inputs.world.unclean == ((SEEN,) if runs else None if requested else ())


def test_an_undecided_master_verifies_nothing(fakes: Fakes) -> None:
    fakes.stored = {REQUEST.uuid: REQUEST}
    fakes.votes = [UNDECIDED]
    fakes.rounds(verify_disks=lambda world: (SEEN,)).round()
    fakes.rounds(gates=lambda world: ("closed",), verify_disks=lambda world: ()).round()
    fakes.rounds().round()
    assert [one.world.unclean for one in fakes.inputs] == [None, None, ()]
