"""Filter rules that a user of RAPI can write: they stop nothing, and each is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.edges.record import write_record
from ganeti_steward.plugins.model.incident import Incident, Submission

from ...drbd_lab import NODES
from ..maintained_lab import MaintainedLab
from ..node_files import EVACUATE, REPAIR

_UUID: Final = "aaaaaaa{}-0000-4000-8000-000000000000"
#: True for no job, as in the daemon's own records.
_NEVER: Final = [["jobid", ["<", "id", 0]]]


def _nested(levels: int) -> Any:
    found: Any = ["=", "id", 0]
    for _ in range(levels):
        found = ["!", found]
    return found


def _hostile(node: str, name: str) -> Iterator[tuple[str, Any, int]]:
    """Texts of records of a node, predicates, and times of the reasons."""
    task = Submission("s", "move", (name,), (), 1, (5,))
    good = Incident("", node, name, json.dumps(EVACUATE).encode(), "evacuate", open=(task,))
    changes: tuple[dict[str, Any], ...] = (
        {"observed_since": -(10**400)},
        {"first_seen": 10**40, "changed": 10**40},
        {"note": "\ud800", "node_name": f"{name}\udfff"},
        {"open": [json.loads(write_record(good))["open"][0] | {"jobs": [-5]}]},
        {"original": {"status": "evacuate", "details": _nested(400)}},
    )
    for at, change in enumerate(changes):
        whole = json.loads(write_record(good)) | {"uuid": _UUID.format(at)} | change
        yield json.dumps(whole), _NEVER, 5
    yield "x", _NEVER, 2**63
    yield "[]", _NEVER, 10**40
    yield "", [["jobid", _nested(450)]], 5
    yield "", [["jobid", _nested(900)]], 5


@contextmanager
def _written(lab: MaintainedLab, node: str) -> Iterator[None]:
    (uuid,) = lab.node(node, "uuid")
    rules = []
    for at, (text, predicates, time) in enumerate(_hostile(uuid, node)):
        trail = [[RECORD_SOURCE if text else "gnt:user", text, time]]
        arguments = (_UUID.format(at), 1000, predicates, "CONTINUE", trail)
        rules.append(lab.luxi.call("ReplaceFilter", *arguments))
    try:
        yield
    finally:
        for rule in rules:
            lab.luxi.delete_filter(rule)


def test_the_work_on_other_nodes_goes_on(maintained: MaintainedLab) -> None:
    """From the report of one to the end of its repair, with entries in the audit log."""
    lab = maintained
    lab.repair_status("node2.lab", 0)
    with _written(lab, "node3.lab"), lab.daemon():
        lab.report("node2.lab", REPAIR)
        found = lab.ended("node2.lab", "completed")
        assert lab.repaired("node2.lab")
        shown = lab.steward("maintd", "status")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "is ignored, though it looks like an incident: it is not signed" in shown.stdout
        kept = lab.steward("incident", "history", found.uuid, "--json")
        assert (kept.returncode, kept.stderr) == (0, "")
        states = [one["after"] for one in json.loads(kept.stdout) if one["kind"] == "change"]
        assert states == ["noted", "pending", "completed"]
        for command in (("filter", "list"), ("filter", "list", "--json"), ("incident", "list")):
            done = lab.steward(*command)
            assert done.returncode == 0
            assert "Traceback" not in done.stderr
        log = (lab.directory / "nodes" / NODES[0] / "var-log-ganeti/steward.log").read_text()
        assert "Traceback" not in log
        assert "round failed" not in log
