"""``gnt-steward maintenance shutdown`` and ``bring-up``, against the stand-in for luxid."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from asserting import some
from small_site import PAUSE, POWER, START, STOP, Site

ALL = {"app.test", "db.test", "dns.test", "web.test"}
OTHERS = {"n2.test", "n3.test", "n4.test"}


def test_all_is_off_and_comes_back(small: Site) -> None:
    done = small.shutdown("--all", "--order", "order:")
    assert (done.status, done.err) == (0, "")
    assert small.done(STOP) == ["web.test", "app.test", "db.test", "dns.test"]
    assert (small.up, small.off) == (set(), OTHERS)
    assert small.ganeti.instance("db.test")["tags"] == ["order:20", "maintd:bring-up:20"]
    assert small.cluster_tags == [PAUSE]
    assert "n1.test is the master and stays on; to switch it off, type there: poweroff" in done.out
    assert done.out.endswith("Done; to take it back: gnt-steward maintenance bring-up.\n")
    done = small.bring_up()
    assert (done.status, done.err) == (0, "")
    assert small.done(START) == ["dns.test", "db.test", "app.test", "web.test"]
    assert (small.up, small.off, small.tagged, small.cluster_tags) == (ALL, set(), set(), [])
    assert done.out.endswith("Done; all is back that was shut down.\n")


def test_twice_in_a_row(small: Site) -> None:
    assert small.shutdown().status == 0
    before = len(small.done(STOP)), len(small.done(POWER))
    assert small.shutdown().status == 0
    assert (len(small.done(STOP)), len(small.done(POWER))) == before == (4, 3)
    assert small.bring_up().status == 0
    assert small.bring_up().status == 0
    assert (len(small.done(START)), small.up, small.cluster_tags) == (4, ALL, [])
    assert "down.test" not in small.up


def test_dry_run_prints_each_step(small: Site) -> None:
    done = small("shutdown", "--all", "--order", "order:", "--dry-run")
    assert done.status == 0
    assert done.out.splitlines() == [
        "pause the maintenance daemon, and set the tag maintd:bring-up on the nodes",
        "Stopping 1 instance of order 0.",
        "stop web.test on n1.test",
        "Stopping 1 instance of order 10.",
        "stop app.test on n2.test",
        "Stopping 1 instance of order 20.",
        "stop db.test on n3.test",
        "Stopping 1 instance of order 30.",
        "stop dns.test on n4.test",
        "switch n4.test off",
        "switch n2.test off",
        "switch n3.test off",
        "n1.test is the master and stays on; to switch it off, type there: poweroff, when all "
        "others are off",
    ]
    assert small.stand_in.submissions == []
    small.shutdown("--all", "--order", "order:")
    before = len(small.stand_in.submissions)
    done = small.bring_up("--dry-run")
    assert done.out.splitlines() == [
        "switch n2.test on",
        "switch n3.test on",
        "switch n4.test on",
        "Waiting until the node daemons answer, for 1 s at most.",
        "Starting 1 instance of order 30.",
        "start dns.test on n4.test",
        "Starting 1 instance of order 20.",
        "start db.test on n3.test",
        "Starting 1 instance of order 10.",
        "start app.test on n2.test",
        "Starting 1 instance of order 0.",
        "start web.test on n1.test",
        "take back n1.test",
        "take back n2.test",
        "take back n3.test",
        "take back n4.test",
        "end the pause of the maintenance daemon",
    ]
    assert len(small.stand_in.submissions) == before


def test_a_failed_stop_keeps_its_node_on(small: Site) -> None:
    small.stand_in.fail(STOP, "db.test", "it does not end")
    done = small.shutdown("--all", "--order", "order:")
    assert done.status == 1
    assert small.off == {"n2.test", "n4.test"}
    assert small.up == {"db.test"}
    assert "Not done (2):\n  failed: stop db.test on n3.test: it does not end\n" in done.out
    assert "n3.test stays on: db.test may still run there" in done.out
    assert small.bring_up().status == 0
    assert (small.up, small.tagged, small.cluster_tags) == (ALL, set(), [])


def test_what_goes_on_running_though_ganeti_marked_it_down(small: Site) -> None:
    """Ganeti marks it before it tries; the next run stops it again, and bring-up starts it."""
    small.stand_in.fail(STOP, "db.test", "it does not end")
    small.shutdown()
    small.ganeti.instance("db.test").update(admin_state="down", status="ERROR_up")
    assert small.shutdown().status == 1
    assert "n3.test" not in small.off
    small.stand_in.operations.faults.clear()
    assert small.shutdown().status == 0
    assert "n3.test" in small.off
    small.bring_up()
    assert small.up == ALL


def test_a_failed_start_is_tried_again(small: Site) -> None:
    """The daemon is not paused any more, because all nodes are back."""
    small.shutdown()
    small.stand_in.fail(START, "db.test", "no memory")
    done = small.bring_up()
    assert (done.status, small.up) == (1, ALL - {"db.test"})
    assert "failed: start db.test on n3.test: no memory" in done.out
    assert (small.tagged, small.cluster_tags) == ({"db.test"}, [])
    # As Ganeti leaves it behind.
    small.ganeti.instance("db.test").update(admin_state="up", status="ERROR_down")
    small.stand_in.operations.faults.clear()
    assert small.bring_up().status == 0
    assert (small.up, small.tagged) == (ALL, set())


def test_a_node_that_does_not_come_back(small: Site) -> None:
    small.shutdown()
    small.ganeti.node("n4.test")["ndparams"]["oob_program"] = ""
    done = small.bring_up()
    assert done.status == 1
    assert "n4.test has no out-of-band program: switch it on by hand\n" in done.out
    assert "waiting for the node daemon of n4.test, 1 s at most; if it stays so, look" in done.out
    assert "db.test is not started: n4.test does not answer\n" in done.out
    assert small.up == {"app.test", "web.test"}
    assert "The maintenance daemon stays paused: n4.test not taken back.\n" in done.out
    assert small.cluster_tags == [PAUSE]
    small.ganeti.cut("n4.test", on=True)
    assert small.bring_up().status == 0
    assert (small.up, small.tagged, small.cluster_tags) == (ALL, set(), [])


def test_an_offline_node_is_waited_for_no_more(small: Site) -> None:
    """A person has given it up; its secondaries do not hold back their instances."""
    small.shutdown()
    small.ganeti.node("n4.test")["offline"] = True
    done = small.bring_up()
    assert "dns.test is not started: n4.test is offline" in done.out
    assert (small.up, small.cluster_tags) == (ALL - {"dns.test"}, [])


def test_without_an_out_of_band_program(small: Site) -> None:
    small.ganeti.node("n3.test")["ndparams"].pop("oob_program")
    done = small.shutdown()
    assert done.status == 0
    assert "n3.test has no out-of-band program; to switch it off: ssh n3.test poweroff" in done.out
    assert small.off == {"n2.test", "n4.test"}
    small.ganeti.cut("n3.test", on=False)
    assert "ssh n3.test" not in small.shutdown().out


def test_an_out_of_band_program_that_fails(small: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ganeti's job succeeds all the same."""
    monkeypatch.setattr(small.stand_in.operations, "power", lambda operation, node: False)
    done = small.shutdown("n2")
    assert done.status == 1
    assert "n2.test is not switched off: its out-of-band program has failed" in done.out


