"""A physical volume that is reported as failing is closed, and the disks on it are replaced away.

What follows after it was lost is among the tests of ``test_faulty_storage``.
"""

from __future__ import annotations

from ganeti_steward.core.maintenance.incident import COMPLETED

from .maintained_lab import MaintainedLab
from .node_files import AILING, FAILING


def test_disks_are_replaced_away_from_a_failing_volume(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node2.lab"
    lab.place(("inst1.lab", "drbd", f"{node}:node3.lab"))
    lab.report(node, AILING)
    with lab.daemon("repair-storage = true"):
        incident = lab.ended(node, COMPLETED)
    assert lab.volumes(node) == {FAILING: False, "/dev/lab1": True}
    assert sorted(*lab.node(node, "tags")) == [incident.closed_tag, incident.tag]
    assert lab.nodes_of("inst1.lab") == [node, "node3.lab"]
    assert lab.operations(incident) == [
        "OP_NODE_MODIFY_STORAGE",
        "OP_TAGS_SET",
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_TAGS_SET",
    ]
    assert incident.note == f"no disk is left on {FAILING} of node {node}"
    lab.set_open(node, FAILING)
