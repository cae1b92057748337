"""One of each: what tier 1 tries on a real Ganeti cluster."""

from __future__ import annotations

from typing import Final

import pytest

from ganeti_steward.plugins.filters.filter_rules import PAUSE, FilterRules
from ganeti_steward.plugins.model.incident import COMPLETED

from ..cluster import op, until
from ..daemon.faults.breaking import TRANSFER, held_job, kill_daemon, migrations, start_daemon
from ..daemon.maintained_lab import MaintainedLab
from ..daemon.node_files import EVACUATE
from ..live import STEWARD
from ..test_multi_allocate import batch_create, instance
from .conftest import WITH_AGENT

pytestmark = pytest.mark.smoke

LEAVES: Final = "node2.lab"
RULES: Final = """
owner = "site"
[[rule]]
name = "no tags"
priority = 10
predicates = [["opcode", ["=", "OP_ID", "OP_TAGS_SET"]]]
action = "PAUSE"
"""


def test_one_allocation_of_each_kind(small: MaintainedLab) -> None:
    lab = small
    first = lab.add("-t drbd --disk 0:size=1G -g default", "inst1.lab").call
    assert first.request["type"] == "allocate"
    assert len(first.nodes) == 2

    batch = batch_create(
        lab,
        instance("inst2.lab", "plain", [{"size": 1024}], 512),
        instance("inst3.lab", "diskless", [], 512),
    )
    assert batch.call.request["type"] == "multi-allocate"
    placed, failed = batch.call.answer["result"]
    assert ({name: lab.nodes_of(name) for name in ("inst2.lab", "inst3.lab")}, failed) == (
        dict(placed),
        [],
    )

    primary, old = lab.nodes_of("inst1.lab")
    moved = lab.ok("gnt-instance replace-disks -I steward inst1.lab").call
    assert moved.request["type"] == "relocate"
    (new,) = {*WITH_AGENT} - {primary, old}
    assert moved.nodes == [new]
    assert lab.nodes_of("inst1.lab") == [primary, new]

    left = lab.ok(f"gnt-node evacuate -f -s -I steward {new}").call
    assert left.request["type"] == "node-evacuate"
    assert lab.nodes_of("inst1.lab") == [primary, old]

    lab.place(("inst4.lab", "diskless", "node4.lab"))
    other = lab.ok("gnt-instance change-group --to default inst4.lab").call
    assert other.request["type"] == "change-group"
    assert set(lab.nodes_of("inst4.lab")) < set(WITH_AGENT)

    lab.ok("gnt-instance shutdown --timeout=0 inst2.lab")
    done = lab.run("gnt-instance modify -t drbd -I steward inst2.lab")
    assert done.call.request["type"] == "allocate-secondary"
    assert done.call.answer["success"] is True
    lab.remove(*lab.instances())


def test_an_evacuation_from_report_to_offline(small: MaintainedLab) -> None:
    """Both luxid and the daemon are killed while an instance moves."""
    lab = small
    lab.place(
        ("inst1.lab", "drbd", "node2.lab:node1.lab"),
        ("inst3.lab", "diskless", LEAVES),
    )
    lab.start_agents(WITH_AGENT)
    with lab.watched() as runs:
        with lab.daemon() as daemon, migrations(lab, TRANSFER, LEAVES):
            lab.report(LEAVES, EVACUATE)
            held_job(lab, "OP_INSTANCE_MIGRATE")
            kill_daemon(lab, "luxid")
            lab.kill(daemon)
            start_daemon(lab, "luxid")
        with lab.daemon():
            incident = lab.ended(LEAVES, COMPLETED)
    assert runs.double == []
    assert lab.node(LEAVES, "offline", "pinst_cnt", "sinst_cnt") == [True, 0, 0]
    assert lab.node(LEAVES, "tags") == [[incident.ready_tag]]
    assert lab.operations(incident).count("OP_INSTANCE_MIGRATE") == 2
    assert lab.running("node1.lab") == {"inst1.lab"}


def test_a_rule_is_applied_and_explained(small: MaintainedLab) -> None:
    """A job that it lets wait says so, and starts when the rule is gone."""
    lab = small
    file = lab.directory / "rules.toml"
    file.write_text(RULES)
    lab.ok(f"{STEWARD} filter apply {file}")
    (held,) = [one for one in FilterRules(lab.luxi).read().rules if one.action == PAUSE]
    job = int(lab.luxi.call("SubmitJob", [op("TAGS_SET", kind="cluster", tags=["held"])]))
    until(lambda: lab.job(job) == "queued", every=0.1)
    text = lab.ok(f"{STEWARD} filter explain {job}").text
    assert f"Rule {held.uuid}, priority 10, PAUSE: matches and applies" in text
    FilterRules(lab.luxi).delete(held.uuid)
    until(lambda: lab.job(job) == "success", every=0.1)
