"""The cluster's key is renewed while a node is evacuated and a repair command runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from ganeti_steward.plugins.maintenance.queue.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.model.incident import COMPLETED, Incident

from ...cluster import until
from ..faults.findings import all_well
from ..faults.watched import Runs
from ..maintained_lab import WITH_AGENT, MaintainedLab
from ..node_files import EVACUATE, REPAIR

EVACUATED: Final = "node2.lab"
REPAIRED: Final = "node3.lab"
MORE: Final = "moves-at-once = 1\nmost-nodes = 2"


def key_of(lab: MaintainedLab, node: str) -> bytes:
    """The cluster's key as a node has it."""
    return (lab.directory / "nodes" / node / "var-lib-ganeti/hmac.key").read_bytes()


def served(lab: MaintainedLab) -> Mapping[str, Any]:
    """What the daemon says about itself and the nodes."""
    found: dict[str, Any] = json.loads(lab.steward("maintd", "status", "--json").stdout)["daemon"]
    return found


def seen(lab: MaintainedLab) -> dict[str, str]:
    """Node with an agent -> what its last poll showed."""
    nodes = served(lab)["nodes"]
    return {one["node-name"]: one["observation"] for one in nodes if one["node-name"] in WITH_AGENT}


def copies(lab: MaintainedLab, incident: Incident) -> Counter[str]:
    """Submission -> how many jobs were submitted for it."""
    return Counter(
        text
        for job in lab.jobs_of(incident)
        for text in {one.text for one in job.reasons[0] if one.source == SUBMISSION_SOURCE}
    )


def test_the_key_is_renewed_in_the_middle(maintained: MaintainedLab, runs: Runs) -> None:
    """Daemon and agents go on with the new key; no record is lost, and nothing is begun twice."""
    lab = maintained
    lab.place(*((f"inst{i}.lab", "sharedfile", EVACUATED) for i in range(1, 7)))
    lab.repair_status(REPAIRED, 0)
    with lab.daemon(MORE) as daemon:
        with lab.held_repair(REPAIRED):
            lab.report(REPAIRED, REPAIR)
            lab.report(EVACUATED, EVACUATE)
            until(lambda: lab.repaired(REPAIRED) and "move" in lab.open_steps())
            known, before = {*lab.incidents}, key_of(lab, lab.master)
            lab.ok("gnt-cluster renew-crypto --new-confd-hmac-key -f")
            polls, now = served(lab)["poll"]["number"], key_of(lab, lab.master)
            assert now != before
            assert {node: key_of(lab, node) for node in lab.nodes} == dict.fromkeys(lab.nodes, now)
            # One poll may have been under way; the next one is made with the new key alone.
            until(lambda: served(lab)["poll"]["number"] >= polls + 2)
            assert seen(lab) == {
                "node1.lab": "healthy",
                EVACUATED: "ill",
                REPAIRED: "ill",
                "node6.lab": "healthy",
            }
            # A daemon that begins now accepts only what is signed with the new key.
            until(lambda: {*lab.incidents} == known)
            assert daemon.poll() is None
        repaired = lab.ended(REPAIRED, COMPLETED)
        evacuated = lab.ended(EVACUATED, COMPLETED)
    assert {repaired.uuid, evacuated.uuid} == known
    assert lab.repairs(REPAIRED) == 1
    assert set(copies(lab, evacuated).values()) == {1}
    assert lab.node(EVACUATED, "offline", "pinst_cnt") == [True, 0]
    assert all_well(lab, runs) == {}
