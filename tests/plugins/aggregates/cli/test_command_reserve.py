"""``gnt-steward reserve``: the free pool, reservations, and two of them at the same time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tagged import Operation, Tagged, instance

if TYPE_CHECKING:
    from front import Front

from reserve_front import IN, Meanwhile, Message, inside, live, site


def put(message: Message, name: str, node: str, *tags: str) -> None:
    """An instance without disks."""
    message["instances"][name] = instance([node], *tags)


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_create_and_release(front: Front, way: str) -> None:
    ganeti = Tagged(site("node2", "node4", "node5", "node6"))
    closed: list[bool] = []
    three = ("node4", "node5", "node6")

    def before(operation: Operation) -> str:
        tags = ganeti.tags("node", operation["name"])
        closed.append(any(tag.startswith(f"{IN}reservation:") for tag in tags))
        return ""

    ganeti.before = before
    done = live(front, ganeti, "create", "r1", "--count", "3", way=way)
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        "moved from reservation:free to reservation:r1: node4.lab, node5.lab, node6.lab\n"
    )
    r1, free = ["reservation:r1"], ["reservation:free"]
    assert inside(ganeti) == {"node2": free, **dict.fromkeys(three, r1)}
    done = live(front, ganeti, "release", "reservation:r1", way=way)
    assert done.out == (
        "moved from reservation:r1 to reservation:free: node4.lab, node5.lab, node6.lab\n"
    )
    assert inside(ganeti) == dict.fromkeys(("node2", *three), free)
    # No node was open to everybody at any moment.
    assert len(closed) == 24
    assert all(closed)


def test_named_nodes_and_the_list(front: Front) -> None:
    message = site("node4", "node5", "node6")
    put(message, "mine.lab", "node1.lab", "reservation:r1")
    put(message, "squatter.lab", "node6.lab")
    ganeti = Tagged(message)
    done = live(front, ganeti, "create", "reservation:r1", "node6", "node4.lab", "node6")
    assert done.status == 0
    assert done.err == "Note: instances on these nodes stay there: squatter.lab\n"
    done = live(front, ganeti, "list", "-o", "+instances", "--separator=|")
    assert done.out.splitlines() == [
        "Reservation|State|Count|Until|Nodes|Requested by|Instances there",
        "reservation:free|free|1|-|node5.lab|-|-",
        "reservation:r1|reserved|2|-|node4.lab,node6.lab|mine.lab|squatter.lab",
    ]


def test_the_list_as_data(front: Front) -> None:
    message = site("node4", "node5")
    message["nodes"]["node6.lab"]["tags"] = [f"{IN}reservation:r1"]
    put(message, "mine.lab", "node6.lab", "reservation:r1")
    done = live(front, Tagged(message), "list", "--json")
    data = json.loads(done.out)
    free, r1 = data
    assert (free["state"], free["count"], free["nodes"]) == ("free", 2, ["node4.lab", "node5.lab"])
    assert r1 == {
        "name": "reservation:r1",
        "state": "reserved",
        "count": 1,
        "nodes": ["node6.lab"],
        "groups": [],
        "requested_by": ["mine.lab"],
        "instances": ["mine.lab"],
        "until": "-",
        "entitled": "-",
    }


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_extend(front: Front, way: str) -> None:
    ganeti = Tagged(site("node2", "node4", "node5", "node6"))
    assert live(front, ganeti, "create", "r1", "node4").status == 0
    done = live(front, ganeti, "extend", "r1", "--count", "2", "--from", "rack2", way=way)
    assert (done.status, done.err) == (0, "")
    assert done.out == "moved from reservation:free to reservation:r1: node5.lab, node6.lab\n"
    r1 = ["reservation:r1"]
    both = {"node2": ["reservation:free"], "node4": r1, "node5": r1, "node6": r1}
    assert inside(ganeti) == both
    done = live(front, ganeti, "extend", "reservation:r1", "node4", "node2", way=way)
    assert done.status == 1
    assert "node4.lab is not in the free pool reservation:free" in done.err
    assert inside(ganeti) == both
    done = live(front, ganeti, "extend", "r1", "node2", "--dry-run", way=way)
    assert done.out == "would be moved from reservation:free to reservation:r1: node2.lab\n"
    assert inside(ganeti) == both


def test_an_extension_that_fails_leaves_the_reservation(front: Front) -> None:
    ganeti = Tagged(site("node4", "node5", "node6"))
    assert live(front, ganeti, "create", "r1", "node4").status == 0
    Meanwhile(ganeti, f"OP_TAGS_SET node6.lab {IN}reservation:r1", lambda: "the disk is full")
    done = live(front, ganeti, "extend", "r1", "--count", "2")
    assert done.err.endswith(": the disk is full; nothing is changed\n")
    free = ["reservation:free"]
    assert inside(ganeti) == {"node4": ["reservation:r1"], "node5": free, "node6": free}


def test_extended_at_the_same_time(front: Front) -> None:
    ganeti = Tagged(site("node3", "node4", "node5", "node6"))
    assert live(front, ganeti, "create", "r1", "node4").status == 0

    def act() -> None:
        ganeti.tags("node", "node6.lab")[:] = [f"{IN}reservation:r1"]

    Meanwhile(ganeti, f"OP_TAGS_SET node5.lab {IN}reservation:r1", act)
    done = live(front, ganeti, "extend", "r1", "node5")
    assert (done.status, done.out) == (1, "")
    assert (
        "another command has put node6.lab in a reservation, or extended reservation:r1 too; "
        "back in reservation:free: node5.lab"
    ) in done.err
    r1, free = ["reservation:r1"], ["reservation:free"]
    assert inside(ganeti) == {"node3": free, "node4": r1, "node5": free, "node6": r1}


def test_which_are_chosen(front: Front) -> None:
    """Usable ones of the named groups, and first those that have no instances."""
    message = site("node1", "node3", "node4", "node5", "node6")
    message["nodes"]["node4.lab"]["drained"] = True
    put(message, "one.lab", "node5.lab")
    ganeti = Tagged(message)
    done = live(front, ganeti, "create", "r1", "--from", "rack2", "--dry-run")
    assert done.out == "would be moved from reservation:free to reservation:r1: node6.lab\n"
    done = live(front, ganeti, "create", "r1", "--count", "2", "--from", "rack2", "--dry-run")
    assert done.out.endswith(": node5.lab, node6.lab\n")
    done = live(front, ganeti, "create", "r1", "--count=3", "--from=rack2")
    assert "3 wanted, but the free pool reservation:free has 2 usable nodes in rack2: " in done.err
    four = ("create", "r1", "--count", "4", "--from", "rack2,default", "--dry-run")
    done = live(front, ganeti, *four)
    assert done.err == (
        "gnt-steward reserve: 4 wanted in one node group, as drbd needs them, but default has 2, "
        "rack2 has 2; with --disk-template plain (or another one) they may be in several\n"
    )
    done = live(front, ganeti, *four, "--disk-template", "ext")
    assert done.out.endswith(": node1.lab, node3.lab, node5.lab, node6.lab\n")
    assert ganeti.done == []


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("create", "free"), "reservation:free is the free pool, not a reservation"),
        (("create", "in:x"), "reservation:in:x exists already"),
        (("create", "gone:"), "begins or ends with a colon"),
        (("create", "a b"), "is not an aggregate name"),
        (("create", "gold"), "no instance may request reservation:gold (it is unclaimable)"),
        (("create", "moving-1"), "names that begin so are for nodes on their way"),
        (("create", "r1", "--count", "0"), "--count is at least 1"),
        (
            ("create", "r1", "node4", "--count", "1"),
            "--count and names of nodes exclude",
        ),
        (("create", "r1", "node4", "--from=rack2"), "--from and names of nodes exclude"),
        (("create", "r1", "--from=rack9"), "the cluster has no node group 'rack9' (known: de"),
        (
            ("create", "r1", "node1", "node4", "node9"),
            "node1.lab is not in the free pool reservation:free; the cluster has no node 'node9'",
        ),
        (("create", "r1", "node6"), "node6.lab is not in the free pool reservation:free"),
        (
            ("create", "r1", "--count", "2"),
            "but the free pool reservation:free has 1 usable node: ",
        ),
        (("extend", "r1"), "there is no reservation reservation:r1 (known: reservation:in:x)"),
        (("extend", "free"), "reservation:free is the free pool, not a reservation"),
        (("extend", "moving-1"), "names that begin so are for nodes on their way"),
        (("extend", "gold"), "no instance may request reservation:gold (it is unclaimable)"),
        (("extend", "in:x", "--count", "2"), "has 1 usable node: node4.lab"),
        (("release", "r1"), "there is no reservation reservation:r1 (known: reservation:in:x)"),
        (("release", "free"), "reservation:free is the free pool, not a reservation"),
        (("list", "-o", "x"), "unknown field 'x' (known: name, state,"),
    ],
)
def test_what_cannot_be_done(front: Front, arguments: tuple[str, ...], fault: str) -> None:
    message = site("node4", "node6")
    message["cluster_tags"].append("steward:unclaimable:reservation:gold")
    # In the free pool and in a reservation: not free.
    message["nodes"]["node6.lab"]["tags"].append(f"{IN}reservation:in:x")
    ganeti = Tagged(message)
    done = live(front, ganeti, *arguments)
    assert (done.status, done.out) == (1, "")
    assert fault in done.err
    assert ganeti.done == []


def test_without_a_prefix(front: Front) -> None:
    message = site("node4")
    message["cluster_tags"] = []
    done = live(front, Tagged(message), "create", "r1")
    assert "has no default-forbidden prefix, so nothing can be reserved" in done.err
    assert live(front, Tagged(message), "list", "--no-headers").out == ""


def test_several_prefixes(front: Front) -> None:
    message = site("node4")
    message["cluster_tags"].append("steward:default-forbidden-prefix:license:")
    message["nodes"]["node5.lab"]["tags"] = [f"{IN}license:free"]
    ganeti = Tagged(message)
    done = live(front, ganeti, "create", "r1")
    assert "'r1' could be under any of license:, reservation:; write it with its prefix" in done.err
    done = live(front, ganeti, "create", "license:r1")
    assert done.out == "moved from license:free to license:r1: node5.lab\n"
    assert (
        "license: is not a required prefix: the tag license:r1 on an instance requests" in done.err
    )
    assert "to prevent that, add the cluster tag steward:unclaimable:license:free" in done.err


def test_settings_that_cannot_be_read(front: Front) -> None:
    message = site("node4")
    message["cluster_tags"].append("steward:default-forbiden-prefix:license:")
    ganeti = Tagged(message)
    done = live(front, ganeti, "create", "r1")
    assert "the cluster: tag 'steward:default-forbiden-prefix:license:': unknown key" in done.err
    assert ganeti.done == []


def test_files_are_not_written(front: Front) -> None:
    file = front.message(site("node4"))
    done = front("reserve", "create", "r1", "--file", file)
    assert f"unrecognized arguments: --file {file}" in done.err


def test_a_used_reservation_is_released_by_force_only(front: Front) -> None:
    message = site()
    message["nodes"]["node4.lab"]["tags"] = [f"{IN}reservation:r1"]
    put(message, "there.lab", "node4.lab")
    put(message, "client.lab", "node1.lab", "reservation:r1")
    ganeti = Tagged(message)
    done = live(front, ganeti, "release", "r1")
    assert "or are on its nodes: client.lab, there.lab; --force releases" in done.err
    assert ganeti.done == []
    assert live(front, ganeti, "release", "r1", "--force").status == 0
    assert inside(ganeti) == {"node4": ["reservation:free"]}


def test_a_node_in_two_reservations_stays_in_the_other(front: Front) -> None:
    message = site()
    message["nodes"]["node4.lab"]["tags"] = [f"{IN}reservation:r1"]
    message["nodes"]["node5.lab"]["tags"] = [f"{IN}reservation:r1", f"{IN}reservation:r2"]
    ganeti = Tagged(message)
    done = live(front, ganeti, "release", "r1")
    assert done.out.splitlines() == [
        "moved from reservation:r1 to reservation:free: node4.lab",
        "moved from reservation:r1: node5.lab",
    ]
    assert inside(ganeti) == {"node4": ["reservation:free"], "node5": ["reservation:r2"]}


def test_what_is_no_node_is_not_released(front: Front) -> None:
    message = site()
    for group in message["nodegroups"].values():
        group["tags"] = [f"{IN}reservation:r1"] if group["name"] == "rack2" else []
    ganeti = Tagged(message)
    done = live(front, ganeti, "release", "r1")
    assert "reservation:r1 has members that are not nodes" in done.err
    front.configure('[aggregates.nodes]\n"node1.lab" = ["reservation:r2"]\n')
    done = live(front, ganeti, "release", "r2")
    assert "the configuration, not a tag, puts node1.lab in reservation:r2" in done.err
