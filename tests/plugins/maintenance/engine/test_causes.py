"""Jobs that Ganeti itself broke are distinguished from faults of nodes, disks and policies."""

from __future__ import annotations

from typing import Any

import pytest

from ganeti_steward.core.model.job_state import ERROR, LOST, JobState
from ganeti_steward.plugins.maintenance.engine.ends import is_interrupted, power_fault


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("[Errno 2] No such file or directory: '/var/run/ganeti/socket/ganeti-wconfd'", True),
        ("Job process died", True),
        ("Error while executing backend function: [Errno 104] Connection reset by peer", True),
        ("Node node3: Connection failed (111: Connection refused)", True),
        ("Could not acquire the locks in time", True),
        ("Disk 0 is degraded on target node, aborting failover", False),
        ("Can't find block device", False),
        ("Timeout in disk reconnecting", False),
        ("Not enough memory on node node3", False),
        ("Cannot migrate, instance policy violated", False),
    ],
)
def test_errors_of_jobs(error: str, expected: bool) -> None:
    assert is_interrupted(JobState(1, ERROR, error)) is expected


def test_a_job_that_ganeti_has_lost() -> None:
    assert is_interrupted(JobState(1, LOST, "Ganeti does not know this job any more"))


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        ([[[0, "n1"], [0, {"powered": False}]]], ""),
        ([[[0, "n1"], [0, {"powered": True}]]], "that the node is on"),
        ([[[0, "n1"], [2, {"powered": False}]]], "nothing about its power"),
        ([[[0, "n1"], [0, {"powered": 0}]]], "nothing about its power"),
        ([], "nothing about its power"),
        (None, "nothing about its power"),
    ],
)
def test_only_a_clear_answer_says_that_a_node_is_off(result: Any, fault: str) -> None:
    assert power_fault(result) == (fault and f"its out-of-band program reports {fault}")
