"""``gnt-steward reserve`` while others change the cluster, and when a step fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from daemons import luxid
from tagged import Operation, Tagged

from ganeti_steward.plugins.aggregates.cli.transfers import Transfer, recovery

if TYPE_CHECKING:
    from front import Front

from reserve_front import FREE, IN, Meanwhile, inside, live, site


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_another_command_takes_one_of_the_nodes(front: Front, way: str) -> None:
    """The others are put back; what the other one took is left to him."""
    ganeti = Tagged(site("node4", "node5", "node6"))

    def act() -> None:
        ganeti.tags("node", "node5.lab")[:] += [f"{IN}reservation:r2"]
        ganeti.tags("node", "node5.lab").remove(FREE)

    Meanwhile(ganeti, f"OP_TAGS_DEL node5.lab {FREE}", act)
    done = live(front, ganeti, "create", "r1", "--count", "3", way=way)
    assert (done.status, done.out) == (1, "")
    assert f"node node5.lab: Tag(s) '{FREE}' not found; nothing is changed" in done.err
    free = ["reservation:free"]
    assert inside(ganeti) == {"node4": free, "node5": ["reservation:r2"], "node6": free}


def test_another_command_is_still_running(front: Front) -> None:
    """It has the node out of the pool, and only its transit tag is on it."""
    ganeti = Tagged(site("node4", "node5"))

    def act() -> None:
        ganeti.tags("node", "node5.lab")[:] += [f"{IN}reservation:moving-other"]
        ganeti.tags("node", "node5.lab").remove(FREE)

    Meanwhile(ganeti, f"OP_TAGS_DEL node5.lab {FREE}", act)
    assert live(front, ganeti, "create", "r1", "--count", "2").status == 1
    assert inside(ganeti) == {"node4": ["reservation:free"], "node5": ["reservation:moving-other"]}


@pytest.mark.parametrize(
    "fits",
    [
        "OP_TAGS_SET node5.lab steward:aggregate:reservation:moving-",
        f"OP_TAGS_DEL node4.lab {FREE}",
        f"OP_TAGS_SET node5.lab {IN}reservation:r1",
        "OP_TAGS_DEL node4.lab steward:aggregate:reservation:moving-",
    ],
)
def test_whatever_fails_all_is_as_before(front: Front, fits: str) -> None:
    ganeti = Tagged(site("node4", "node5", "node6"))
    Meanwhile(ganeti, fits, lambda: "the disk is full")
    done = live(front, ganeti, "create", "r1", "--count", "3")
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith(": the disk is full; nothing is changed\n")
    free = ["reservation:free"]
    assert inside(ganeti) == {"node4": free, "node5": free, "node6": free}


def test_both_of_two_fail(front: Front) -> None:
    """The command that took the node puts it back, with the other's transit tag still on it."""
    ganeti = Tagged(site("node4", "node5"))

    def act() -> str:
        ganeti.tags("node", "node5.lab")[:] += [f"{IN}reservation:moving-other"]
        return "the disk is full"

    Meanwhile(ganeti, f"OP_TAGS_SET node4.lab {IN}reservation:r1", act)
    done = live(front, ganeti, "create", "r1", "--count", "2")
    assert done.err.endswith(": the disk is full; nothing is changed\n")
    assert inside(ganeti) == {
        "node4": ["reservation:free"],
        "node5": ["reservation:moving-other", "reservation:free"],
    }


def test_a_release_that_fails_is_as_before(front: Front) -> None:
    """Also of nodes that would not go to the free pool."""
    message = site()
    for node in ("node4.lab", "node5.lab"):
        message["nodes"][node]["tags"] = [f"{IN}reservation:r1", f"{IN}reservation:r2"]
    ganeti = Tagged(message)
    Meanwhile(ganeti, f"OP_TAGS_DEL node5.lab {IN}reservation:r1", lambda: "the disk is full")
    done = live(front, ganeti, "release", "r1")
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith(": the disk is full; nothing is changed\n")
    both = {"reservation:r1", "reservation:r2"}
    assert {node: {*names} for node, names in inside(ganeti).items()} == {
        "node4": both,
        "node5": both,
    }


