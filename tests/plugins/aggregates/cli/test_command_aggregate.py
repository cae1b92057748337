"""``gnt-steward aggregate``: who is in what, who may go where, and tags written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from daemons import luxid
from front import capture
from tagged import Tagged, instance

if TYPE_CHECKING:
    from front import Front
    from workspace import Done

Message = dict[str, Any]

IN = "steward:aggregate:"


def site() -> Message:
    """Two groups of three nodes: r1 on node5, the free pool on node6."""
    message = capture("allocate-diskless")
    message["cluster_tags"] = [
        "steward:default-forbidden-prefix:reservation:",
        "steward:required-prefix:reservation:",
        "steward:pool:nas1:aggregate:slow",
    ]
    tags = {
        "node2.lab": ["steward:unit:u1:aggregate:fast"],
        "node5.lab": [f"{IN}reservation:r1", f"{IN}alpha"],
        "node6.lab": [f"{IN}reservation:free"],
    }
    for name, node in message["nodes"].items():
        node["tags"] = tags.get(name, [])
    for group in message["nodegroups"].values():
        group["tags"] = [f"{IN}zone2"] if group["name"] == "rack2" else []
    message["instances"] = {
        "mine.lab": instance(["node5.lab"], "reservation:r1"),
        "other.lab": instance(["node1.lab"]),
    }
    return message


def on_file(front: Front, what: str, *arguments: str, message: Message | None = None) -> Done:
    file = front.message(message or site())
    return front("aggregate", what, *arguments, "--file", file)


def test_list(front: Front) -> None:
    done = on_file(front, "list")
    assert (done.status, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["Aggregate", "Groups", "Nodes", "Units", "Pools"],
        ["alpha", "-", "node5.lab", "-", "-"],
        ["fast", "-", "-", "node2.lab:u1", "-"],
        ["reservation:free", "-", "node6.lab", "-", "-"],
        ["reservation:r1", "-", "node5.lab", "-", "-"],
        ["slow", "-", "-", "-", "nas1"],
        ["zone2", "rack2", "-", "-", "-"],
    ]


def test_list_of_chosen_fields(front: Front) -> None:
    options = ("-o", "name,closed,instances,members", "--no-headers", "--separator=|")
    done = on_file(front, "list", *options)
    assert "reservation:r1|Y|mine.lab|1\n" in done.out
    assert "alpha|N|-|1\n" in done.out
    plus = on_file(front, "list", "-o", "+closed", "--separator=|")
    assert plus.out.startswith("Aggregate|Groups|Nodes|Units|Pools|Closed\n")


def test_list_as_data(front: Front) -> None:
    rows = json.loads(on_file(front, "list", "--json").out)
    assert [one["name"] for one in rows] == [
        "alpha",
        "fast",
        "reservation:free",
        "reservation:r1",
        "slow",
        "zone2",
    ]
    assert rows[3] == {
        "name": "reservation:r1",
        "groups": [],
        "nodes": ["node5.lab"],
        "units": [],
        "pools": [],
        "members": 1,
        "closed": True,
        "instances": ["mine.lab"],
        "until": "-",
        "entitled": "-",
    }
    rows = json.loads(on_file(front, "list", "--json", "-o", "name,closed").out)
    assert rows[0] == {"name": "alpha", "closed": False}


def test_an_unknown_field(front: Front) -> None:
    done = on_file(front, "list", "-o", "name,colour")
    assert (done.status, done.out) == (1, "")
    assert "unknown field 'colour' (known: name, groups, nodes," in done.err


def test_members_of_the_configuration_are_listed(front: Front) -> None:
    front.configure('[aggregates.nodes]\n"node1.lab" = ["gold"]\n"node99.lab" = ["gold"]\n')
    done = on_file(front, "list", "--no-headers", "--separator=|")
    assert "gold|-|node1.lab|-|-\n" in done.out
    assert "the cluster has no node99.lab" in done.err


def test_show_an_aggregate(front: Front) -> None:
    done = on_file(front, "show", "reservation:r1")
    assert done.out.splitlines() == [
        "Aggregate reservation:r1",
        "  nodes: node5.lab",
        "  closed to instances that request nothing under reservation:",
        "  instances request it with the tag reservation:r1 or steward:member-of:reservation:r1",
        "  requested by: mine.lab",
    ]


def test_show_what_is_requested_and_has_no_members(front: Front) -> None:
    message = site()
    message["instances"]["mine.lab"]["tags"] = ["reservation:r9"]
    done = on_file(front, "show", "reservation:r9", message=message)
    assert "has no members: an instance that requests it is placed nowhere" in done.out


def test_show_an_unclaimable_one(front: Front) -> None:
    message = site()
    message["cluster_tags"].append("steward:unclaimable:reservation:free")
    done = on_file(front, "show", "reservation:free", message=message)
    assert "  no instance may request it\n" in done.out
    assert "with the tag" not in done.out


def test_show_a_node(front: Front) -> None:
    done = on_file(front, "show", "node5")
    lines = done.out.splitlines()
    assert lines[:4] == [
        "Node node5.lab",
        "  in aggregates: alpha, reservation:r1",
        "  by its node group rack2: zone2",
        "  as primary, 1 of the instances (2): mine.lab",
    ]
    (why,) = lines[4:]
    assert why.startswith("    not other.lab: it is in aggregate reservation:r1")


def test_show_an_instance(front: Front) -> None:
    done = on_file(front, "show", "mine")
    lines = done.out.splitlines()
    assert lines[:2] == ["Instance mine.lab on node5.lab", "  requests: reservation:r1"]
    assert "  as primary, 1 of the nodes (6): node5.lab" in lines
    assert any(line.startswith("    not node1.lab, node2.lab, node3.lab") for line in lines)
    other = on_file(front, "show", "other.lab").out
    assert "  as primary closed to it: everything under reservation:\n" in other
    assert "  as primary, 4 of the nodes (6): node1.lab, node2.lab, node3.lab, node4.lab" in other


def test_show_a_group_and_what_else_has_its_name(front: Front) -> None:
    message = site()
    message["nodes"]["node4.lab"]["tags"] = [f"{IN}rack2"]
    done = on_file(front, "show", "rack2", message=message)
    one, two = done.out.split("\n\n")
    assert one.startswith("Aggregate rack2\n")
    assert two.splitlines()[:2] == ["Node group rack2", "  in aggregates: zone2"]
    assert "  node4.lab: rack2" in two


def test_show_nothing(front: Front) -> None:
    done = on_file(front, "show", "nothing")
    assert done.status == 1
    assert "'nothing' is not an aggregate with members, a node, a node group or an" in done.err


def test_check_finds_nothing(front: Front) -> None:
    done = on_file(front, "check")
    assert (done.status, done.out) == (0, "Nothing is wrong.\n")


def test_check(front: Front) -> None:
    """Each with its sentence: where it stands, its tags, those of the hosts and the cluster."""
    message = site()
    message["instances"]["other.lab"]["nodes"] = ["node5.lab"]
    message["instances"]["slip.lab"] = instance(["node1.lab"], "steward:memberof:a")
    message["nodes"]["node3.lab"]["tags"] = ["steward:agregate:a"]
    message["cluster_tags"].append("steward:aggregate:a")
    done = on_file(front, "check", message=message)
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("the cluster: tag 'steward:aggregate:a': the whole cluster cannot")
    assert lines[1].startswith("node node3.lab: tag 'steward:agregate:a': unknown key")
    assert lines[2].startswith("instance slip.lab: tag 'steward:memberof:a': unknown key")
    assert lines[3].startswith(
        "instance other.lab would not be placed on node5.lab as primary today: it is in "
        "aggregate reservation:r1"
    )
    assert len(lines) == 4


def test_check_as_data(front: Front) -> None:
    message = site()
    done = on_file(front, "check", "--json", message=message)
    assert (done.status, json.loads(done.out)) == (
        0,
        {"well": True, "faults": [], "misplaced": []},
    )
    message["instances"]["other.lab"]["nodes"] = ["node6.lab"]
    message["nodes"]["node3.lab"]["tags"] = ["steward:agregate:a"]
    done = on_file(front, "check", "--json", message=message)
    assert done.status == 1
    data = json.loads(done.out)
    assert data["well"] is False
    (fault,) = data["faults"]
    assert fault == {
        "kind": "node",
        "name": "node3.lab",
        "tag": "steward:agregate:a",
        "text": fault["text"],
    }
    assert fault["text"].startswith("unknown key 'agregate'")
    (one,) = data["misplaced"]
    assert (one["instance"], one["node"], one["role"]) == ("other.lab", "node6.lab", "primary")
    assert one["text"].startswith("it is in aggregate reservation:free; ")


def test_check_reports_configured_instances_that_do_not_exist(front: Front) -> None:
    """They may come; a slip in a name would leave the instance without its rules."""
    front.configure('[aggregates.instances]\n"mine" = ["alpha"]\n"mine.lab" = ["alpha"]\n')
    done = on_file(front, "check")
    assert (done.status, done.out) == (0, "Nothing is wrong.\n")
    note = "configuration aggregates.instances.mine: the cluster has no mine now"
    assert done.err == f"Note: {note}\n"


def test_check_looks_at_secondaries(front: Front) -> None:
    message = site()
    tag = "steward:member-of.secondary:not:zone9"
    message["instances"]["pair.lab"] = instance(["node1.lab", "node2.lab"], tag, template="drbd")
    assert on_file(front, "check", message=message).status == 0
    message["nodes"]["node2.lab"]["tags"] = [f"{IN}zone9"]
    done = on_file(front, "check", message=message)
    assert "pair.lab would not be placed on node2.lab as secondary today: " in done.out


# -- writing


def live(front: Front, ganeti: Tagged, *arguments: str, way: str = "luxi") -> Done:
    with ganeti.reached(front.path, way) as options:
        return front("aggregate", *arguments, *options)


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_add_and_remove(front: Front, way: str) -> None:
    ganeti = Tagged(site())
    members = ("node1", "default", "unit:node2.lab:u1", "pool:nas1", "node:node1.lab")
    done = live(front, ganeti, "add", "gold", *members, way=way)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"done: '{IN}gold' on node node1.lab",
        f"done: '{IN}gold' on node group default",
        "done: 'steward:unit:u1:aggregate:gold' on node node2.lab",
        "done: 'steward:pool:nas1:aggregate:gold' on the cluster",
    ]
    assert f"{IN}gold" in ganeti.tags("node", "node1.lab")
    assert f"{IN}gold" in ganeti.tags("nodegroup", "default")
    assert "steward:unit:u1:aggregate:gold" in ganeti.tags("node", "node2.lab")
    assert "steward:pool:nas1:aggregate:gold" in ganeti.tags("cluster")
    again = live(front, ganeti, "add", "gold", "node1", way=way)
    assert again.out == "Nothing to do: all of them are in it already.\n"
    done = live(front, ganeti, "remove", "gold", *members, way=way)
    assert done.status == 0
    fresh = Tagged(site())
    for kind, name in (("node", "node1.lab"), ("nodegroup", "default"), ("cluster", None)):
        assert ganeti.tags(kind, name) == fresh.tags(kind, name)


def test_a_dry_run_writes_nothing(front: Front) -> None:
    ganeti = Tagged(site())
    done = live(front, ganeti, "add", "gold", "node1", "--dry-run")
    assert done.out == f"would be done: '{IN}gold' on node node1.lab\n"
    assert ganeti.done == []


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        (("add", "in:x", "node1"), ["the name 'in:x' begins like \"in:\""]),
        (("add", "a b", "node1"), ["'a b' is not an aggregate name"]),
        (
            ("add", "gold", "node1", "missing", "unit:node9:u", "pool:a b", "group:no"),
            [
                "'missing' is neither a node nor a node group of the cluster",
                "the cluster has no node 'node9'",
                "'a b' is not a pool name",
                "the cluster has no node group 'no'",
            ],
        ),
        (
            ("remove", "alpha", "node5", "node1", "rack2"),
            [f"node node1.lab has no tag '{IN}alpha'", f"node group rack2 has no tag '{IN}alpha'"],
        ),
        (("add", "g" * 64, "pool:" + "p" * 64), ["is longer than 128 characters"]),
    ],
)
def test_all_faults_are_printed_and_nothing_is_done(
    front: Front, arguments: tuple[str, ...], faults: list[str]
) -> None:
    ganeti = Tagged(site())
    done = live(front, ganeti, *arguments)
    assert (done.status, done.out) == (1, "")
    for fault in faults:
        assert fault in done.err
    assert ganeti.done == []


def test_a_node_with_the_name_of_a_group(front: Front) -> None:
    message = site()
    for group in message["nodegroups"].values():
        if group["name"] == "default":
            group["name"] = "node1.lab"
    ganeti = Tagged(message)
    done = live(front, ganeti, "add", "gold", "node1.lab")
    assert "'node1.lab' is a node and a node group; write node:node1.lab or group:node1" in done.err
    done = live(front, ganeti, "add", "gold", "group:node1.lab")
    assert done.out == f"done: '{IN}gold' on node group node1.lab\n"


def test_files_are_not_written(front: Front) -> None:
    file = front.message(site())
    before = Path(file).read_text()
    done = front("aggregate", "add", "gold", "node1", "--file", file)
    assert done.status == 2
    assert f"unrecognized arguments: --file {file}" in done.err
    assert Path(file).read_text() == before


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_one_failure_takes_back_the_others(front: Front, way: str) -> None:
    ganeti = Tagged(site())
    ganeti.before = lambda operation: "too many tags" if operation["name"] == "node3.lab" else ""
    done = live(front, ganeti, "add", "gold", "node1", "node2", "node3", "default", way=way)
    assert (done.status, done.out) == (1, "")
    assert "node node3.lab: too many tags; nothing is changed" in done.err
    assert len(ganeti.done) == 6
    for name in ("node1.lab", "node2.lab"):
        assert f"{IN}gold" not in ganeti.tags("node", name)
    assert ganeti.tags("nodegroup", "default") == []


def test_what_cannot_be_taken_back_is_printed(front: Front) -> None:
    ganeti = Tagged(site())

    def before(operation: Message) -> str:
        return "no" if operation["name"] == "node3.lab" or "DEL" in operation["OP_ID"] else ""

    ganeti.before = before
    done = live(front, ganeti, "add", "gold", "node1", "node3")
    assert f"node node3.lab: no; could not be taken back: '{IN}gold' on node node1" in done.err


def test_what_may_come_true_later_is_printed(front: Front) -> None:
    ganeti = Tagged(site())

    def answer(method: str, arguments: list[Any]) -> Any:
        if method == "SubmitManyJobs" and "TAGS" in str(arguments):
            return None
        return ganeti.luxi(method, arguments)

    with luxid(front.path, answer) as daemon:
        done = front("aggregate", "add", "gold", "node1", "--luxi-socket", daemon.path)
    assert done.status == 1
    assert done.err.endswith("before the answer; perhaps done later: node node1.lab\n")
