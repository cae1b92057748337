"""The turn of the master in a roll: an agent makes its node the master, and that daemon goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest
from paths import ROOT

from ganeti_steward.core.errors import EXIT_NOT_MASTER, StewardError

from ...cluster import until
from ..conftest import brought_up
from ..faults.watched import Runs
from ..maintained_lab import MaintainedLab
from ..node_files import AGENT_SECTIONS
from .rolling import Admin, downtime, homes, running, states

pytestmark = pytest.mark.thorough

OLD: Final = "node1.lab"
NEW: Final = "node2.lab"
#: Ganeti's daemons have users of their own in the lab.
DROP_IN: Final = "CAP_CHOWN CAP_FOWNER"
PERMITTING: Final = (NEW, "node3.lab")
INSTANCES: Final = (
    ("inst1.lab", "drbd", "node1.lab:node2.lab"),
    ("inst2.lab", "ext", "node1.lab"),
    ("inst3.lab", "drbd", "node3.lab:node1.lab"),
)
#: What the agent's unit and the drop-in of its page permit.
UNIT: Final = (ROOT / "contrib/systemd/gnt-steward-agent.service").read_text()
(PERMITS,) = re.findall(r"^CapabilityBoundingSet=(.*)", UNIT, re.MULTILINE)
KEPT: Final = [f"+{name.removeprefix('CAP_').lower()}" for name in f"{PERMITS} {DROP_IN}".split()]
LIMITED: Final = ("setpriv", "--no-new-privs", f"--bounding-set=-all,{','.join(KEPT)}")


@pytest.fixture(scope="module")
def maintained() -> Iterator[MaintainedLab]:
    """A lab of its own: the master is another node at the end."""
    with brought_up(MaintainedLab("turn")) as lab:
        yield lab


@contextmanager
def permitted(lab: MaintainedLab, *nodes: str) -> Iterator[None]:
    """The agents of these nodes may make them the master, until the end of the block."""
    for more in ("master-failover = true\n", ""):
        for node in nodes:
            state = lab.directory / "steward-state" / node
            text = AGENT_SECTIONS.format(directory=state) + more
            (lab.etc(node) / "steward.toml").write_text(text)
            lab.stop_agent(node)
            lab.start_agent(node, *LIMITED)
        if more:
            yield


def masters(lab: MaintainedLab) -> set[str]:
    """The masters that Ganeti's files on the candidates name."""
    file = "/var/lib/ganeti/ssconf_master_node"
    return {lab.on(node, "cat", file).strip() for node in (OLD, *PERMITTING)}


def answered(lab: MaintainedLab) -> None:
    """Wait until luxid of the new master answers."""

    def answers() -> bool:
        with suppress(StewardError):
            return bool(lab.luxi.info())
        return False

    until(answers, 120)


def taken_over(lab: MaintainedLab) -> list[str]:
    """The nodes whose agents have begun to make them the master, once for each time."""
    logs = {node: lab.directory / f"nodes/{node}/var-log-ganeti/steward.log" for node in lab.agents}
    return [
        node
        for node, log in logs.items()
        if log.exists()
        for line in log.read_text().splitlines()
        if "repair requested" in line and "command=master-failover" in line
    ]


def test_the_master_is_handed_over(maintained: MaintainedLab, runs: Runs) -> None:
    """No one types gnt-cluster master-failover, and the role stays where it went."""
    lab, admin = maintained, Admin(maintained, OLD)
    lab.place(*INSTANCES)
    before, where = homes(lab), running(lab)
    with permitted(lab, *PERMITTING):
        with lab.daemon() as old:
            done = lab.steward("maintenance", "start", OLD, "--with-master")
            assert done.returncode == 0, done.stdout + done.stderr
            assert old.wait(300) == EXIT_NOT_MASTER
        until(lambda: masters(lab) == {NEW}, 60)
        lab.master = NEW
        answered(lab)
        with lab.daemon(node=NEW):
            until(lambda: states(lab).get(OLD) in ("emptying", "ready"), 300)
            admin.rolls()
        assert taken_over(lab) == [NEW]
        assert masters(lab) == {NEW}
    assert (homes(lab), running(lab)) == (before, where)
    assert {name: downtime(lab, runs, name) for name in where} == dict.fromkeys(where, 0)
    (incident,) = lab.incidents.values()
    assert incident.maintenance is not None
    assert incident.maintenance.handover.startswith(
        f"gnt-cluster master-failover on {NEW}: exit status 0"
    )


def test_without_the_permission_a_person_does_it(maintained: MaintainedLab) -> None:
    """No agent is requested to make its node the master, and the daemon names the command."""
    lab, node = maintained, maintained.master
    with lab.daemon(node=node):
        done = lab.steward("maintenance", "start", node, "--with-master", node=node)
        assert done.returncode == 0, done.stdout + done.stderr
        sentence = "(gnt-cluster master-failover on "

        def is_named() -> bool:
            return sentence in lab.steward("maintd", "status", node=node).stdout

        until(is_named, 120)
        assert states(lab)[node] == "requested"
        assert masters(lab) == {node}
