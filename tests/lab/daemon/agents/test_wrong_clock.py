"""A node whose clock is wrong: the daemon says so, and does nothing about it."""

from __future__ import annotations

from typing import Final

from ...cluster import until
from ..faults.findings import says, status
from ..maintained_lab import MaintainedLab

NODE: Final = "node3.lab"
#: Less than the age at which a report is taken to be from the future.
AHEAD: Final = 100
#: All nodes of a lab have the clock of this machine; Python imports this module as it starts.
SHIFTED: Final = f"""
import time
_time, _time_ns, _gmtime = time.time, time.time_ns, time.gmtime
time.time = lambda: _time() + {AHEAD}
time.time_ns = lambda: _time_ns() + {AHEAD} * 10**9
time.gmtime = lambda seconds=None: _gmtime(time.time() if seconds is None else seconds)
"""


def test_a_clock_that_is_ahead(maintained: MaintainedLab) -> None:
    lab = maintained
    with lab.daemon():
        lab.stop_agent(NODE)
        with lab.plugins(sitecustomize=SHIFTED):
            lab.start_agent(NODE)
            says(lab, f"the clock of {NODE} is ", "s ahead of this node's", "timedatectl")
            lab.stop_agent(NODE)
        lab.start_agent(NODE)
        until(lambda: "the clock of" not in status(lab))
    assert lab.incidents == {}
