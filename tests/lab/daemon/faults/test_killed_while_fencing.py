"""The daemon is killed again and again while a dead node is switched off and emptied."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Final

import pytest

from ganeti_steward.plugins.model.incident import COMPLETED, FAILED

from ...cluster import until
from ...drbd_lab import CANDIDATES
from ..maintained_lab import MaintainedLab
from ..node_files import FENCING
from .breaking import without_power
from .findings import EVIDENCE, all_well, others_report
from .test_killed_and_stopped import submitted
from .watched import Runs

pytestmark = pytest.mark.thorough

KILLS: Final = 60
NODE: Final = "node2.lab"
PLACES: Final = tuple((f"inst{at}.lab", "ext", NODE) for at in range(1, 13))
SETTINGS: Final = f"dead-after = 1\n{FENCING}moves-at-once = 1\n"


def test_each_operation_of_a_fencing_once(maintained: MaintainedLab, runs: Runs) -> None:
    """A node dies again and again, until there were enough kills."""
    lab, rng, kills, deaths = maintained, random.Random(52), 0, 0
    steps = Counter[str]()
    while kills < KILLS:
        lab.place(*PLACES)
        deaths += 1
        with without_power(lab, NODE):
            # What no record has yet is forgotten with the daemon that saw it.
            with lab.daemon(SETTINGS):
                until(lambda: bool(lab.incidents))
            if CANDIDATES > 1:
                time.sleep(EVIDENCE)
                others_report(lab, NODE)
            while not ended(lab):
                with lab.daemon(SETTINGS) as daemon:
                    time.sleep(0.3 + min(rng.expovariate(1 / 8), 40))
                    steps.update(lab.open_steps())
                    lab.kill(daemon)
                    kills += 1
                assert kills < 4 * KILLS, lab.incidents
            with lab.daemon(SETTINGS):
                incident = lab.ended(NODE, COMPLETED)
            found = submitted(lab, incident)
            assert {*found.values()} == {1}, found
            assert {job.status for job in lab.jobs_of(incident)} == {"success"}
            assert sum("OP_INSTANCE_FAILOVER" in one for one in found) == len(PLACES)
            assert sum("OP_OOB_COMMAND" in one for one in found) == 2
        assert lab.node(NODE, "offline", "pinst_cnt") == [True, 0]
        assert all_well(lab, runs) == {}
        lab.reset()
    print(f"{kills} kills over {deaths} deaths; open at a kill: {dict(steps)}")


def ended(lab: MaintainedLab) -> bool:
    """Whether the node's incident has ended."""
    return all(one.status in (COMPLETED, FAILED) for one in lab.incidents.values())
