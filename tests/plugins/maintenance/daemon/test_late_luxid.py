"""luxid stores jobs late, for a candidate that hangs delays it: nothing is submitted twice."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import clusters
import pytest
from fake_parts import Fakes
from programs import wait_until
from records import signing_store
from standin import StandIn
from standin_server import process, serving
from worlds import incident

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.luxi_queue import LuxiQueue
from ganeti_steward.plugins.maintenance.daemon.rounds import Rounds
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.queue.calls import CallNotes
from ganeti_steward.plugins.maintenance.runtime import REAL
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import Task
from ganeti_steward.plugins.model.world import Reported, World

CLUSTER = clusters.generate("--nodes=3", "--groups=1", "--mix=drbd=1")
ILL = incident("n2")
DRAIN = Task(
    "drain",
    frozenset({"n2"}),
    frozenset(),
    "drain n2",
    ([{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n2", "drained": True}],),
)


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    fakes = Fakes()
    fakes.observations = {ILL.node: Reported(ILL.original, "evacuate", "", time.time_ns())}
    yield fakes
    fakes.wakeup.close()


def daemon(
    fakes: Fakes, luxi: Luxi, *, reading: float = 0, wait: float = 1, notes: str = ""
) -> Rounds:
    """A daemon that has just begun.

    ``reading``: s for which it reads the cluster; ``notes``: path of its notes.
    """

    def read_world(now: int, *, storage: bool) -> World:
        time.sleep(reading)
        return fakes.world._replace(now=now)

    store = signing_store(luxi)
    return fakes.rounds(
        # With a second node allowed, what a lost job reserves is what holds.
        Maintd(mode="act", hold_time=0, most_nodes=2),
        step=step,
        store=store,
        queue=LuxiQueue(luxi, store, wait=wait, notes=CallNotes(notes) if notes else None),
        planner=lambda *_: [PluginPlan("x", DRAIN)],
        read_world=read_world,
        runtime=REAL,
    )


@contextmanager
def late(luxi: Luxi) -> Iterator[None]:
    """Jobs that are submitted meanwhile are stored only after the end of the block."""
    luxi.call("test.late", 3600)
    try:
        yield
    finally:
        luxi.call("test.late", 0)


def wait_until_taken(luxi: Luxi) -> None:
    """Wait until luxid has the only submission."""
    wait_until(lambda: len(luxi.call("test.submitted")) == 1, "the submission")


def known(luxi: Luxi) -> Incident:
    (found,) = signing_store(luxi).read_all().incidents.values()
    return found


@pytest.mark.parametrize("reading", [0.0, 1.2])
def test_an_answer_that_takes_longer_than_a_round_waits(
    reading: float, fakes: Fakes, tmp_path: Path
) -> None:
    stand_in = StandIn(CLUSTER)
    stand_in.pace(3600)
    with serving(tmp_path, stand_in) as luxi:
        rounds = daemon(fakes, luxi, reading=reading)
        with late(luxi):
            first = rounds.round()
            assert any("the answer is waited for" in one.sentence for one in first.held)
            for _ in range(2):
                held = {one.brake: one.sentence for one in rounds.round().held}
                assert "running" in held, held
                assert known(luxi).jobs == ()
        wait_until(lambda: rounds.round() and known(luxi).jobs, "the answer")
        assert known(luxi).jobs == (1,)
        rounds.round()
    assert len(stand_in.submissions) == 1


@pytest.mark.parametrize("notes", [False, True])
def test_a_daemon_that_is_killed_meanwhile(notes: bool, fakes: Fakes, tmp_path: Path) -> None:
    """The next one waits for the end of the call, which it has not made."""
    kept = str(tmp_path / "notes") if notes else ""
    with process(tmp_path, CLUSTER) as luxi:
        luxi.call("test.pace", 3600)
        with late(luxi):
            # Its thread goes on, as luxid does; nothing reads what it gets to know.
            daemon(fakes, luxi, wait=0, notes=kept).round()
            wait_until_taken(luxi)
            rounds = daemon(fakes, luxi, notes=kept)
            for _ in range(2):
                held = {one.brake: one.sentence for one in rounds.round().held}
                assert "connections to luxid that were open when the daemon" in held["lookup"]
                assert known(luxi).jobs == ()
        wait_until(lambda: rounds.round() and known(luxi).jobs, "the job")
        assert known(luxi).jobs == (1,)
        rounds.round()
        assert len(luxi.call("test.submitted")) == 1


@pytest.mark.parametrize("notes", [False, True])
def test_what_an_earlier_daemon_did_not_submit_is_submitted_at_once(
    notes: bool, fakes: Fakes, tmp_path: Path
) -> None:
    """It was killed between its record and the call.

    No connection is open, so none is waited for; or one is open of which the notes say that it is
    none of the daemon.
    """
    stand_in = StandIn(CLUSTER)
    stand_in.pace(3600)
    kept = str(tmp_path / "notes") if notes else ""
    with serving(tmp_path, stand_in) as luxi, socket.socket(socket.AF_UNIX) as other:
        daemon(fakes, luxi, notes=kept).round()
        if notes:
            other.connect(luxi.path)
        before = known(luxi)
        stand_in.queue.rows.clear()
        stand_in.submissions.clear()
        (submission,) = before.open
        lost = before._replace(jobs=(), open=(submission._replace(jobs=()),))
        signing_store(luxi).write(lost)
        daemon(fakes, luxi, notes=kept).round()
        assert known(luxi).jobs == (2,)
        assert len(stand_in.submissions) == 1


def test_a_deleted_record_while_luxid_takes_its_job(fakes: Fakes, tmp_path: Path) -> None:
    """The node gets a new incident; what the job uses is reserved before it is in the queue."""
    stand_in = StandIn(CLUSTER)
    stand_in.pace(3600)
    with serving(tmp_path, stand_in) as luxi:
        rounds = daemon(fakes, luxi)
        with late(luxi):
            rounds.round()
            signing_store(luxi).remove(known(luxi).uuid)
            for _ in range(2):
                assert {"orphan", "reserved"} <= {one.brake for one in rounds.round().held}
        wait_until(lambda: stand_in.queue.rows, "the job")
        held = {one.brake: one.sentence for one in rounds.round().held}
        assert held["orphan"].startswith("job 1 of incident ")
        assert "n2" in held["reserved"]
        assert len(stand_in.submissions) == 1
        stand_in.pace(0)
        stand_in.clock = lambda: time.time_ns() + 3600 * 10**9
        with late(luxi):
            rounds.round()
            rounds.round()
            assert len(stand_in.submissions) == 2


def test_a_deleted_record_and_a_daemon_that_is_killed_meanwhile(
    fakes: Fakes, tmp_path: Path
) -> None:
    """No record names the submission of the first daemon: its notes do."""
    kept = str(tmp_path / "notes")
    CallNotes(kept).forget_before()
    with process(tmp_path, CLUSTER) as luxi:
        luxi.call("test.pace", 3600)
        with late(luxi):
            daemon(fakes, luxi, wait=0, notes=kept).round()
            wait_until_taken(luxi)
            signing_store(luxi).remove(known(luxi).uuid)
            rounds = daemon(fakes, luxi, notes=kept)
            assert "lookup" in {one.brake for one in rounds.round().held}
        wait_until(lambda: luxi.rows("job", ("id",)), "the job")
        assert {"orphan", "reserved"} <= {one.brake for one in rounds.round().held}
        assert len(luxi.call("test.submitted")) == 1
