"""The watcher sees what it is there for, and nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from ...cluster import op, until
from ..maintained_lab import MaintainedLab
from .breaking import ARRIVE, ARRIVED, migrations, power, power_program, without_noded
from .findings import all_well, data
from .watched import Runs, watched


@pytest.fixture(name="nodes")
def _nodes(tmp_path: Path) -> list[Path]:
    """The files of two nodes without a lab."""
    found = [tmp_path / f"nodes/node{at}.lab/run/ganeti/fake-hypervisor" for at in (1, 2)]
    for folder in found:
        folder.mkdir(parents=True)
    return found


def test_an_instance_on_two_nodes(tmp_path: Path, nodes: list[Path]) -> None:
    with watched(tmp_path) as found:
        for folder in nodes:
            (folder / "a").touch()
        time.sleep(1)
        (nodes[0] / "a").unlink()
        time.sleep(1)
    assert len(found.double) > 5
    assert {(*one.running["a"],) for one in found.double} == {("node1.lab", "node2.lab")}
    assert found.nodes("a") == {"node1.lab", "node2.lab"}
    assert found.now("a") == ["node2.lab"]


def test_what_is_forgotten(tmp_path: Path, nodes: list[Path]) -> None:
    """What is seen after it counts."""
    with watched(tmp_path) as found:
        for folder in nodes:
            (folder / "a").touch()
        until(lambda: bool(found.double))
        (nodes[0] / "a").unlink()
        until(lambda: found.now("a") == ["node2.lab"])
        found.forget()
        assert found.double == []
        (nodes[0] / "b").touch()
        until(lambda: bool(found.changes))
        assert (found.double, found.nodes("b")) == ([], {"node1.lab"})


def test_a_thousand_moves_of_which_none_overlaps(tmp_path: Path, nodes: list[Path]) -> None:
    """As fast as the machine can: often the one node is read before a move, the other after."""
    old, new = nodes
    for at in range(1000):
        (old / f"a{at}").touch()
    with watched(tmp_path) as found:
        for at in range(1000):
            (old / f"a{at}").unlink()
            (new / f"a{at}").touch()
            time.sleep(0.002)
    assert found.double == []
    assert len(found.changes) > 3


def test_a_watcher_that_ends_is_no_proof(tmp_path: Path, nodes: list[Path]) -> None:
    def killed() -> None:
        with watched(tmp_path):
            watcher = max(psutil.Process().children(), key=psutil.Process.create_time)
            watcher.kill()

    with pytest.raises(AssertionError, match="the watcher ended with"):
        killed()
    assert nodes


def test_what_runs_on_while_ganeti_does_not_see_it(maintained: MaintainedLab, runs: Runs) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(("inst1.lab", "ext", node), ("inst2.lab", "drbd", f"{node}:node3.lab"))
    assert runs.nodes("inst1.lab") == runs.nodes("inst2.lab") == {node}
    with without_noded(lab, node):
        time.sleep(0.3)
        assert lab.running(node) == {"inst1.lab", "inst2.lab"}
        assert {*dict(lab.rows("instance", "name", "status")).values()} == {"ERROR_nodedown"}
    lab.do(op("INSTANCE_MIGRATE", instance_name="inst2.lab"))
    time.sleep(0.3)
    assert all_well(lab, runs) == {}
    assert runs.nodes("inst2.lab") == {node, "node3.lab"}


@pytest.mark.parametrize("point", [ARRIVE, ARRIVED])
def test_a_migration_cut_in_half(maintained: MaintainedLab, runs: Runs, point: str) -> None:
    """Either way Ganeti says that the instance is down, and in one it is not."""
    lab = maintained
    lab.place(("inst1.lab", "drbd", "node2.lab:node3.lab"))
    with migrations(lab, point, "node3.lab", fail=True), pytest.raises(AssertionError):
        lab.do(op("INSTANCE_MIGRATE", instance_name="inst1.lab"))
    time.sleep(0.3)
    (wrong,) = all_well(lab, runs).values()
    assert wrong.startswith("ERROR_down")
    assert runs.now("inst1.lab") == (["node3.lab"] if point == ARRIVED else [])


def test_the_power_program(maintained: MaintainedLab, runs: Runs) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(("inst1.lab", "ext", node), ("inst2.lab", "drbd", f"{node}:node3.lab"))
    same = data(lab, "inst2.lab")
    assert len({*same.values()}) == 1
    with power_program(lab) as folder:
        off = power(node, "off") | {"ignore_status": True}
        (folder / node).write_text("lie\n")
        lab.do(off)
        assert lab.running(node) == {"inst1.lab", "inst2.lab"}
        assert _powered(lab, node)
        (folder / node).unlink()
        lab.do(off)
        assert not _powered(lab, node)
        time.sleep(0.3)
        assert runs.now("inst1.lab") == runs.now("inst2.lab") == []
        assert lab.agents[node].wait(30) != 0
        assert len({*data(lab, "inst2.lab").values()}) == 2
    assert _answers(lab, node)


def _powered(lab: MaintainedLab, node: str) -> bool:
    number = int(lab.luxi.call("SubmitJob", [power(node, "status")]))
    until(lambda: lab.luxi.states([number])[0].ended, every=0.2)
    ((_, (status, found)),) = lab.luxi.states([number])[0].results[0]
    assert status == 0
    return bool(found["powered"])


def _answers(lab: MaintainedLab, node: str) -> bool:
    (total,) = lab.node(node, "mtotal")
    return lab.agents[node].poll() is None and isinstance(total, int)
