"""The small lines of the page: what the audit log has of the last day, by the hour."""

from __future__ import annotations

from statuses import NOW, SECOND

from ganeti_steward.plugins.maintenance.edges.history import LATEST, AuditEntry
from ganeti_steward.plugins.maintenance.edges.status import Status
from ganeti_steward.plugins.maintenance.page.render import Page
from ganeti_steward.plugins.maintenance.page.trends import HOURS, trends
from ganeti_steward.plugins.maintenance.page.view import view

HOUR = 3600 * SECOND


def entry(hours: float, kind: str, before: str = "", after: str = "") -> AuditEntry:
    """So many hours ago."""
    at = NOW - int(hours * HOUR)
    return AuditEntry(at, kind, "uuid", "node", "node1", "", before, after, "why")


def test_each_hour_counts_its_own_entries() -> None:
    history = [
        entry(24.5, "change", "new", "noted"),
        entry(23.5, "change", "new", "noted"),
        entry(2.5, "change", "noted", "pending"),
        entry(1.5, "task"),
        entry(1.2, "task"),
        entry(0.5, "task"),
        entry(0.4, "held"),
        entry(0, "change", "pending", "failed"),
        entry(-0.1, "task"),
    ]
    incidents, tasks, held, failed = trends(history, NOW)
    assert incidents.hours == (1, *[0] * (HOURS - 1))
    assert tasks.hours == (*[0] * (HOURS - 2), 2, 1)
    assert (held.total, failed.total, failed.hours[-1]) == (1, 1, 1)
    assert tasks.words == "Tasks started: 3 in 24 h, at most 2 in one hour"


def test_a_line_has_one_point_for_each_hour() -> None:
    _, tasks, *_ = trends([entry(1.5, "task"), entry(1.2, "task"), entry(0.5, "task")], NOW)
    points = tasks.line.partition('points="')[2].partition('"')[0].split()
    assert len(points) == HOURS
    assert points[0] == "0,22"
    assert points[-2:] == ["88,2", "92,12"]


def test_a_log_with_more_entries_than_the_page_has() -> None:
    """The line would show a quiet morning where only its entries are not here."""
    busy = tuple(entry(5 - at / 100, "task") for at in range(LATEST))
    assert view(Status(NOW, history=busy), "", NOW).trends_since == busy[0].at
    assert "there are more entries" in Page()(Status(NOW, history=busy), "", NOW).decode()
    assert view(Status(NOW, history=busy[1:]), "", NOW).trends_since == 0
    old = (entry(25, "task"), *busy[1:])
    assert view(Status(NOW, history=old), "", NOW).trends_since == 0
