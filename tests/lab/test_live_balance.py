"""``balance`` and ``check`` on the lab's cluster; every planning command by every way to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from thorough import often

from .cluster import DEFAULT_GROUP, Lab
from .live import STEWARD, Ways

#: All on one node by hand, so that its group is uneven.
UNEVEN = tuple(f"uneven{number}.lab" for number in range(1, 7))
PROBE = (
    "gnt-debug iallocator --dir=out -I steward -m allocate --os-type noop --vcpus 1 --mem 512 "
    "-t drbd --disks 1024 probe.lab"
)
PLANS = (
    "place -t drbd --memory 512 -c 1 -s 1g --json",
    "capacity --disk-template drbd --memory 1g --disk 0:size=2g --vcpus 1 --json",
    "capacity --only standard -O node6 --add-nodes 2:like=node2 --add-nodes 1:group=rack2 --json",
    "balance --json",
    "balance --no-disk-moves -G default",
    "check --json",
    "check --no-simulation --machine-readable",
)[: often(4, 7)]


@pytest.fixture(scope="module", autouse=True)
def _instances(lab: Lab) -> Iterator[None]:
    few = {"beparams": {"memory": 256, "vcpus": 1}}
    templates = ("sharedfile", "diskless")
    lab.do(
        *(
            lab.create(name, "node1.lab", templates[number % 2], **few)
            for number, name in enumerate(UNEVEN)
        )
    )
    yield
    lab.remove(*UNEVEN)


@pytest.fixture(scope="module")
def message(lab: Lab, _instances: None) -> Path:
    """What Ganeti sends of this cluster."""
    file = lab.directory / "message.json"
    file.write_text(json.dumps(lab.run(PROBE).call.message))
    return file


@pytest.fixture
def _back(lab: Lab) -> Iterator[None]:
    """Whatever a test moves is moved back."""
    yield
    lab.bring_back("node1.lab", *UNEVEN)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: " ".join(plan.split()[:2]))
def test_every_way_to_the_cluster_leads_to_the_same(
    lab: Lab, to: Ways, message: Path, plan: str
) -> None:
    command = f"{STEWARD} {plan}"
    expected = lab.run(f"{command} --file {message}")
    assert len(expected.text) > 100, str(expected)
    for node, options in ((1, to.luxi), (1, to.rapi), (2, to.rapi)):
        done = lab.run(f"-n {node} {command} {options}")
        assert (done.status, done.text) == (expected.status, expected.text)


@pytest.mark.usefixtures("_back")
@pytest.mark.parametrize("way", ["luxi", "rapi"][: often(1, 2)])
def test_a_plan_runs(lab: Lab, to: Ways, way: str) -> None:
    """Migrations only; the disks of drbd instances cannot be copied here."""
    options = f"--no-disk-moves --select-instances={','.join(UNEVEN)} {getattr(to, way)}"
    before = plan(lab, options)
    assert before["moves"] > 2
    expected = {name: ["node1.lab"] for name in UNEVEN}
    expected |= {step["instance"]: step["after"] for step in before["steps"]}
    assert all(lab.nodes_of(name) == ["node1.lab"] for name in UNEVEN)

    done = lab.ok(f"{STEWARD} balance {options} -X --yes")

    assert f"\n{before['moves']} jobs done\n" in done.text
    assert re.search(r"\nGroup \S+: score \S+ before, \S+ reached \(\S+ planned\)\n$", done.text)
    sets = len(before["job_sets"])
    assert f"set {sets}/{sets} job " in done.text
    assert {name: lab.nodes_of(name) for name in UNEVEN} == expected
    assert {nodes[0] for nodes in expected.values()} == {*DEFAULT_GROUP}
    (trail,) = lab.query("gnt-job list -o ops")[-1:]
    assert "balance" in trail
    # What was planned is what came of it, and it was all there is to do.
    after = plan(lab, options)
    assert after["moves"] == 0
    for one, other in zip(before["groups"], after["groups"], strict=True):
        assert other["score_before"] == pytest.approx(one["score_after"], abs=1e-3)


def plan(lab: Lab, options: str) -> Any:
    return json.loads(lab.ok(f"{STEWARD} balance --json {options}").text)


@pytest.mark.usefixtures("_back")
def test_printed_commands_work(lab: Lab) -> None:
    file = lab.directory / "plan.sh"
    options = f"--no-disk-moves --select-instances={','.join(UNEVEN)} -l 2"
    lab.ok(f"{STEWARD} balance {options} -C{file}")
    lab.ok(f"sh {file}")
    moved = [name for name in UNEVEN if lab.nodes_of(name) != ["node1.lab"]]
    assert len(moved) == 2


def test_a_node_that_is_to_be_left(lab: Lab) -> None:
    """``-O`` and ``--evac-mode``: what would have to leave a node, without touching it."""
    found = plan(lab, f"-O node1 -E --select-instances={','.join(UNEVEN)}")
    assert {step["instance"] for step in found["steps"]} == {*UNEVEN}
    assert all(step["after"][0] != "node1.lab" for step in found["steps"])
    done = lab.fails(f"{STEWARD} check -O node1 -v")
    assert "warning: 7 instances would restart elsewhere without these nodes" in done.text
    assert "node1.lab (offline)" in done.text
