"""Running jobs: ``group-evacuate`` through luxid and RAPI, failing, and interrupted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cluster import DEFAULT_GROUP, Lab, op
from .live import STEWARD, Running, Ways

NAMES = ("moved1.lab", "moved2.lab")
#: Holds every job that comes later.
PAUSE = """--predicates='[["jobid", [">", "id", "watermark"]]]' --action PAUSE"""


@pytest.fixture(scope="module", autouse=True)
def _rack3(lab: Lab) -> Iterator[None]:
    """A group of one node, whose two instances cannot leave it in one set of jobs."""
    lab.do(
        op("GROUP_ADD", group_name="rack3"),
        op("GROUP_ASSIGN_NODES", group_name="rack3", nodes=["node7.lab"], force=True),
        *(lab.create(name, "node7.lab", "sharedfile", nics=[{}]) for name in NAMES),
    )
    yield
    lab.remove(*NAMES)
    lab.do(
        op("GROUP_ASSIGN_NODES", group_name="rack2", nodes=["node7.lab"], force=True),
        op("GROUP_REMOVE", group_name="rack3"),
    )


@pytest.fixture(autouse=True)
def _back(lab: Lab) -> Iterator[None]:
    """Whatever a test moves is moved back."""
    yield
    for (uuid,) in lab.rows("filter", "uuid"):
        lab.luxi.call("DeleteFilter", uuid)
    lab.bring_back("node7.lab", *NAMES)


def moved(lab: Lab) -> list[str]:
    return [name for name in NAMES if lab.nodes_of(name) != ["node7.lab"]]


def interrupted(lab: Lab) -> Running:
    """A run of two sets, interrupted when the first one's job is held in the queue."""
    lab.ok(f"gnt-filter add {PAUSE}")
    running = Running(lab, f"{STEWARD} group-evacuate rack3 --to default -X --yes")
    running.until(": queued")
    running.interrupt()
    return running


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_jobs_run(lab: Lab, to: Ways, way: str) -> None:
    options = getattr(to, way)
    node = 1 if way == "luxi" else 2
    plan = f"-n {node} {STEWARD} group-evacuate rack3 --to default {options}"
    rows = dict(line.split()[::3] for line in lab.ok(plan).text.splitlines()[2:])
    assert moved(lab) == []

    done = lab.ok(f"{plan} -X --yes")

    assert "Note: drbd4.lab stays: its primary node6.lab is in another group" in done.text
    assert sorted(rows) == sorted(NAMES)
    assert {name: lab.nodes_of(name) for name in NAMES} == {k: [v] for k, v in rows.items()}
    assert {*rows.values()} <= {*DEFAULT_GROUP}
    assert done.text.endswith("\n2 jobs done\n")
    for number, name in enumerate(sorted(NAMES, key=done.text.index), 1):
        for state in ("queued", "success"):
            assert f"set {number}/2 job " in done.text
            assert f" {name}: migrate to {rows[name]}: {state}\n" in done.text
    # The job queue shows who submitted it and why.
    (trail,) = lab.query("gnt-job list -o ops")[-1:]
    assert "group-evacuate rack3" in trail


def test_printed_commands_work(lab: Lab) -> None:
    command = f"{STEWARD} group-evacuate rack3 --to default -C"
    lines = [line for line in lab.ok(command).text.splitlines() if line.startswith("gnt-")]
    assert len(lines) == 2
    assert moved(lab) == []
    for line in lines:
        lab.ok(line)
    assert moved(lab) == [*NAMES]


@pytest.mark.parametrize("way", ["luxi", "rapi"])
def test_a_failing_job_stops_the_run(lab: Lab, to: Ways, way: str) -> None:
    """Without DRBD in the kernel its disks cannot be replaced; the second one is left alone."""
    before = len(lab.jobs())

    done = lab.fails(f"{STEWARD} group-evacuate rack2 --to default -X --yes {getattr(to, way)}")

    assert "/proc/drbd cannot be opened" in done.text
    assert "0 jobs done, 1 failed, 1 not begun\n" in done.text
    assert "\nfailed: drbd" in done.text
    assert "\nnot begun: drbd" in done.text
    assert len(lab.jobs()) - before == (1 if way == "luxi" else 3)


def test_an_interrupt_stops_between_sets(lab: Lab) -> None:
    running = interrupted(lab)
    running.until(
        "interrupted: waiting for the running set; press Ctrl-C again to exit immediately"
    )
    ((uuid,),) = lab.rows("filter", "uuid")
    lab.luxi.call("DeleteFilter", uuid)

    status, text = running.end()

    assert status == 1
    assert "\n1 job done, 1 not begun\n" in text
    (name,) = moved(lab)
    (other,) = {*NAMES} - {name}
    assert f"\nnot begun: {other}: migrate to " in text
    assert f" {name}: migrate to {lab.nodes_of(name)[0]}: success\n" in text


def test_a_second_interrupt_leaves_at_once(lab: Lab) -> None:
    running = interrupted(lab)
    running.until("press Ctrl-C again to exit immediately")
    running.interrupt()

    status, text = running.end()

    assert status == 1
    assert "0 jobs done, 1 not begun\n" in text
    (line,) = [line for line in text.splitlines() if line.startswith("goes on: job ")]
    number, name = line.split()[3].rstrip(","), line.split()[4].rstrip(":")
    assert lab.job(number) == "queued"
    ((uuid,),) = lab.rows("filter", "uuid")
    lab.luxi.call("DeleteFilter", uuid)
    lab.ok(f"gnt-job watch {number}")
    assert moved(lab) == [name]
