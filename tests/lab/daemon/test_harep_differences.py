"""What the daemon does where harep ends, sees nothing or treats a drained node as lost.

Only with ``--thorough``.
"""

from __future__ import annotations

from typing import Final

import pytest

from ..cluster import op, until
from .harep_runs import disks, dry_run, jobs_after, last_job, set_tags, tags_of
from .maintained_lab import MaintainedLab

pytestmark = pytest.mark.thorough

_DRAINED: Final = """
routine = ["harep"]
[harep]
iallocator = "hail"
job-delay = 1
disk-check-interval = 0
"""
#: Degraded disks are checked all the time, and replaced as soon as activating did not help.
_DISKS: Final = """
routine = ["harep"]
[harep]
iallocator = "hail"
job-delay = 0
disk-check-interval = 1
replace-after = 0
"""
_FIXED: Final = "result:fix-storage:ID:TIME:success:JOBS"


def test_a_drained_node_and_a_contradiction(maintained: MaintainedLab) -> None:
    lab = maintained
    lab.place(
        ("inst1.lab", "drbd", "node2.lab:node3.lab"),
        ("inst2.lab", "drbd", "node2.lab:node3.lab"),
        ("inst3.lab", "plain", "node2.lab"),
    )
    wrong = ("failover", "pending:migrate:u:1:7", "pending:migrate:v:2:8")
    set_tags(lab, {"inst1.lab": ["migrate"], "inst2.lab": wrong, "inst3.lab": ["reinstall"]})
    lab.do(op("NODE_SET_PARAMS", node_name="node2.lab", drained=True, auto_promote=True))
    assert lab.run("harep -L --dry-run").status == 1
    first = last_job(lab)
    with lab.daemon(_DRAINED):
        until(lambda: "result:migrate:ID:TIME:success:JOBS" in tags_of(lab, "inst1.lab"))
    done = jobs_after(lab, first)
    assert any("OP_INSTANCE_MIGRATE" in one for one in done["inst1.lab"])
    assert "inst2.lab" not in done
    assert "inst3.lab" not in done, "its data is there"


def test_degraded_disks(maintained: MaintainedLab) -> None:
    lab, names = maintained, ("inst1.lab", "inst2.lab", "inst3.lab")
    lab.place(*((name, "drbd", "node2.lab:node3.lab") for name in names))
    set_tags(lab, {name: ["fix-storage"] for name in names[:2]})
    lab.storage("detach", "inst1.lab", node="node3.lab")
    lab.storage("cut", "inst2.lab", node="node3.lab")
    lab.storage("detach", "inst3.lab", node="node3.lab")
    assert all(one.faults for one in disks(lab, *names).values())
    assert dry_run(lab.ok("harep -L --dry-run").text) == {}, "it does not see them"
    first = last_job(lab)
    with lab.daemon(_DISKS):
        until(lambda: not any(one.faults for one in disks(lab, *names[:2]).values()))
        until(lambda: all(tags_of(lab, name) == ["fix-storage", _FIXED] for name in names[:2]))
    assert disks(lab, names[2])[names[2]].faults, "its tags allow nothing"
    done = {name: " ".join(found) for name, found in jobs_after(lab, first).items()}
    assert "OP_INSTANCE_ACTIVATE_DISKS" in done["inst1.lab"]
    assert "OP_INSTANCE_REPLACE_DISKS" not in done["inst1.lab"]
    assert "OP_INSTANCE_REPLACE_DISKS" in done["inst2.lab"]
    assert "inst3.lab" not in done
