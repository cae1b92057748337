"""``gnt-steward maintenance plan`` on a cluster in htools' text format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from paths import DOCS
from workspace import Done
from worlds import instance, node, world

from ganeti_steward.allocators.text_output import htools_text

if TYPE_CHECKING:
    from front import Front

Call = Callable[..., Done]

NODES = [node(f"node{number}.lab") for number in range(1, 6)]
INSTANCES = [
    instance("web1.lab", "node1.lab", "node2.lab", memory=4096),
    instance("web2.lab", "node2.lab", "node3.lab", memory=4096),
    instance("db1.lab", "node4.lab", "node5.lab", memory=8192),
    instance("sh1.lab", "node3.lab", template="rbd", memory=2048),
    instance("pl1.lab", "node5.lab", template="plain"),
]


@pytest.fixture
def call(front: Front, tmp_path: Path) -> Call:
    file = tmp_path / "cluster.data"
    file.write_text(htools_text(world(NODES, INSTANCES).cluster))
    return lambda *words: front("maintenance", "plan", "--text-data", str(file), *words)


def shown(text: str) -> bool:
    """Whether the command's page has these lines."""
    page = (DOCS / "reference/commands/maintenance.md").read_text()
    return "".join(f"    {line}\n" for line in text.splitlines()) in page


def test_rounds_and_moves_are_those_of_the_page(call: Call) -> None:
    done = call("--all", "--stop")
    assert (done.status, shown(done.out), done.err) == (0, True, "")
    done = call("--all", "--move", "--moves")
    assert (done.status, shown(done.out)) == (0, True)


def test_the_daemon_takes_fewer_nodes_at_once(call: Call, front: Front) -> None:
    text = "the daemon takes at most 1 node at once (most-nodes of [maintd]); --at-once 1 prints"
    assert text in call("--all", "--stop").out
    assert "most-nodes" not in call("--all", "--stop", "--at-once", "1").out
    front.configure("[maintd]\nmost-nodes = 5\n")
    assert "most-nodes" not in call("--all", "--stop").out


def test_what_is_in_the_way_is_a_note_and_a_status(call: Call) -> None:
    done = call("node4,node5", "--no-headers", "--separator", "|", "-o", "nodes,stopped,moves")
    assert done.status == 1
    assert done.out == "node4.lab|0|db1.lab:migrate:node5.lab\n"
    assert "node5.lab: pl1.lab has disks of the template plain" in done.err
    assert "what helps: --stop" in done.err


def test_as_data(call: Call) -> None:
    done = call("--all", "--json", "--at-once", "1", "--no-return", "--n1")
    data = json.loads(done.out)
    assert done.status == 1
    assert [len(one["nodes"]) for one in data["rounds"]] == [1, 1, 1, 1]
    assert [one["node"] for one in data["impossible"]] == ["node5.lab"]
    assert sum(len(one["leaves"]) for one in data["rounds"]) >= 4


def test_how_long_rounds_take(call: Call) -> None:
    """node4 has 8 GiB of memory to migrate, node5 10.1 GiB of disks to copy, both ways."""
    columns = ("-o", "nodes,minutes", "--no-headers", "--separator", "|")
    done = call("node4,node5", "--move", "--at-once", "1", *columns)
    assert sorted(done.out.splitlines()) == ["node4.lab|1.2", "node5.lab|5.5"]
    slow = ("--migrated-per-second", "100", "--copied-per-second", "10", "--failover-seconds", "1")
    done = call("node4,node5", "--move", "--at-once", "1", "--no-return", *columns, *slow)
    assert sorted(done.out.splitlines()) == ["node4.lab|1.6", "node5.lab|17.3"]
    data = json.loads(call("node4", "--json").out)
    assert [one["seconds"] for one in data["rounds"]] == [71.0]
    assert call("--all", "--copied-per-second", "0").status == 2


def test_one_way_of_naming_nodes(call: Call) -> None:
    for words in ((), ("node1", "--all"), ("-G", "no-such-group"), ("node9",)):
        assert call(*words).status == 1
    assert call("-G", "default", "--at-once", "0").status == 2