def test_a_silent_node_stays_as_it_is(small: Site) -> None:
    small.ganeti.cut("n3.test", on=False)
    done = small.shutdown()
    assert done.status == 1
    assert "db.test is not stopped: n3.test does not answer\n" in done.out
    assert small.off == {"n2.test", "n4.test"}
    assert "db.test" not in small.done(STOP)


def test_a_node_that_falls_silent_meanwhile(small: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs there is not known any more, so it is not switched off."""
    run = small.stand_in.operations.run

    def silent_afterwards(operation: Mapping[str, Any]) -> Any:
        result = run(operation)
        if operation["OP_ID"] == STOP and operation["instance_name"] == "db.test":
            small.ganeti.cut("n3.test", on=False)
        return result

    monkeypatch.setattr(small.stand_in.operations, "run", silent_afterwards)
    done = small.shutdown()
    assert (done.status, small.off) == (1, {"n2.test", "n4.test"})
    assert "n3.test stays on: it does not answer, so what runs there is not known" in done.out


def test_what_another_user_starts_meanwhile(small: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small.stand_in.operations.run

    def started_by_another(operation: Mapping[str, Any]) -> Any:
        if operation["OP_ID"] == STOP:
            small.ganeti.set_state("down.test", "up")
        return run(operation)

    monkeypatch.setattr(small.stand_in.operations, "run", started_by_another)
    done = small.shutdown()
    assert (done.status, small.off) == (1, {"n3.test", "n4.test"})
    assert "n2.test stays on: down.test may still run there" in done.out


def test_a_rack(small: Site) -> None:
    """What runs elsewhere goes on, and only its own nodes come back."""
    for name in ("n3.test", "n4.test"):
        small.ganeti.node(name)["tags"].append("rack:a")
    small.ganeti.instance("web.test").update(snodes=["n3.test"])
    done = small.shutdown("rack:a")
    assert done.status == 0
    assert "go on elsewhere with one copy of their disks: web.test" in done.err
    assert (small.up, small.off) == ({"app.test", "web.test"}, {"n3.test", "n4.test"})
    assert small.shutdown("n2").status == 0
    assert small.bring_up("rack:a").status == 1
    # The other copy of dns.test is on a node that is still away.
    assert small.up == {"db.test", "web.test"}
    assert small.cluster_tags == [PAUSE]
    assert small.bring_up().status == 0
    assert (small.up, small.cluster_tags) == (ALL, [])


def test_pauses_of_people_stay(small: Site) -> None:
    small.cluster_tags.append("maintd:pause:by-hand")
    small.shutdown()
    small.bring_up()
    assert small.cluster_tags == ["maintd:pause:by-hand"]


def test_opted_out_instances_are_stopped_too(small: Site) -> None:
    small.ganeti.instance("db.test")["tags"].append("maintd:off")
    small.shutdown()
    assert small.up == set()
    small.bring_up()
    assert small.up == ALL


def test_the_timeout_and_the_reason_are_in_the_jobs(small: Site) -> None:
    small.shutdown("--all", "--timeout", "30", "--reason", "cooling")
    jobs = [job for call in small.stand_in.submissions for job in call]
    stops = [op for job in jobs for op in job if op["OP_ID"] == STOP]
    assert {op["timeout"] for op in stops} == {30}
    for op in some(op for job in jobs for op in job):
        assert [text for _, text, _ in op["reason"]][:2] == ["cooling", "maintenance shutdown"]


def test_so_many_jobs_at_the_same_time(small: Site) -> None:
    small.shutdown("--all", "--at-once", "2")
    stops = [call for call in small.stand_in.submissions if call[0][-1]["OP_ID"] == STOP]
    assert [len(call) for call in stops] == [2, 2]


@pytest.mark.parametrize(
    ("typed", "status"), [("cluster.lab\n", 0), ("yes\n", 1), ("", 1)], ids=["name", "other", "end"]
)
def test_the_name_of_the_cluster_is_typed(
    small: Site, monkeypatch: pytest.MonkeyPatch, typed: str, status: int
) -> None:
    terminal = io.StringIO(typed)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    done = small("shutdown", "--all")
    assert (done.status, "4 instances will be stopped, and 4 nodes switched off." in done.out) == (
        status,
        True,
    )
    assert bool(small.stand_in.submissions) == (status == 0)


def test_without_a_terminal_it_is_refused(small: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("cluster.lab\n"))
    done = small("shutdown", "--all")
    assert (done.status, "with --yes" in done.err) == (1, True)
    assert small.stand_in.submissions == []


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--all", "--order", "prio:"], "no instance on these nodes has a tag that begins with"),
        (["--all", "--order", "orde"], "has the tag order:10: a whole number of at most"),
        (["n9"], "n9"),
        ([], "name nodes, or a node group with -G, or use --all"),
    ],
)
def test_what_is_refused(small: Site, words: list[str], fault: str) -> None:
    done = small("shutdown", *words, "--yes")
    assert (done.status, fault in done.err) == (1, True)
    assert small.stand_in.submissions == []


def test_a_queue_that_takes_nothing(small: Site) -> None:
    small.stand_in.drained = True
    done = small.shutdown()
    assert (done.status, "nothing was stopped; failed: pause" in done.err) == (1, True)
    assert small.up == ALL


def test_nothing_to_bring_up(small: Site) -> None:
    done = small.bring_up()
    assert (done.status, done.out) == (0, "Done; all is back that was shut down.\n")
    assert small.stand_in.submissions == []
