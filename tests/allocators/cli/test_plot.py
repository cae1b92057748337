"""``--plot``: the picture shows the figures after what the answer prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

import clusters
import pytest

from ganeti_steward.allocators.overview.amounts import Amount, Filled, FilledGroup
from ganeti_steward.allocators.overview.filled import overview, with_placed
from ganeti_steward.allocators.overview.picture import svg
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster

if TYPE_CHECKING:
    from front import Front

_SVG: Final = "{http://www.w3.org/2000/svg}"
SHAPE: Final = ("--nodes=8", "--groups=2", "--mix=drbd=1", "--seed=7", "--fill=.6", "--drained=1")


def drawn(file: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Title and note, and node or group -> the numbers of its three bars."""
    texts = list(ElementTree.parse(file).getroot().iter(f"{_SVG}text"))
    rows: dict[str, list[str]] = {}
    for one in texts:
        name, title = one.text or "", one.find(f"{_SVG}title")
        if rows and title is None and one.find(f"{_SVG}tspan[@class='absolute']") is None:
            break
        if title is not None:
            numbers = rows.setdefault(name, [])
        elif rows:
            numbers.append(name)
    return [one.text or "" for one in texts[:2]], rows


def plotted(front: Front, *arguments: str) -> tuple[str, list[str], dict[str, list[str]]]:
    file = front.path / "picture.svg"
    done = front(*arguments, "--plot", str(file))
    assert (done.status, done.err) == (0, "")
    return (done.out, *drawn(file))


def test_balance(front: Front) -> None:
    message = clusters.generate(*SHAPE)
    file = front.message(message)
    out, (title, note), rows = plotted(front, "balance", "--json", "--file", file)
    plan = json.loads(out)
    assert re.fullmatch(r"Balancing of cluster\.example\.com, \d{4}-\d\d-\d\d \d\d:\d\d UTC", title)
    assert note == f"now, and after {plan['moves']} moves"
    assert len(rows) == 8 + 2
    assert all(len(numbers) == 3 for numbers in rows.values())
    node = plan["steps"][0]["after"][0]
    memory = message["nodes"][node]["total_memory"]
    nodes = {name: list(one["nodes"]) for name, one in message["instances"].items()}
    nodes |= {step["instance"]: step["after"] for step in plan["steps"]}
    change = sum(
        one["memory"] * ((nodes[name][0] == node) - (one["nodes"][0] == node))
        for name, one in message["instances"].items()
    )
    now, after = map(int, re.findall(r"\d+", rows[node.partition(".")[0]][0]))
    assert after - now == pytest.approx(100 * change / memory, abs=1.01)


def test_the_score_of_each_group_against_what_is_copied(front: Front) -> None:
    file = front.path / "picture.svg"
    message = front.message(clusters.generate(*SHAPE))
    done = front("balance", "--json", "--file", message, "--plot", str(file))
    changed = [one for one in json.loads(done.out)["groups"] if one["moves"]]
    root = ElementTree.parse(file).getroot()
    titles = [one.findtext(f"{_SVG}title") or "" for one in root.iter(f"{_SVG}circle")]
    assert len(titles) == sum(1 + len(one["moves"]) for one in changed)
    chosen = [one for one in root.iter(f"{_SVG}circle") if one.get("class") == "chosen"]
    for group, point in zip(changed, chosen, strict=True):
        copied = sum(move["copied"] for move in group["moves"]) / 1024
        number = len(group["moves"])
        assert point.findtext(f"{_SVG}title") == (
            f"{number} moves: score {group['score_after']:.4f}, {copied:.1f} GiB copied"
        )
        words = f"{group['score_after']:.4f} chosen: {number} moves, {copied:.1f} GiB copied"
        assert any((one.text or "").endswith(words) for one in root.iter(f"{_SVG}tspan"))


def test_a_plan_without_moves(front: Front) -> None:
    file = front.message(clusters.generate(*SHAPE))
    _, (_, note), rows = plotted(front, "balance", "-l", "0", "--file", file)
    assert note == "now; no move is planned"
    assert not any("→" in number for numbers in rows.values() for number in numbers)


def test_capacity(front: Front) -> None:
    file = front.message(clusters.generate(*SHAPE))
    one = ("--memory", "4g", "--disk", "0:size=20g", "--disk-template", "drbd")
    out, heading, rows = plotted(front, "capacity", *one, "--json", file)
    (run,) = json.loads(out)["runs"]
    assert heading[0].startswith("Capacity of cluster.example.com, ")
    assert heading[1] == f"now, and after requested: {run['count']} instances more"
    for node in {node for places in run["sizes"][0]["placements"] for node in places}:
        assert any("→" in number for number in rows[node.partition(".")[0]])


def test_a_file_that_cannot_be_written(front: Front) -> None:
    file = front.message(clusters.generate(*SHAPE))
    done = front("balance", "--file", file, "--plot", f"{front.path}/no/picture.svg")
    assert done.status == 1
    assert done.err == (
        f"gnt-steward balance: {front.path}/no/picture.svg: No such file or directory\n"
    )


def read(message: dict[str, Any]) -> Any:
    return read_message(json.dumps(message).encode())


def test_moves_there_and_back_change_nothing() -> None:
    cluster, _ = read(clusters.generate(*SHAPE, "--request=none") | {"request": _ANY})
    now = load(cluster, None, 0)
    one = cluster.instances[0]
    other = next(node.name for node in cluster.nodes if node.name not in one.nodes)
    moved = with_placed(now, [(one, (one.nodes[0], other))])
    assert moved is not None
    assert overview(now, moved) != overview(now, now)
    final = with_placed(now, [(one, (one.nodes[0], other)), (one, one.nodes)])
    assert overview(now, final) == overview(now, now)
    assert with_placed(now, []) is None


_ANY: Final = {"type": "balance"}


def test_a_group_without_nodes() -> None:
    cluster, _ = read(clusters.generate(*SHAPE) | {"request": _ANY})
    (first, *_) = cluster.groups
    empty = first._replace(uuid="empty", name="zz-empty")
    now = load(Cluster((*cluster.groups, empty), cluster.nodes, cluster.instances), None, 0)
    found = overview(now, now)
    assert [group.whole.name for group in found] == ["group00", "group01", "zz-empty"]
    assert found[-1] == FilledGroup(Filled("zz-empty", (Amount(0, None),) * 3), ())
    assert "group zz-empty" in svg(found, "")


def test_nodes_that_are_not_as_they_should_be() -> None:
    shape = ("--nodes=6", "--mix=drbd=1", "--seed=3", "--fill=.9", "--offline=1", "--drained=1")
    cluster, _ = read(clusters.generate(*shape) | {"request": _ANY})
    (group,) = overview(load(cluster, None, 0))
    notes = {note for node in group.nodes for note in node.notes}
    assert {"offline", "drained"} <= notes
    offline = next(node for node in group.nodes if "offline" in node.notes)
    assert all(one.total is None for one in offline.now[:2])
    assert group.whole.now[0].total == sum(node.now[0].total or 0 for node in group.nodes)
