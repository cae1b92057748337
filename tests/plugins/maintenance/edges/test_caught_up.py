"""The audit log has every change once, also of a daemon that was killed before it reported it."""

from __future__ import annotations

from pathlib import Path

from maintained import Maintained, diagnose

from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.daemon.reporting import AuditReport
from ganeti_steward.plugins.maintenance.edges.audit import Audit, read_audit
from ganeti_steward.plugins.maintenance.edges.history import FOUND, GONE
from ganeti_steward.plugins.maintenance.engine.decision import Decision

FAULT = diagnose("live-repair", command="fix-nic")


class Reporting(Maintained):
    """A cluster with a daemon that can be killed before it reports."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = str(path / "audit.db")
        self.restart()

    def restart(self) -> None:
        """Another process of the daemon."""
        self.audit = AuditReport(Audit(self.path))

    def report_round(self, undecided: str = "") -> list[str]:
        """A round without changes is reported; what plugins are notified of."""
        outcome = Round(self.now, 0, self.world(), Decision(), incidents={**self.records})
        outcome = outcome._replace(undecided=undecided)
        self.audit(outcome)
        return [change.event for change in self.audit.changes(outcome)]

    def changes(self) -> list[tuple[str, str, str]]:
        """States before and after each change, and what happened."""
        found = read_audit(self.path)
        return [(one.before, one.after, one.event) for one in found if one.kind == "change"]


def test_a_change_whose_report_was_lost_is_reported_once(tmp_path: Path) -> None:
    cluster = Reporting(tmp_path)
    cluster.report("node2", FAULT)
    cluster.run()
    state = cluster.incident("node2").state_name
    cluster.restart()
    assert cluster.report_round() == [FOUND]
    assert cluster.report_round() == []
    cluster.restart()
    assert cluster.report_round() == []
    assert cluster.changes() == [("new", state, FOUND)]


def test_what_changed_long_ago_is_in_the_log_only(tmp_path: Path) -> None:
    cluster = Reporting(tmp_path)
    cluster.report("node2", FAULT)
    cluster.run()
    cluster.wait(7200)
    assert cluster.report_round() == []
    assert [event for *_, event in cluster.changes()] == [FOUND]


def test_a_record_that_is_gone_is_reported_once(tmp_path: Path) -> None:
    cluster = Reporting(tmp_path)
    cluster.report("node2", FAULT)
    cluster.run()
    cluster.report_round()
    cluster.silence("node2")
    cluster.records.clear()
    assert cluster.report_round() == [GONE]
    assert cluster.report_round() == []
    assert [after for _, after, _ in cluster.changes()][-1] == "forgotten"


def test_a_record_that_is_gone_is_reported_after_an_undecided_vote(tmp_path: Path) -> None:
    cluster = Reporting(tmp_path)
    cluster.report("node2", FAULT)
    cluster.run()
    cluster.report_round()
    cluster.silence("node2")
    cluster.records.clear()
    assert cluster.report_round(undecided="1 of 2 candidates name node1") == []
    assert cluster.report_round() == [GONE]


def test_without_a_file_all_was_reported(tmp_path: Path) -> None:
    cluster = Reporting(tmp_path)
    cluster.audit = AuditReport(Audit(""))
    cluster.report("node2", FAULT)
    cluster.run()
    assert cluster.report_round() == []
