"""``gnt-steward reserve``: nodes for a disk template, licences beside reservations, end dates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import reserve_front
from reserve_front import FREE, IN, Message, inside, live
from tagged import Tagged

if TYPE_CHECKING:
    from front import Front

R1 = ["reservation:r1"]


def site(*free: str) -> Message:
    """The policies of both groups allow these templates, and no others."""
    message = reserve_front.site(*free)
    for group in message["nodegroups"].values():
        group["ipolicy"]["disk-templates"] = ["drbd", "plain", "ext"]
    return message


def test_two_nodes_are_of_one_group(front: Front) -> None:
    """So that a drbd instance fits, though the first two by name are of different groups."""
    ganeti = Tagged(site("node3", "node4", "node5"))
    assert live(front, ganeti, "create", "r1", "--count", "2").status == 0
    assert inside(ganeti) == {"node3": ["reservation:free"], "node4": R1, "node5": R1}


@pytest.mark.parametrize(
    ("free", "arguments", "chosen"),
    [
        # One group that has all comes first, also where others have empty nodes.
        (
            ("node1", "node4", "node5"),
            ("--count=2", "--disk-template=plain"),
            "node4.lab, node5.lab",
        ),
        (("node1", "node4"), ("--count=2", "--disk-template=plain"), "node1.lab, node4.lab"),
        # drbd needs two; that is also what it takes by default.
        (("node1", "node4", "node5"), ("--disk-template=drbd",), "node4.lab, node5.lab"),
        # 3 + 1 would leave one alone, 2 + 2 does not.
        (
            ("node1", "node2", "node3", "node4", "node5"),
            ("--count=4", "--disk-template=drbd"),
            "node1.lab, node2.lab, node4.lab, node5.lab",
        ),
        (
            ("node1", "node2", "node3", "node4", "node5"),
            ("--count=5", "--disk-template=drbd"),
            "node1.lab, node2.lab, node3.lab, node4.lab, node5.lab",
        ),
        (("node1", "node4"), ("node1", "node4", "--disk-template=ext"), "node1.lab, node4.lab"),
    ],
)
def test_which_groups(
    front: Front, free: tuple[str, ...], arguments: tuple[str, ...], chosen: str
) -> None:
    done = live(front, Tagged(site(*free)), "create", "r1", *arguments, "--dry-run")
    ending = f"would be moved from reservation:free to reservation:r1: {chosen}\n"
    assert (done.status, done.out) == (0, ending), done.err


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            ("--count=2",),
            "2 wanted in one node group, as drbd needs them, but default has 1, rack2 has 1",
        ),
        (("--count=2", "--disk-template=drbd"), "cannot be taken so: default has 1, rack2 has 1"),
        (("--count=1", "--disk-template=drbd"), "and 1 of the free ones cannot be taken so"),
        (
            ("node1", "node4", "--disk-template=drbd"),
            "these are alone in theirs: node1.lab (default), node4.lab (rack2)",
        ),
        (("--count=2", "--disk-template=raid"), "unknown disk template 'raid' (known: b"),
        (("--count=1", "--disk-template=rbd"), "but of groups that allow rbd none has any"),
        (("node1", "--disk-template=rbd"), "the policy of node group default allows no rbd"),
        (("node1", "--until=2020-02-30"), "--until: '2020-02-30' is not a date (YYYY-MM-DD)"),
        (("node1", "--until=2020-02-03"), "--until: 2020-02-03 is over"),
    ],
)
def test_what_cannot_be(front: Front, arguments: tuple[str, ...], fault: str) -> None:
    ganeti = Tagged(site("node1", "node4"))
    done = live(front, ganeti, "create", "r1", *arguments)
    assert (done.status, done.out) == (1, "")
    assert fault in done.err
    assert ganeti.done == []


def test_an_extension_completes_a_pair(front: Front) -> None:
    message = site("node1", "node2", "node5")
    message["nodes"]["node4.lab"]["tags"] = [f"{IN}reservation:r1"]
    ganeti = Tagged(message)
    done = live(front, ganeti, "extend", "r1", "--disk-template=drbd")
    assert done.out == "moved from reservation:free to reservation:r1: node5.lab\n"
    done = live(front, ganeti, "extend", "r1", "node1")
    assert done.err == (
        "Note: a drbd instance needs two nodes of one group; alone in theirs are node1.lab "
        "(default)\n"
    )


def test_an_empty_pool(front: Front) -> None:
    """The message is what to do next."""
    ganeti = Tagged(site())
    done = live(front, ganeti, "create", "r1")
    assert done.err == (
        "gnt-steward reserve: the free pool reservation:free is empty; 'gnt-steward aggregate add "
        "reservation:free NODE...' fills it\n"
    )


# -- licences


def test_licences_are_no_reservations(front: Front) -> None:
    """They are under a closed prefix, too, but one without a free pool."""
    message = site("node4")
    message["cluster_tags"] += [
        "steward:default-forbidden-prefix:license:",
        "steward:required-prefix:license:",
    ]
    message["nodes"]["node1.lab"]["tags"] = [f"{IN}license:windows"]
    ganeti = Tagged(message)
    listed = live(front, ganeti, "list", "--no-headers", "--separator=|")
    assert listed.out == "reservation:free|free|1|-|node4.lab|-\n"
    for arguments in (("release", "license:windows", "--force"), ("extend", "license:windows")):
        done = live(front, ganeti, *arguments)
        assert done.status == 1
        assert "'license:windows' is not a reservation: license: has no free pool" in done.err
    assert (
        "there is no reservation reservation:windows"
        in live(front, ganeti, "release", "windows").err
    )
    assert ganeti.done == []
    # The prefix need not be written where only one is of reservations.
    assert live(front, ganeti, "create", "r1").status == 0
    assert inside(ganeti) == {"node1": ["license:windows"], "node4": R1}


def test_a_pool_that_is_empty_now_is_one(front: Front) -> None:
    """Where no instance may request it; otherwise there is a way to declare it."""
    message = site()
    message["cluster_tags"] = [
        "steward:default-forbidden-prefix:tenant:",
        "steward:default-forbidden-prefix:license:",
    ]
    message["nodes"]["node4.lab"]["tags"] = [f"{IN}tenant:acme"]
    ganeti = Tagged(message)
    done = live(front, ganeti, "release", "tenant:acme")
    declare = "steward:unclaimable:tenant:free"
    assert f"'gnt-cluster add-tags {declare}' would declare one" in done.err
    ganeti.tags("cluster").append(declare)
    assert live(front, ganeti, "release", "acme").status == 0
    assert inside(ganeti) == {"node4": ["tenant:free"]}


# -- ends


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_an_end(front: Front, way: str) -> None:
    ganeti = Tagged(site("node4", "node5"))
    end = "steward:until:reservation:r1+"
    done = live(front, ganeti, "create", "r1", "--until", "2970-01-31", way=way)
    assert done.out.splitlines()[1] == f"done: '{end}2970-01-31' on the cluster"
    assert f"{end}2970-01-31" in ganeti.tags("cluster")
    done = live(front, ganeti, "extend", "r1", "--until", "2971-01-31", way=way)
    assert done.out.splitlines() == [
        f"done: '{end}2970-01-31' off the cluster",
        f"done: '{end}2971-01-31' on the cluster",
    ]
    assert inside(ganeti) == {"node4": R1, "node5": ["reservation:free"]}
    listed = live(front, ganeti, "list", "--no-headers", "--separator=|", way=way)
    assert listed.out.splitlines()[1] == "reservation:r1|reserved|1|2971-01-31|node4.lab|-"
    assert listed.err == ""
    # More nodes leave the end as it is; the end goes with the reservation.
    assert live(front, ganeti, "extend", "r1", "node5", way=way).status == 0
    assert f"{end}2971-01-31" in ganeti.tags("cluster")
    done = live(front, ganeti, "release", "r1", way=way)
    assert done.out.splitlines()[1:] == [f"done: '{end}2971-01-31' off the cluster"]
    assert not any(tag.startswith(end) for tag in ganeti.tags("cluster"))


def test_an_end_of_no_reservation(front: Front) -> None:
    ganeti = Tagged(site("node4"))
    done = live(front, ganeti, "extend", "r1", "--until", "2970-01-31")
    assert "there is no reservation reservation:r1 (known: none)" in done.err
    assert ganeti.done == []


def test_an_end_left_over_is_taken_off(front: Front) -> None:
    """Of a reservation of the same name that was undone by hand."""
    ganeti = Tagged(site("node4"))
    ganeti.tags("cluster").append("steward:until:reservation:r1+2020-01-31")
    done = live(front, ganeti, "create", "r1")
    assert done.out.endswith("done: 'steward:until:reservation:r1+2020-01-31' off the cluster\n")


def test_what_has_ended_is_named(front: Front) -> None:
    message = site("node4")
    message["nodes"]["node5.lab"]["tags"] = [f"{IN}reservation:r1"]
    message["cluster_tags"].append("steward:until:reservation:r1+2020-01-31")
    ended = (
        "Note: reservation:r1 ended on 2020-01-31; 'gnt-steward reserve release reservation:r1' "
        "frees its nodes\n"
    )
    assert live(front, Tagged(message), "list").err == ended
    checked = front("aggregate", "check", "--file", front.message(message))
    assert (checked.status, checked.err) == (0, ended)
    shown = front("aggregate", "show", "reservation:r1", "--file", front.message(message))
    assert "  until 2020-01-31\n" in shown.out
    assert FREE in message["nodes"]["node4.lab"]["tags"]
