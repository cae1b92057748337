"""``gnt-instance batch-create``: several instances in one request."""

from __future__ import annotations

import ast
import json
from typing import Any

from .cluster import DEFAULT_GROUP, RACK2, Done, Lab


def instance(name: str, template: str, disks: list[dict[str, Any]], memory: int) -> dict[str, Any]:
    return {
        "instance_name": name,
        "mode": "create",
        # Left out, Ganeti 3.0.2 refuses its own default.
        "hypervisor": "fake",
        "os_type": "noop",
        "disk_template": template,
        "disks": disks,
        "nics": [{}],
        "beparams": {"memory": memory, "vcpus": 1},
        "ip_check": False,
        "name_check": False,
    }


def batch_create(lab: Lab, *instances: dict[str, Any]) -> Done:
    file = lab.directory / "batch.json"
    file.write_text(json.dumps(instances))
    return lab.ok(f"gnt-instance batch-create {file}")


def job_result(lab: Lab) -> dict[str, Any]:
    """What Ganeti made of the newest batch."""
    jobs = [line.split("|") for line in lab.query("gnt-job list -o summary,status,opresult")]
    batches = [(status, result) for summary, status, result in jobs if "MULTI_ALLOC" in summary]
    status, result = batches[-1]
    assert status == "success"
    (value,) = ast.literal_eval(result)
    return {**value}


def test_all_fit(lab: Lab) -> None:
    done = batch_create(
        lab,
        instance("batch1.lab", "file", [{"size": 1024}], 512),
        instance("batch2.lab", "diskless", [], 512),
    )

    placed, failed = done.call.answer["result"]
    assert done.call.request["type"] == "multi-allocate"
    assert failed == []
    assert {name: lab.nodes_of(name) for name in ("batch1.lab", "batch2.lab")} == dict(placed)
    assert {node for _, (node,) in placed} <= {*DEFAULT_GROUP, *RACK2}
    assert job_result(lab)["failed"] == []


def test_partial_answer_is_accepted(lab: Lab) -> None:
    """Where that is allowed, Steward places what fits and Ganeti creates it."""
    lab.ok("gnt-cluster modify --default-iallocator-params=partial-batches=yes")
    try:
        done = batch_create(
            lab,
            instance("huge.lab", "diskless", [], 32000),
            instance("small.lab", "file", [{"size": 1024}], 512),
        )
    finally:
        lab.ok("gnt-cluster modify --default-iallocator-params=")

    placed, failed = done.call.answer["result"]
    assert failed == ["huge.lab"]
    assert [[name, lab.nodes_of(name)] for name in ("small.lab",)] == placed
    assert "huge.lab: group default: 0/4 nodes fit: " in done.call.info
    result = job_result(lab)
    assert result["allocatable"] == ["small.lab"]
    assert result["failed"] == ["huge.lab"]
    assert "huge.lab" not in lab.instances()
