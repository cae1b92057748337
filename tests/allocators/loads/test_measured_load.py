"""Measured CPU load beside hail and hbal, which use the same data."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from ask import announced_score, hail, need_hail, steward
from asserting import some
from cluster_text import to_text
from clusters import cluster
from hbal_scores import moved, one_group, run_hbal, score, varied
from monitoring import addresses, daemons, node_report, reporting, xen_report

from ganeti_steward.allocators.capacity.sizes import with_instances
from ganeti_steward.allocators.loads.load_reports import (
    NODE_COLLECTOR,
    with_node_loads,
    with_reports,
)
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.frame import LOAD_UNIT
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Allocate

Message = dict[str, Any]


def _renamed(message: Message, names: list[str]) -> Message:
    """The same cluster with other node names."""
    text = json.dumps(message)
    for node, name in zip(message["nodes"], names, strict=True):
        text = text.replace(json.dumps(node), json.dumps(name))
    renamed: Message = json.loads(text)
    return renamed


def _both(message: Message, path: Path, *options: str) -> tuple[Message, Message]:
    """hail's answer and Steward's; the capacity test is not what this is about."""
    options = ("--no-capacity-checks", *options)
    return hail(message, path, *options), steward(message, *options)


def _agree(theirs: Message, ours: Message) -> None:
    assert theirs["success"] is ours["success"], (theirs, ours)
    # Exclusive storage has a metric of its own.
    if theirs["success"] and "score: ([" not in theirs["info"]:
        mine = announced_score(ours, ours["result"])
        assert mine == pytest.approx(announced_score(theirs, theirs["result"]), abs=2e-8)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["allocate-one", "allocate-pair"])
def test_load_of_nodes_is_used_as_hail_does(kind: str, seed: int, tmp_path: Path) -> None:
    need_hail()
    rng = random.Random(seed)
    message = cluster(seed, kind, "--vm-incapable=0", nodes=8)
    nodes = addresses(len(message["nodes"]))
    message = _renamed(message, nodes)
    loads = {node: round(rng.uniform(0, 12), rng.choice([0, 2, 9])) for node in nodes}
    with daemons({node: reporting(node_report(load)) for node, load in loads.items()}):
        theirs, ours = _both(message, tmp_path, "--mond")
    _agree(theirs, ours)
    if ours["success"] and "score: ([" not in ours["info"]:
        plain = steward(message, "--no-capacity-checks")
        assert announced_score(plain, plain["result"]) != announced_score(ours, ours["result"])


@pytest.mark.parametrize("seed", range(6))
def test_load_of_instances_is_used_as_hail_does(seed: int, tmp_path: Path) -> None:
    need_hail()
    rng = random.Random(seed)
    message = cluster(seed, "allocate-one", "--vm-incapable=0", nodes=6)
    nodes = addresses(len(message["nodes"]))
    message = _renamed(message, nodes)
    loads: dict[str, dict[str, float]] = {node: {"Domain-0": 1.0} for node in nodes}
    for name, instance in message["instances"].items():
        loads[instance["nodes"][0]][name] = rng.uniform(0, 4)
    with daemons({node: reporting(xen_report(loads[node])) for node in nodes}):
        _agree(*_both(message, tmp_path, "--mond=yes", "--mond-xen"))


def test_one_node_that_does_not_answer_spoils_it_for_hail_too(tmp_path: Path) -> None:
    message = cluster(1, "allocate-pair", "--offline=0", "--drained=0", "--vm-incapable=0", nodes=6)
    nodes = addresses(6)
    message = _renamed(message, nodes)
    behaviours = {node: reporting(node_report(float(i))) for i, node in enumerate(nodes)}
    behaviours[nodes[2]] = reporting()
    with daemons(behaviours):
        theirs, ours = _both(message, tmp_path, "--mond")
    _agree(theirs, ours)
    plain = steward(message, "--no-capacity-checks")
    fault = "status 404 for /1/report/default/cpu-avg-load"
    note = f" (CPU load not used: node '{nodes[2]}': {fault})"
    assert ours == {**plain, "info": plain["info"] + note}


def test_an_offline_node_is_not_queried(tmp_path: Path) -> None:
    """hail queries it; as nothing answers there it drops the data of all others."""
    message = cluster(1, "allocate-pair", "--offline=1", "--vm-incapable=0", nodes=6)
    nodes = addresses(6)
    message = _renamed(message, nodes)
    offline = [name for name, node in message["nodes"].items() if node["offline"]]
    assert offline
    live = set(nodes) - set(offline)
    reports = {node: reporting(node_report(float(i))) for i, node in enumerate(nodes)}
    with daemons(reports):
        with_offline = hail(message, tmp_path, "--no-capacity-checks", "--mond")
    with daemons({node: reports[node] for node in live}):
        theirs, ours = _both(message, tmp_path, "--mond")
    _agree(with_offline, ours)
    assert "not used" not in ours["info"]
    assert announced_score(theirs, theirs["result"]) != announced_score(ours, ours["result"])


@pytest.mark.parametrize("seed", range(16))
def test_score_with_cpu_speeds_and_instances_not_balanced(seed: int, tmp_path: Path) -> None:
    text = to_text(one_group(seed))
    faster = varied(text, seed)
    file = tmp_path / "cluster.data"
    file.write_text(faster)
    before, _, _ = run_hbal("-t", str(file), "-l", "0")
    assert score(read_text(faster)) == pytest.approx(before, abs=2e-8)
    assert score(read_text(text)) != pytest.approx(before, abs=2e-8)


@pytest.mark.parametrize("seed", range(16))
def test_score_with_unequal_loads(seed: int, tmp_path: Path) -> None:
    """hbal takes loads per instance from a file, and they move with the instances."""
    rng = random.Random(seed)
    text = varied(to_text(one_group(seed)), seed)
    before = read_text(text)
    loads = {instance.name: rng.uniform(0, 5) for instance in before.instances}
    file, usage, saved = (tmp_path / name for name in ("cluster.data", "usage", "saved"))
    file.write_text(text)
    usage.write_text("".join(f"{name} {load!r} 1 1 1\n" for name, load in loads.items()))
    options = ("-t", str(file), "-U", str(usage), "-l", "6", "-S", str(saved))
    first, last, printed = run_hbal(*options)
    snapshot = _loaded(before, loads)
    assert score(snapshot) == pytest.approx(first, abs=1e-7)
    after = _loaded(read_text(Path(f"{saved}.balanced").read_text()), loads)
    assert score(snapshot, moved(snapshot, after)) == pytest.approx(last, abs=1e-7), printed


def _loaded(snapshot: Cluster, loads: dict[str, float]) -> Cluster:
    instances = [one._replace(cpu_load=loads[one.name]) for one in snapshot.instances]
    return Cluster(snapshot.groups, snapshot.nodes, instances, snapshot.tags, snapshot.hypervisors)


@pytest.mark.parametrize("seed", range(8))
def test_the_file_of_reports_is_hbals(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = to_text(one_group(seed))
    snapshot = read_text(text)
    reports = {node.name: node_report(rng.uniform(0, 9)) for node in snapshot.nodes}
    file, data = tmp_path / "cluster.data", tmp_path / "reports.json"
    file.write_text(text)
    entries = [{"node": node, "reports": [report]} for node, report in reports.items()]
    data.write_text(json.dumps(entries))
    before, _, _ = run_hbal("-t", str(file), "--mond=yes", "--mond-data", str(data), "-l", "0")
    measured = with_reports(snapshot, reports, NODE_COLLECTOR)
    assert score(measured) == pytest.approx(before, abs=1e-7)
    assert score(snapshot) != pytest.approx(before, abs=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_moving_a_measured_instance_there_and_back_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    message = cluster(seed, "allocate-pair", "--vm-incapable=0")
    snapshot, _ = read_message(orjson.dumps(message))
    snapshot = with_node_loads(snapshot, {n.name: rng.uniform(0, 9) for n in snapshot.nodes})
    before = load(snapshot, "drbd", 0)
    for mine in some(before.residents.values()):
        away = before.removed(mine[0])
        load_row = before.now[quantity.CPU_LOAD] - away.now[quantity.CPU_LOAD]
        assert load_row.sum() == load_row[mine[0].primary] == mine[0].demand.load
        back = away.placed(*mine[0])
        assert (back.now[quantity.CPU_LOAD] == before.now[quantity.CPU_LOAD]).all()


def test_a_snapshot_that_grows_has_the_load_of_what_is_new() -> None:
    snapshot, request = read_message(orjson.dumps(cluster(3, "allocate-one", "--vm-incapable=0")))
    assert isinstance(request, Allocate)
    snapshot = with_node_loads(snapshot, {n.name: 4.5 for n in snapshot.nodes})
    new = request.instance._replace(nodes=(snapshot.nodes[1].name,))
    before, grown = load(snapshot, None, 0), load(with_instances(snapshot, [new]), None, 0)
    added = grown.now[quantity.CPU_LOAD] - before.now[quantity.CPU_LOAD]
    assert added[1] == added.sum() == LOAD_UNIT
