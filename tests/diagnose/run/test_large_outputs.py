"""Five commands that print a megabyte of numbers each: the report stays readable for everybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from programs import program
from whitelists import needs_root

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.ganeti.signing import sign, verify
from ganeti_steward.core.node_agent.protocol import LONGEST_OBJECT
from ganeti_steward.diagnose.agent.reports import Reports
from ganeti_steward.diagnose.run.state_file import read_state
from ganeti_steward.plugins.maintenance.edges.poll import polled
from ganeti_steward.plugins.model.world import Reported

if TYPE_CHECKING:
    from diagnosing import Site

pytestmark = needs_root

NUMBERS = "[" + ",".join(str(number) for number in range(148_000)) + "]"


def test_five_large_outputs(site: Site, commands: Path) -> None:
    assert 10**6 - 10**5 < len(NUMBERS) < 2**20 - 100
    for number, status in enumerate(["live-repair"] * 4 + ["evacuate"]):
        output = f'{{"status": "{status}", "command": "swap", "details": {NUMBERS}}}'
        (site.path / f"output{number}").write_text(output)
        program(commands, f"raid{number}", f"cat {site.path}/output{number}", shell="/bin/sh")
    site.configure(more='commands = ["*"]\nappear-after = 1')
    run = site.run(commands=str(commands))
    assert run.diagnosis.object is not None
    assert len(canonical(run.diagnosis.object)) < LONGEST_OBJECT
    assert run.diagnosis.object["status"] == "evacuate"
    for one in run.diagnosis.object["details"]:
        assert one["details"] == {
            "sha256": one["details"]["sha256"],
            "size": len(canonical(json.loads(NUMBERS))),
        }
    assert [one.get("command") for one in run.diagnosis.object["details"]] == ["swap"] * 4 + [None]
    # The agent reads it, a signed answer is below the daemon's limit, and it becomes an incident.
    reports = Reports(
        str(site.directory / "report.json"), 900, lambda: run.report["timestamp"], lambda name: True
    )
    signed = sign(b"key", reports.text(), "a-salt-0123")
    assert len(signed) < 2**20
    report = json.loads(verify(b"key", signed, "a-salt-0123"))
    assert isinstance(polled(report, run.report["timestamp"]).observation, Reported)
    # The next run understands the state.
    assert read_state(str(site.directory)).note == ""
