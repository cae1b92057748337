"""The daemon and an agent come and go while a repair command runs, which is run once."""

from __future__ import annotations

import time
from contextlib import ExitStack

from ganeti_steward.plugins.model.incident import COMPLETED, FAILED

from ...cluster import until
from ..maintained_lab import MaintainedLab
from ..node_files import REPAIR

NODE = "node3.lab"


def test_the_daemon_is_killed_while_a_command_runs(maintained: MaintainedLab) -> None:
    """The next one queries the agent, waits for the end of the command, and takes its result."""
    lab = maintained
    lab.repair_status(NODE, 0)
    with ExitStack() as held:
        held.enter_context(lab.held_repair(NODE))
        lab.report(NODE, REPAIR)
        with lab.daemon() as daemon:
            until(lambda: lab.repairs(NODE) == 1)
            lab.kill(daemon)
        with lab.daemon():
            # Several rounds, and two questions.
            time.sleep(8)
            assert lab.open_steps() == {"command"}
            held.close()
            incident = lab.ended(NODE, COMPLETED)
    assert incident.note == "command lab-repair: exit status 0"
    assert lab.repairs(NODE) == 1


def test_the_agent_is_killed_while_a_command_runs(maintained: MaintainedLab) -> None:
    """The incident ends with what is known, and the command is not run again."""
    lab = maintained
    with lab.held_repair(NODE):
        lab.report(NODE, REPAIR)
        with lab.daemon():
            until(lambda: lab.repairs(NODE) == 1)
            lab.kill_agent(NODE)
            until(lambda: "whether lab-repair was run is not known" in held_back(lab))
            lab.start_agent(NODE)
            incident = lab.ended(NODE, FAILED)
    assert incident.note.startswith("command lab-repair: lab-repair was started at 20")
    assert "how it ended is not known: the agent or the node was restarted" in incident.note
    assert lab.repairs(NODE) == 1


def held_back(lab: MaintainedLab) -> str:
    """What the daemon does not do, with the reasons."""
    return lab.steward("maintd", "status").stdout
