"""``gnt-steward aggregate hosts``: the nodes that expressions allow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from front import capture

if TYPE_CHECKING:
    from front import Front
    from workspace import Done

IN = "steward:aggregate:"


def hosts(front: Front, *arguments: str, tags: tuple[str, ...] = ()) -> Done:
    """Rack2 is in zone2, node5 also in alpha; node1 is licensed, which closes it."""
    message: dict[str, Any] = capture("allocate-diskless")
    message["cluster_tags"] = ["steward:default-forbidden-prefix:license:", *tags]
    of = {"node1.lab": ["license:a"], "node5.lab": ["alpha"]}
    for name, node in message["nodes"].items():
        node["tags"] = [f"{IN}{one}" for one in of.get(name, ())]
    message["nodes"]["node6.lab"]["drained"] = True
    for group in message["nodegroups"].values():
        group["tags"] = [f"{IN}zone2"] if group["name"] == "rack2" else []
    return front("aggregate", "hosts", *arguments, "--file", front.message(message))


def names(done: Done) -> list[str]:
    assert (done.status, done.err) == (0, "")
    return [line.partition(".")[0] for line in done.out.splitlines()[1:]]


@pytest.mark.parametrize(
    ("expressions", "allowed"),
    [
        (("zone2",), "456"),
        (("!zone2",), "23"),
        (("in:alpha,license:a",), "15"),
        (("zone2", "!alpha"), "46"),
        (("license:a",), "1"),
        (("!alpha",), "2346"),
        (("steward:member-of:in:alpha+zone2",), "456"),
        (("member_of_secondary=alpha",), "23456"),
    ],
)
def test_expressions(front: Front, expressions: tuple[str, ...], allowed: str) -> None:
    assert names(hosts(front, *expressions)) == [f"node{one}" for one in allowed]


def test_columns(front: Front) -> None:
    done = hosts(front, "!alpha", "member_of_secondary=license:a", "-v", "--separator=|")
    assert done.out.splitlines()[:2] == [
        "Node|Group|Roles|State|Why not",
        "node1.lab|default|secondary|usable|it is in aggregate license:a; an instance must request "
        "one of license:*",
    ]
    assert "node5.lab|rack2|-|usable|it is in aggregate alpha, which is forbidden\n" in done.out
    assert "node6.lab|rack2|primary|drained|as secondary: it is not in aggregate lic" in done.out


def test_as_data(front: Front) -> None:
    (row,) = json.loads(hosts(front, "alpha", "--json").out)
    assert (row["name"], row["roles"]) == ("node5.lab", ["primary", "secondary"])
    assert (row["aggregates"], row["state"]) == (["alpha", "zone2"], "usable")


def test_none(front: Front) -> None:
    done = hosts(front, "alpha", "!zone2", "--no-headers")
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "Note: 0/6 nodes: 3 in forbidden aggregate zone2, 2 not in aggregate alpha, 1 reserved "
        "(license:*)\n"
    )


def test_who_may_request_it(front: Front) -> None:
    tags = ("steward:entitled-tag:alpha+owner:a", "steward:unclaimable:license:a")
    done = hosts(front, "in:alpha,license:a", tags=tags)
    assert done.err.splitlines() == [
        "Note: only instances with the tag owner:a may request aggregate alpha",
        "Note: no instance may request aggregate license:a",
    ]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("a,b",), "'a,b': a list needs \"in:\""),
        (("steward:memberof:a",), "'steward:memberof:a': unknown key 'memberof'"),
        (("prefer=a",), "'prefer=a': excludes no host"),
        (("a", "--disk-template", "raid"), "unknown disk template 'raid'"),
    ],
)
def test_faults(front: Front, arguments: tuple[str, ...], fault: str) -> None:
    done = hosts(front, *arguments)
    assert (done.status, done.out) == (1, "")
    assert fault in done.err
