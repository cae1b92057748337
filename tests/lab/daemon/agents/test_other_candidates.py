"""The file of another master candidate differs, is copied, and is the same."""

from __future__ import annotations

import json

import pytest

from ...cluster import until
from ..faults.findings import says, status
from ..maintained_lab import MaintainedLab
from ..node_files import OK

#: Only then the lab has more than one candidate.
pytestmark = pytest.mark.thorough


def diagnose(lab: MaintainedLab, node: str) -> None:
    """Have a node diagnose itself, as cron does."""
    lab.on(node, str(lab.programs / "gnt-steward"), "diagnose")


def states(lab: MaintainedLab) -> dict[str, str]:
    """Candidate -> how its daemon compares with the running one."""
    found = json.loads(lab.steward("maintd", "status", "--json").stdout)["daemon"]["candidates"]
    return {one["node-name"]: one["configuration"] for one in found}


def test_each_candidate_is_compared(maintained: MaintainedLab) -> None:
    lab, other, third = maintained, "node2.lab", "node3.lab"
    own = (lab.etc(other) / "steward.toml").read_text()
    for node in (other, third):
        lab.report(node, OK)
        diagnose(lab, node)
    try:
        with lab.daemon():
            diagnose(lab, lab.master)
            until(lambda: states(lab) == {lab.master: "same", other: "differs", third: "differs"})
            says(lab, f"{other}: differs: [maintd]", f"(candidate) {other}")
            # What decides is the daemon's section; where each node keeps its files is its own.
            section = (lab.etc(lab.master) / "steward.toml").read_text().partition("[maintd]")[2]
            (lab.etc(other) / "steward.toml").write_text(f"{own}\n[maintd]{section}")
            diagnose(lab, other)
            until(lambda: states(lab)[other] == "same")
            lab.stop_agent(third)
            until(lambda: states(lab)[third] == "not-known")
            assert f"(candidate) {third}" not in status(lab)
            # It is changed here, and not read.
            text = (lab.etc(lab.master) / "steward.toml").read_text()
            (lab.etc(lab.master) / "steward.toml").write_text(text.replace('"act"', '"observe"'))
            diagnose(lab, lab.master)
            until(lambda: states(lab)[lab.master] == "differs")
            log = (lab.directory / "nodes" / lab.master / "var-log-ganeti/steward.log").read_text()
        assert log.count(f"a daemon that began on {other} now would act in another way") == 1
        assert log.count(f"a daemon on {other} would act as this one again") == 1
    finally:
        (lab.etc(other) / "steward.toml").write_text(own)
        if third not in lab.agents:
            lab.start_agent(third)


def test_copyfile(maintained: MaintainedLab) -> None:
    """Ganeti's own command copies the file, as the operator's guide says."""
    lab = maintained
    place = lab.etc(lab.master) / "steward-copied.toml"
    place.write_text("[maintd]\n")
    try:
        lab.ok("gnt-cluster copyfile /etc/ganeti/steward-copied.toml")
        copies = [(lab.etc(node) / place.name).read_text() for node in lab.nodes]
    finally:
        for node in lab.nodes:
            (lab.etc(node) / place.name).unlink(missing_ok=True)
    assert copies == ["[maintd]\n"] * len(lab.nodes)
