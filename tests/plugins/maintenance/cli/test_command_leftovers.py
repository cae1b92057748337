"""``gnt-steward leftovers``, by luxid and by RAPI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from daemons import Reached

if TYPE_CHECKING:
    from front import Front

RECORD, RECIPE, WINDOW, OTHER = (f"5b0c9f7e-6a39-5f0e-9d2b-6f3c3c1f7f1{n}" for n in range(4))


def rule(uuid: str, source: str, text: str, action: str = "CONTINUE") -> dict[str, Any]:
    return {
        "uuid": uuid,
        "priority": 0,
        "predicates": [],
        "action": action,
        "reason_trail": [[source, text, 1]],
        "watermark": 0,
    }


class Cluster(Reached):
    """Answers for what the command reads."""

    def __init__(self) -> None:
        self.info: dict[str, Any] = {"tags": ["rack:1"], "default_iallocator": "hail"}
        self.rows: dict[str, list[dict[str, Any]]] = {
            "group": [{"name": "default", "tags": []}],
            "node": [{"name": "node1.lab", "uuid": "u1", "tags": ["htools:iextags:a"]}],
            "instance": [{"name": "web1.lab", "tags": ["prod"]}],
            "filter": [rule(OTHER, "gnt:user", "mine", "PAUSE")],
        }

    def luxi(self, method: str, arguments: list[Any]) -> Any:
        if method == "QueryClusterInfo":
            return self.info
        what, fields, _ = arguments
        return {"data": [[[0, row[name]] for name in fields] for row in self.rows[what]]}

    def rapi(self, method: str, path: str) -> tuple[int, Any]:
        what = path.split("/")[2].partition("?")[0]
        return 200, self.info if what == "info" else self.rows[what.removesuffix("s")]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(params=["luxi", "rapi"])
def options(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    with ExitStack() as stack:
        yield stack.enter_context(cluster.reached(tmp_path, request.param))


def test_nothing_names_steward(front: Front, options: list[str]) -> None:
    done = front("leftovers", *options)
    assert (done.status, done.out) == (0, "Nothing in the cluster names Steward.\n")
    assert json.loads(front("leftovers", "--json", *options).out) == []


def test_each_thing_with_the_command_that_removes_it(
    cluster: Cluster, front: Front, options: list[str]
) -> None:
    cluster.info |= {"default_iallocator": "steward", "default_iallocator_params": {"mond": "yes"}}
    cluster.info["tags"] = ["maintd:pause:new-switch", "steward:pool:free"]
    cluster.rows["node"][0]["tags"] = ["maintd:off", "rack:1"]
    cluster.rows["instance"][0]["tags"] = ["steward:member-of:gpu", "maintd:shutdown:u1"]
    cluster.rows["filter"] += [
        rule(RECORD, "maintd:incident", '{"node_name": "node1.lab"}'),
        rule(RECIPE, "gnt:user", "gnt-steward:recipe:drain:pink bunny"),
        rule(WINDOW, "steward:filter-action", "WINDOW Mon-Fri 22:00-06:00", "PAUSE"),
    ]
    done = front("leftovers", *options)
    assert done.status == 1
    assert done.out.splitlines() == [
        "steward is the default allocator: commands without -I would fail",
        "    gnt-cluster modify --default-iallocator=hail",
        "the default allocator has parameters, which another may not know: mond",
        "    gnt-cluster modify --default-iallocator-params=",
        "cluster has 2 tags: maintd:pause:new-switch, steward:pool:free",
        "    gnt-cluster remove-tags maintd:pause:new-switch steward:pool:free",
        "node node1.lab has a tag: maintd:off",
        "    gnt-node remove-tags node1.lab maintd:off",
        "instance web1.lab has 2 tags: maintd:shutdown:u1, steward:member-of:gpu (it was shut down "
        "for the maintenance of node1.lab)",
        "    gnt-instance remove-tags web1.lab maintd:shutdown:u1 steward:member-of:gpu",
        f"filter rule {RECORD} was made by Steward (incident node1.lab)",
        f"    gnt-filter delete {RECORD}",
        f"filter rule {RECIPE} was made by Steward (recipe drain pink bunny)",
        f"    gnt-filter delete {RECIPE}",
        f"filter rule {WINDOW} holds jobs until the maintenance daemon releases them "
        "(WINDOW Mon-Fri 22:00-06:00)",
        f"    gnt-filter delete {WINDOW}",
    ]
    found = json.loads(front("leftovers", "--json", *options).out)
    assert [one["command"] for one in found] == [
        line.strip() for line in done.out.split("\n")[1::2]
    ]
    assert OTHER not in done.out


def test_what_a_shutdown_has_left(cluster: Cluster, front: Front, options: list[str]) -> None:
    cluster.rows["instance"][0]["tags"] = ["maintd:bring-up:10"]
    assert front("leftovers", *options).out.splitlines() == [
        "instance web1.lab has a tag: maintd:bring-up:10 (gnt-steward maintenance bring-up takes "
        "it back, and removes the tag)",
        "    gnt-instance remove-tags web1.lab maintd:bring-up:10",
    ]


def test_without_a_cluster(front: Front, tmp_path: Path) -> None:
    done = front("leftovers", "--luxi-socket", str(tmp_path / "none"))
    assert (done.status, done.out) == (1, "")
    assert "gnt-steward leftovers: " in done.err
