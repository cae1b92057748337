"""A plan of ``gnt-steward balance`` names what it leaves on unusable nodes, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from worlds import instance, node, world

from ganeti_steward.allocators.text_output import htools_text

if TYPE_CHECKING:
    from front import Front


@pytest.fixture
def cluster(tmp_path: Path) -> list[str]:
    """The options that name a cluster of six nodes in two groups."""
    nodes = [node(f"node{n}", group="g1") for n in range(1, 5)]
    nodes += [node(f"node{n}", group="g2") for n in (5, 6)]
    instances = [
        instance("plain1", "node1", template="plain"),
        instance("plain2", "node1", template="plain"),
        instance("web", "node1", "node2"),
        instance("copy", "node2", "node1"),
        instance("other", "node5", "node6"),
    ]
    file = tmp_path / "cluster.data"
    file.write_text(htools_text(world(nodes, instances).cluster))
    return ["--text-data", str(file)]


def left(front: Front, *options: str) -> list[tuple[str, str, str, str]]:
    """Node, role, instance and reason of all groups."""
    data = json.loads(front("balance", "--json", *options).out)
    return [
        (one["node"], one["role"], one["instance"], one["why"])
        for group in data["groups"]
        for one in group["left"]
    ]


def test_plain_instances(front: Front, cluster: list[str]) -> None:
    done = front("balance", "-E", "-O", "node1", *cluster)
    assert done.status == 0
    assert (
        "Left on node1 (offline), primary of plain1, plain2: plain, its only disks are there\n"
    ) in done.out
    # The other group has nothing that could be evacuated.
    assert "No moves: no instance has an unusable node (-E).\n" in done.out
    assert {one[2] for one in left(front, "-E", "-O", "node1", *cluster)} == {"plain1", "plain2"}


@pytest.mark.parametrize("option", ["-C", "--no-headers -o instance"])
def test_beside_commands_and_lists(front: Front, cluster: list[str], option: str) -> None:
    done = front("balance", "-E", "-O", "node1", *option.split(), *cluster)
    assert "Note: Left on node1 (offline), primary of plain1, plain2: plain, " in done.err
    assert "plain1" not in done.out


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--exclude-instances=web", "--exclude-instances names it"),
        ("--select-instances=copy", "it is not among --select-instances"),
        ("--no-instance-moves", "--no-instance-moves forbids it"),
        ("-l0", "no move is allowed that helps, or a limit of the plan is reached"),
    ],
)
def test_options_that_leave_an_instance(
    front: Front, cluster: list[str], option: str, expected: str
) -> None:
    found = left(front, "-O", "node1", option, *cluster)
    assert ("node1", "primary", "web", expected) in found


def test_copies_that_stay(front: Front, cluster: list[str]) -> None:
    found = left(front, "-O", "node1", "--no-disk-moves", *cluster)
    why = "--no-disk-moves forbids to copy its disks"
    assert ("node1", "secondary", "copy", why) in found
    # This one is swapped, so that it only loses its copy.
    assert ("node1", "secondary", "web", why) in found


def test_no_usable_node_is_left(front: Front, cluster: list[str]) -> None:
    done = front("balance", "-O", "g1", *cluster)
    assert (
        "Group g1: no usable node is left, so that nothing can be moved and there is no score. "
        "4 instances stay as they are: copy, plain1, plain2, web\n"
    ) in done.out
    assert "Balanced" not in done.out.partition("Group g2")[0]
    shown = front("check", "--no-simulation", "-O", "g1", *cluster).out
    assert "score" not in shown.partition("\nGroup g1 ")[2].partition("\nGroup g2 ")[0]


def test_nothing_is_left(front: Front, cluster: list[str]) -> None:
    assert left(front, *cluster) == []
    assert "Left on" not in front("balance", *cluster).out
