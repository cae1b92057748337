"""Everything is switched off and comes back: by the command alone, killed, and on a new master."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from asserting import some

from ...cluster import PROGRAMS, op, until
from ..faults.breaking import power_program, unreachable
from ..faults.findings import says
from ..maintained_lab import MaintainedLab
from .rolling import homes, running, typed

PLACES = (
    ("inst1.lab", "drbd", "node2.lab:node3.lab"),
    ("inst2.lab", "plain", "node3.lab"),
    ("inst3.lab", "ext", "node6.lab"),
    ("inst4.lab", "plain", "node1.lab"),
)
STOPPED = ("inst5.lab", "plain", "node5.lab")
ORDERS = {"inst1.lab": 30, "inst2.lab": 20, "inst3.lab": 10}
#: Those that stop first have no tag.
IN_ORDER = ["inst4.lab", "inst3.lab", "inst2.lab", "inst1.lab"]
PAUSE = "maintd:pause:shutdown-until-bring-up"
OFF = "maintenance shutdown --all --order order: --timeout 30 --yes"
ON = "maintenance bring-up --timeout 200"


@pytest.fixture
def placed(maintained: MaintainedLab) -> Iterator[MaintainedLab]:
    """Instances with orders, and one that is down; all nodes can be switched off."""
    lab = maintained
    lab.place(*PLACES)
    lab.place(STOPPED, up=False)
    lab.do(
        *(
            op("TAGS_SET", kind="instance", name=name, tags=[f"order:{order}"])
            for name, order in ORDERS.items()
        )
    )
    with power_program(lab):
        yield lab
    if found := [tag for tag in lab.luxi.info()["tags"] if tag == PAUSE]:
        lab.do(op("TAGS_DEL", kind="cluster", tags=found))


def done(lab: MaintainedLab, kind: str) -> list[str]:
    """Names of the instances of which a job with this operation ended, in the order of the ends."""
    rows: list[dict[str, Any]] = lab.luxi.rows("job", ("ops", "end_ts", "status"))
    ended = sorted((row for row in rows if row["end_ts"]), key=lambda row: row["end_ts"])
    return [
        one["instance_name"]
        for row in ended
        for one in row["ops"]
        if one["OP_ID"] == kind and any("maintenance" in reason[1] for reason in one["reason"])
    ]


def off(lab: MaintainedLab) -> set[str]:
    """The nodes that Ganeti has as switched off."""
    return {name for name, powered in lab.rows("node", "name", "powered") if powered is False}


def untagged(lab: MaintainedLab) -> bool:
    """Whether nothing is left that bring-up would remove."""
    tags = [*lab.rows("node", "tags"), *lab.rows("instance", "tags")]
    return "maintd:bring-up" not in str(tags) and PAUSE not in lab.luxi.info()["tags"]


def test_all_nodes_but_the_master(placed: MaintainedLab) -> None:
    """No daemon runs."""
    lab = placed
    before, where = homes(lab), running(lab)
    stopped, started = done(lab, "OP_INSTANCE_SHUTDOWN"), done(lab, "OP_INSTANCE_STARTUP")
    printed = typed(lab, OFF)
    assert "node1.lab is the master and stays on" in printed
    assert running(lab) == {}
    assert off(lab) == {*lab.nodes[1:]}
    assert done(lab, "OP_INSTANCE_SHUTDOWN")[len(stopped) :] == IN_ORDER
    again = typed(lab, OFF)
    assert again.endswith("Done; to take it back: gnt-steward maintenance bring-up.\n")
    typed(lab, ON)
    assert done(lab, "OP_INSTANCE_STARTUP")[len(started) :] == IN_ORDER[::-1]
    until(lambda: running(lab) == where)
    assert (homes(lab), off(lab)) == (before, set())
    assert untagged(lab)
    typed(lab, ON)
    assert running(lab) == where


@pytest.mark.thorough
def test_the_daemon_takes_no_node_for_dead(placed: MaintainedLab) -> None:
    lab, node = placed, "node6.lab"
    where = running(lab)
    with lab.daemon("dead-after = 5"):
        typed(lab, f"maintenance shutdown {node} --yes")
        with unreachable(lab, node):
            says(lab, f"nothing of {node} answers: it was shut down")
            # Long enough for an incident.
            time.sleep(15)
            assert lab.incidents == {}
        typed(lab, ON)
        until(lambda: running(lab) == where)
        assert untagged(lab)
        time.sleep(15)
        assert (lab.incidents, running(lab)) == ({}, where)


@pytest.mark.thorough
def test_killed_in_the_middle(placed: MaintainedLab) -> None:
    """What was left in the queue ends before anything is started again."""
    lab = placed
    where, program = running(lab), lab.programs / "gnt-steward"
    for line, seen in (
        (OFF, "inst3.lab on node6.lab: success"),
        (ON, "start inst3.lab on node6.lab:"),
    ):
        with subprocess.Popen(
            [str(PROGRAMS / "lab-run"), "-n", lab.master, str(program), *line.split()],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=lab.environment,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert any(seen in printed for printed in process.stdout)
            lab.kill(process)  # type: ignore[arg-type]
    typed(lab, ON)
    until(lambda: running(lab) == where)
    assert untagged(lab)


@pytest.mark.thorough
def test_a_rack_whose_master_changes_meanwhile(placed: MaintainedLab) -> None:
    lab = placed
    rack = ("node3.lab", "node6.lab")
    lab.do(*(op("TAGS_SET", kind="node", name=name, tags=["rack:a"]) for name in rack))
    where = running(lab)
    typed(lab, "maintenance shutdown rack:a --yes")
    assert off(lab) == {*rack}
    assert running(lab) == {"inst1.lab": "node2.lab", "inst4.lab": "node1.lab"}
    try:
        lab.fail_over("node2.lab")
        typed(lab, ON)
        until(lambda: running(lab) == where)
        assert untagged(lab)
    finally:
        lab.fail_over("node1.lab")
        lab.restore_candidates()


@pytest.mark.thorough
def test_a_program_that_fails(placed: MaintainedLab) -> None:
    """Ganeti's job succeeds, and has no answer of it."""
    lab = placed
    where = running(lab)
    file = lab.directory / "power/node3.lab"
    file.write_text("fail\n")
    ended = lab.steward(*OFF.split())
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "node3.lab is not switched off: its out-of-band program has failed" in ended.stdout
    assert off(lab) == {*lab.nodes[1:]} - {"node3.lab"}
    file.unlink()
    for name in some(off(lab)):
        assert lab.running(name) == set()
    typed(lab, ON)
    until(lambda: running(lab) == where)
    assert untagged(lab)
