"""Kinds of work on a node under maintenance, and what an agent is sent for them."""

from __future__ import annotations

import pytest

from ganeti_steward.core.node_agent.protocol import (
    REPAIR,
    RepairRequest,
    message_text,
    read_request,
)
from ganeti_steward.plugins.maintenance.engine.work import power_cycle_fault
from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Maintenance, Submission
from ganeti_steward.plugins.model.task import AFTER, MOVE, WORK
from ganeti_steward.plugins.model.works import command_object, command_of, is_work, work_began

INCIDENT = Incident("m1", "n1", "node1", b"{}", MAINTENANCE, maintenance=Maintenance("stop"))


def test_kinds() -> None:
    good = ("none", "power", "command:reboot-node")
    bad = ("", "command:", "command:../sh", "command", "reboot", "power-cycle")
    assert [is_work(one) for one in (*good, *bad)] == [True] * 3 + [False] * 6
    assert [command_of(one) for one in good] == ["", "", "reboot-node"]


def test_an_agent_takes_the_object() -> None:
    """Of each maintenance, and each of its steps, another one."""
    found = command_object(INCIDENT, "reboot-node", WORK)
    text = message_text(REPAIR, RepairRequest("node1", "reboot-node", found, "a" * 16, "s1", 5))
    request = read_request(text, lambda name: name == "node1")
    assert (request.command, request.diagnose) == ("reboot-node", found)
    assert command_object(INCIDENT._replace(uuid="m2"), "reboot-node", WORK) != found
    assert command_object(INCIDENT, "reboot-node", AFTER) != found


def test_when_it_began() -> None:
    opened = (Submission("s1", MOVE, (), (), 3), Submission("s2", WORK, (), (), 4))
    begun = INCIDENT._replace(maintenance=Maintenance("stop", begun=2))
    found = [INCIDENT, INCIDENT._replace(open=opened[:1]), INCIDENT._replace(open=opened), begun]
    assert [work_began(one) for one in found] == [0, 0, 4, 2]


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        ([[[0, "node1"], [0, None]]], ""),
        ([[[0, "node1"], [3, None]]], "there is none for it"),
        ([[[0, "node1"], [2, None]]], "it failed"),
        (None, ""),
    ],
)
def test_what_the_out_of_band_program_did(result: object, fault: str) -> None:
    assert power_cycle_fault(result).endswith(fault)
    assert bool(power_cycle_fault(result)) == bool(fault)
