"""What leaves Ganeti's configuration is in the audit log."""

from __future__ import annotations

from pathlib import Path

from maintained import Maintained, diagnose

from ganeti_steward.core.model.finding import object_id
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.daemon.reporting import AuditReport
from ganeti_steward.plugins.maintenance.edges.audit import (
    INCIDENTS,
    OBJECTS,
    Audit,
    read_audit,
    read_kept,
)
from ganeti_steward.plugins.maintenance.edges.record import read_record
from ganeti_steward.plugins.model.incident import COMPLETED

LARGE = diagnose("live-repair", command="fix-nic", details="x" * 60_000)


class Audited(Maintained):
    """A cluster whose rounds are written to the audit log."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = str(path / "audit.db")
        self.audit = AuditReport(Audit(self.path))

    def audited(self) -> None:
        """Rounds until nothing changes, each reported as by the daemon."""
        first = len(self.decisions)
        self.run()
        for decision in self.decisions[first:]:
            world = self.world()
            self.audit(Round(self.now, 0, world, decision, changes=decision.changes))


def test_the_whole_object_and_the_whole_incident(tmp_path: Path) -> None:
    cluster = Audited(tmp_path)
    cluster.report("node2", LARGE)
    cluster.audited()
    incident = cluster.incident("node2")
    assert read_kept(cluster.path, OBJECTS) == {object_id(LARGE): LARGE.decode()}
    assert read_kept(cluster.path, INCIDENTS) == {}
    cluster.untag("node2", incident.tag)
    cluster.audited()
    cluster.silence("node2")
    cluster.wait(cluster.config.fold_after)
    cluster.audited()
    assert cluster.records == {}
    found = read_record(read_kept(cluster.path, INCIDENTS)[incident.uuid])
    assert (found.status, found.acknowledged, found.object_id) == (
        COMPLETED,
        True,
        object_id(LARGE),
    )
    last = read_audit(cluster.path, incident=incident.uuid)[-1]
    assert (last.event, last.before, last.after) == (
        "moved to the audit log",
        "acknowledged",
        "forgotten",
    )


def test_small_objects_are_in_the_record(tmp_path: Path) -> None:
    cluster = Audited(tmp_path)
    cluster.report("node2", diagnose("live-repair", command="fix-nic"))
    cluster.audited()
    assert read_kept(cluster.path, OBJECTS) == {}
