"""Records that others write by RAPI or luxid, beside the real daemon (see `signed records`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.edges.record import write_record
from ganeti_steward.plugins.model.incident import COMPLETED, Incident

from ...cluster import op, until
from ..node_files import EVACUATE, REPAIR
from ..planned.rolling import states, typed

if TYPE_CHECKING:
    from ..maintained_lab import MaintainedLab

HEALTHY: Final = ("node2.lab", "node3.lab", "node6.lab")


def forge(lab: MaintainedLab, number: int, node: str, original: bytes, **more: Any) -> str:
    """Write a record without the key, as everybody with write access to RAPI can; its uuid."""
    (uuid,) = lab.node(node, "uuid")
    rule = f"0f0f0f0f-1111-2222-3333-{number:012}"
    one = Incident(rule, uuid, node, original, "evacuate")._replace(**more)
    reason = Reason(RECORD_SOURCE, write_record(one), 1)
    FilterRules(lab.luxi).write(FilterRule(rule, 1000, reasons=(reason,)))
    return rule


def wait_for_rounds(lab: MaintainedLab, number: int = 4) -> str:
    """What the daemon's status shows after some more rounds."""
    seen: list[str] = []

    def passed() -> bool:
        shown = lab.steward("maintd", "status", node=lab.master).stdout
        rounds = [line for line in shown.splitlines() if line.startswith("last round:")]
        if rounds and "none yet" not in rounds[0] and rounds[0] not in seen:
            seen.append(rounds[0])
        if len(seen) > number:
            seen.append(shown)
        return len(seen) > number

    until(passed)
    return seen[-1]


def test_forged_records_drain_no_healthy_node(maintained: MaintainedLab) -> None:
    """They neither act nor hold: the node that really fails is handled meanwhile."""
    lab = maintained
    with lab.daemon():
        wait_for_rounds(lab, 1)
        forged = [
            forge(lab, at, node, canonical(EVACUATE), status="pending", observed_since=1)
            for at, node in enumerate(HEALTHY, 1)
        ]
        lab.repair_status("node3.lab", 0)
        lab.report("node3.lab", REPAIR)
        lab.ended("node3.lab", COMPLETED)
        shown = wait_for_rounds(lab)
        listed = lab.steward("incident", "list", "-o", "uuid,signature").stdout
    for node in HEALTHY:
        assert lab.node(node, "drained", "offline") == [False, False]
    for uuid in forged:
        assert f"(record) {uuid}: filter rule {uuid} is ignored" in shown
        assert [uuid, "ignored"] in [line.split() for line in listed.splitlines()]


def test_a_forged_time_runs_no_command(maintained: MaintainedLab) -> None:
    """The node really reports that very object, for a shorter time than the hold time."""
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, 0)
    lab.report(node, REPAIR)
    with lab.daemon("hold-time = 300"):
        known = lab.incident(node)
        forge(lab, 1, node, known.original, action="live-repair", observed_since=1)
        shown = wait_for_rounds(lab)
    assert f"(hold) {known.uuid}: " in shown
    assert not lab.repaired(node)


def test_a_record_that_is_put_back_runs_no_command_again(maintained: MaintainedLab) -> None:
    """The daemon was started again since."""
    lab, node = maintained, "node3.lab"
    lab.repair_status(node, 0)
    lab.report(node, REPAIR)
    with lab.daemon():
        with lab.held_repair(node):
            until(lambda: lab.open_steps() == {"command"})
            (old,) = FilterRules(lab.luxi).read().rules
        done = lab.ended(node, COMPLETED)
    assert done.uuid == old.uuid
    with lab.daemon("hold-time = 300"):
        wait_for_rounds(lab, 1)
        FilterRules(lab.luxi).delete(done.uuid)
        # Otherwise the daemon takes it for its own record, damaged, and writes that back.
        wait_for_rounds(lab, 1)
        lab.do(op("TAGS_DEL", kind="node", name=node, tags=[done.ready_tag]))
        FilterRules(lab.luxi).write(old)
        shown = wait_for_rounds(lab)
    assert lab.repairs(node) == 1
    assert f"filter rule {done.uuid} is ignored, though it looks like an incident" in shown


def test_a_running_daemon_writes_its_record_back(maintained: MaintainedLab) -> None:
    lab, node = maintained, "node3.lab"
    lab.report(node, REPAIR)
    with lab.daemon("hold-time = 300"):
        known = lab.incident(node)
        (rule,) = FilterRules(lab.luxi).read().rules
        FilterRules(lab.luxi).write(rule._replace(reasons=(Reason(RECORD_SOURCE, "x", 1),)))
        text = "is written back as it was, because another user has changed it"
        until(lambda: text in lab.steward("incident", "history", known.uuid).stdout)
    assert lab.incidents[known.uuid].observed_since == known.observed_since


@pytest.mark.parametrize("put_back", ["before", "after"])
def test_a_cancelled_maintenance_on_another_master(
    maintained: MaintainedLab, put_back: str
) -> None:
    """Its rule was kept, and is put back around the start of a daemon that has never run there.

    Another maintenance, which was requested in the meantime, goes on without a person.
    """
    lab, node, other, new = maintained, "node3.lab", "node6.lab", "node2.lab"
    lab.repair_status(node, 0)
    typed(lab, f"maintenance start {node} --work command:lab-repair")
    (kept,) = FilterRules(lab.luxi).read().rules
    typed(lab, f"maintenance cancel {node}")
    with lab.daemon():
        until(lambda: not FilterRules(lab.luxi).read().rules)
    typed(lab, f"maintenance start {other}")
    # The lab may have the master as its only candidate.
    lab.do(op("NODE_SET_PARAMS", node_name=new, master_candidate=True))
    lab.fail_over(new)
    try:
        if put_back == "before":
            FilterRules(lab.luxi).write(kept)
        with lab.daemon(node=new):
            until(lambda: states(lab)[other] == "ready")
            if put_back == "after":
                FilterRules(lab.luxi).write(kept)
            shown = wait_for_rounds(lab)
            listed = typed(lab, "incident list -o uuid,signature")
        assert lab.node(node, "drained", "offline") == [False, False]
        assert not lab.repaired(node)
        assert [kept.uuid, "unconfirmed"] in [line.split() for line in listed.splitlines()]
        assert f"gnt-steward incident confirm {kept.uuid}" in shown
    finally:
        lab.fail_over("node1.lab")


def test_a_record_that_holds_all_jobs(maintained: MaintainedLab) -> None:
    """It has the text that the daemon has signed; lint reports it until it is written back."""
    lab, node = maintained, "node3.lab"
    lab.report(node, REPAIR)
    with lab.daemon("hold-time = 300"):
        lab.incident(node)
    (rule,) = FilterRules(lab.luxi).read().rules
    FilterRules(lab.luxi).write(rule._replace(action="PAUSE", predicates=()))
    done = lab.steward("filter", "lint", node=lab.master)
    assert (done.returncode, "altered" in done.stdout) == (1, True)
    with lab.daemon("hold-time = 300"):
        until(lambda: lab.steward("filter", "lint", node=lab.master).returncode == 0)
    lab.do(op("TEST_DELAY", duration=0.1, on_master=True, on_nodes=[], repeat=0))