def test_the_same_name_at_the_same_time(front: Front) -> None:
    """Both got nodes, but there must not be one reservation of both."""
    ganeti = Tagged(site("node4", "node5", "node6"))

    def act() -> None:
        ganeti.tags("node", "node6.lab")[:] = [f"{IN}reservation:r1"]

    Meanwhile(ganeti, "OP_TAGS_SET node4.lab steward:aggregate:reservation:r1", act)
    done = live(front, ganeti, "create", "r1", "--count", "2")
    assert (done.status, done.out) == (1, "")
    assert "another command has put node6.lab in a reservation, or made reservation:r1" in (
        done.err
    )
    free = ["reservation:free"]
    assert inside(ganeti) == {"node4": free, "node5": free, "node6": ["reservation:r1"]}


def test_what_cannot_be_undone_stays_closed(front: Front) -> None:
    """And the transit aggregate can be released by hand."""
    ganeti = Tagged(site("node4", "node5"))
    failing = False

    def before(operation: Operation) -> str:
        nonlocal failing
        failing |= operation["tags"][0] == f"{IN}reservation:r1"
        return "no" if failing else ""

    ganeti.before = before
    done = live(front, ganeti, "create", "r1", "--count", "2")
    assert (
        " keeps these nodes closed: node4.lab, node5.lab; when no job runs any more, " in done.err
    )
    (transit,) = inside(ganeti)["node4"]
    assert f"'gnt-steward reserve release {transit}' opens them" in done.err
    ganeti.before = lambda operation: ""
    listed = live(front, ganeti, "list", "--no-headers", "--separator=|").out
    assert f"{transit}|moving|2|-|node4.lab,node5.lab|-\n" in listed
    assert live(front, ganeti, "release", transit).status == 0
    assert inside(ganeti) == {"node4": ["reservation:free"], "node5": ["reservation:free"]}


def test_a_job_whose_end_is_unknown(front: Front) -> None:
    """Then nothing is undone: it may still come true."""
    ganeti = Tagged(site("node4"))
    calls = 0

    def answer(method: str, arguments: list[Any]) -> Any:
        nonlocal calls
        if method == "SubmitManyJobs" and "TAGS" in str(arguments):
            calls += 1
            if calls == 2:
                return None
        return ganeti.luxi(method, arguments)

    with luxid(front.path, answer) as daemon:
        done = front("reserve", "create", "r1", "--luxi-socket", daemon.path)
    assert done.status == 1
    assert "the connection was closed before the answer; aggregate reservation:moving-" in done.err
    assert calls == 2


@pytest.mark.parametrize(
    ("tags", "left", "entered", "stages"),
    [
        # Nothing was taken: only the transit tag goes.
        (["free", "moving-w"], [], [], [[], [], ["-moving-w"]]),
        # It left the pool.
        (["moving-w"], ["n"], [], [["+free"], [], ["-moving-w"]]),
        # It is in the reservation already.
        (["r1", "moving-w"], ["n"], ["n"], [["+free"], ["-r1"], ["-moving-w"]]),
        (["r1"], ["n"], ["n"], [["+free"], ["-r1"], []]),
        # Another command of the same name was faster.
        (["r1", "moving-w"], [], [], [[], [], ["-moving-w"]]),
        (["moving-v", "moving-w"], [], [], [[], [], ["-moving-w"]]),
        # Another command came too late for the node, and will only take its transit tag away.
        (["moving-v", "moving-w"], ["n"], [], [["+free"], [], ["-moving-w"]]),
    ],
)
def test_recovery(
    tags: list[str], left: list[str], entered: list[str], stages: list[list[str]]
) -> None:
    prefix = "reservation:"
    transfer = Transfer(prefix, ("n",), f"{prefix}free", f"{prefix}r1", "w")
    found = recovery(transfer, {"n": [f"{IN}{prefix}{tag}" for tag in tags]}, left, entered)
    assert [
        [f"{'-' if c.removed else '+'}{c.tags[0].removeprefix(IN + prefix)}" for c in stage]
        for stage in found
    ] == stages
