"""A node that reports what it wants, and a writer of rules and tags: what that can cause."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ganeti_steward.diagnose.run.files import REPORT
from ganeti_steward.plugins.filters.filter_rules import FilterRules
from ganeti_steward.plugins.model.incident import COMPLETED, FAILED, Incident

from ...cluster import op, until
from ..maintained_lab import MaintainedLab
from ..node_files import AGENT_SECTIONS, REPAIR

NODE: Final = "node3.lab"
#: Objects that are reported one after the other, and how many of them become incidents.
REPORTS, RECORDED = 7, 4
#: Characters of the details of each.
SIZE: Final = 50_000
#: Bytes of a record in Ganeti's configuration, as ``docs/explanation/incidents.md`` has it.
RECORD: Final = 12_000


def reported(number: int) -> dict[str, Any]:
    """A request for the repair command."""
    return {**REPAIR, "details": number}


def forge(lab: MaintainedLab, number: int) -> None:
    """What root on a node can have its agent report: its own diagnosis keeps details small."""
    file = lab.directory / "steward-state" / NODE / REPORT
    data = {**REPAIR, "details": f"{number} " + "x" * SIZE}
    report = json.loads(file.read_text()) | {"data": data, "timestamp": time.time_ns()}
    other = file.with_suffix(".new")
    other.write_text(json.dumps(report))
    other.chmod(0o600)
    other.rename(file)
    # What the node really has is diagnosed again for the next report of a test.
    honest = lab.etc(NODE) / "diagnose.json"
    honest.write_text(honest.read_text() + "\n")


def held_back(lab: MaintainedLab) -> str:
    """What the daemon does not do, with the reasons."""
    return lab.steward("maintd", "status").stdout


def delete(lab: MaintainedLab, incident: Incident) -> None:
    """What a user of RAPI can do."""
    FilterRules(lab.luxi).delete(incident.uuid)
    lab.do(op("TAGS_DEL", kind="node", name=NODE, tags=[incident.tag]))


def test_deleting_record_and_tag_runs_nothing_again(maintained: MaintainedLab) -> None:
    lab = maintained
    lab.repair_status(NODE, 0)
    lab.report(NODE, reported(1))
    with lab.daemon("command-again-after = 3600"):
        uuids = set()
        for _ in range(2):
            incident = lab.ended(NODE, COMPLETED) if not uuids else lab.incident(NODE)
            uuids.add(incident.uuid)
            if incident.tagged:
                delete(lab, incident)
            else:
                FilterRules(lab.luxi).delete(incident.uuid)
            until(lambda: {*lab.incidents} - uuids)
            until(lambda: "for the same object" in held_back(lab))
    assert lab.repairs(NODE) == 1


def test_the_agent_refuses_what_the_daemon_has_forgotten(maintained: MaintainedLab) -> None:
    """After restarts of both, and without the record."""
    lab = maintained
    lab.repair_status(NODE, 0)
    with limited_agent(lab):
        lab.report(NODE, reported(2))
        with lab.daemon():
            first = lab.ended(NODE, COMPLETED)
        delete(lab, first)
        lab.stop_agent(NODE)
        lab.start_agent(NODE)
        with lab.daemon():
            incident = lab.ended(NODE, FAILED)
    assert "it was not run: lab-repair was run for the same diagnose object" in incident.note
    assert "(agent.repair-again-after)" in incident.note
    assert lab.repairs(NODE) == 1


@contextmanager
def limited_agent(lab: MaintainedLab) -> Iterator[None]:
    """The agent of the node has the usual limit until the end of the block."""
    usual = AGENT_SECTIONS.format(directory=lab.directory / "steward-state" / NODE)
    file = lab.etc(NODE) / "steward.toml"
    try:
        for text in (usual.replace("repair-again-after = 0\n", ""), usual):
            lab.stop_agent(NODE)
            file.write_text(text)
            lab.start_agent(NODE)
            if text != usual:
                yield
    finally:
        file.write_text(usual)


def test_ganetis_configuration_does_not_grow_with_reports(maintained: MaintainedLab) -> None:
    lab = maintained
    lab.repair_status(NODE, 0)
    configuration = lab.directory / "nodes" / lab.master / "var-lib-ganeti" / "config.data"
    before = configuration.stat().st_size
    with lab.daemon():
        for number in range(1, REPORTS + 1):
            forge(lab, number)
            ended = min(number, RECORDED)
            until(lambda ended=ended: len(completed(lab)) == ended)
        until(lambda: f"has {RECORDED} incidents" in held_back(lab))
        # A person makes room for what is reported now.
        oldest = min(completed(lab), key=lambda one: one.changed)
        lab.do(op("TAGS_DEL", kind="node", name=NODE, tags=[oldest.tag]))
        until(lambda: len(completed(lab)) == RECORDED and oldest.uuid not in lab.incidents)
        shown = lab.steward("incident", "show", oldest.uuid, "--all").stdout
    assert f'"details": "1 {"x" * SIZE}"' in shown
    assert len(lab.repair_input(NODE)["details"]) > SIZE, "the command gets all of it"
    assert configuration.stat().st_size - before < RECORDED * RECORD
    assert lab.repairs(NODE) == RECORDED + 1


def completed(lab: MaintainedLab) -> list[Incident]:
    """The incidents whose command has ended well, and that a person has not seen yet."""
    found = lab.incidents.values()
    return [one for one in found if (one.status, one.tagged, one.open) == (COMPLETED, True, ())]
