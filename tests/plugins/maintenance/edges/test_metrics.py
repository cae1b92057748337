"""The metrics: every figure, and a page that names them all."""

from __future__ import annotations

import json
import re

import pytest
from paths import ROOT
from prometheus_client.parser import text_string_to_metric_families
from statuses import DONE, NOW, STATUS
from worlds import incident

from ganeti_steward.plugins.maintenance.edges import answers, metrics, poll
from ganeti_steward.plugins.maintenance.edges.served_status import status_lines
from ganeti_steward.plugins.maintenance.edges.status import Status, daemon_json
from ganeti_steward.plugins.maintenance.page.view import view
from ganeti_steward.plugins.model.incident import COMPLETED, DEAD, MAINTENANCE, STATES
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import Reported

PAGE = (ROOT / "docs" / "reference" / "maintd-status.md").read_text()
OPERATE = (ROOT / "docs" / "how-to" / "operate.md").read_text()


def values(status: Status) -> dict[str, float]:
    """Name and labels of each sample -> its value."""
    families = text_string_to_metric_families(metrics.rendered(status).decode())
    return {
        sample.name.removeprefix("steward_maintd_")
        + "".join(f" {v}" for v in sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_all_figures() -> None:
    assert values(STATUS) == {
        **{f"incidents {status}": 0 for status in STATES},
        "incidents pending": 1,
        "incidents failed": 1,
        "incidents_stuck": 1,
        "nodes_dead": 0,
        "nodes healthy": 1,
        "nodes suspect": 0,
        "nodes ill": 1,
        "nodes silent": 1,
        "nodes refused": 1,
        "nodes unknown": 1,
        "instances_down": 1,
        "candidates same": 1,
        "candidates differs": 1,
        "candidates not-known": 1,
        "held stuck": 1,
        "held pause": 1,
        "acting": 1,
        "paused": 1,
        "reports_refused_total old": 3,
        "tasks_started_total drain": 1,
        "tasks_started_total move": 4,
        "rounds_total": 9,
        "polls_total": 7,
        "round_seconds": 0.5,
        "poll_seconds": 2.5,
        "round_ended_timestamp_seconds": NOW / 10**9 - 30,
        "poll_ended_timestamp_seconds": NOW / 10**9 - 1,
        "round_failed": 0,
    }, "add a new metric here, and to plugins/maintenance/edges/metrics.py"


def test_suspect_nodes() -> None:
    """The status names them with the reason; they are neither healthy nor ill."""
    found = {"details": [{"source": "smart:S1", "status": "suspect"}], "status": "suspect"}
    report = Reported(json.dumps(found).encode(), "suspect", "", NOW)
    status = STATUS._replace(
        overview=(),
        poll=STATUS.poll._replace(observations={**STATUS.poll.observations, "uuid-2": report}),
    )
    figures = values(status)
    assert (figures["nodes suspect"], figures["nodes healthy"], figures["nodes ill"]) == (1, 0, 1)
    shown = {"daemon": daemon_json(status), "incidents": []}
    lines = list(status_lines(shown))
    assert "nodes:      1 ill, 1 refused, 1 silent, 1 suspect, 1 unknown" in lines
    assert "  node2.lab: reports suspect: smart:S1" in lines
    (row,) = (one for one in view(status, "", NOW).groups[0].nodes if one.name == "node2.lab")
    assert (row.word, row.detail, row.well) == ("suspect", "suspect: smart:S1", False)


def test_dead_nodes() -> None:
    dead = incident("n1", DEAD)
    over = incident("n2", DEAD, status=COMPLETED)
    found = values(STATUS._replace(incidents=(dead, over, incident("n3"))))
    assert found["nodes_dead"] == 1


def test_what_is_dealt_with_does_not_wait_for_an_acknowledgement() -> None:
    """Of a maintenance that is over, as of an acknowledged repair, nothing is left to be done."""
    over = DONE._replace(status="completed", acknowledged=True, action=MAINTENANCE)
    found = values(Status(NOW, incidents=(over, DONE._replace(status="completed"))))
    assert (found["incidents completed"], found["incidents acknowledged"]) == (1, 1)


def test_at_the_start() -> None:
    found = values(Status(NOW))
    assert {name: value for name, value in found.items() if value} == {}
    assert found["nodes ill"] == found["round_failed"] == 0
    assert "incidents noted" not in found
    assert values(Status(NOW, incidents=()))["incidents noted"] == 0


def test_a_failed_round() -> None:
    assert values(Status(NOW, round_fault="no luxid"))["round_failed"] == 1


def test_words_of_plugins_cannot_break_the_format() -> None:
    held = (Held("cluster", 'a "b"\n# c', "x"),)
    assert values(Status(NOW, held=held))['held a "b"\n# c'] == 1


def rows(heading: str, page: str = PAGE) -> list[list[str]]:
    """The cells of a table of a page."""
    text = page.split(heading)[1]
    table = text[text.index("\n|---") :].split("\n\n")[0]
    return [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in table.split("\n")[2:]]


def test_the_page_names_all_metrics() -> None:
    described = {row[0]: (row[1], row[2]) for row in rows("## Metrics")}
    assert sorted(described) == metrics.names(), "docs/reference/maintd-status.md, Metrics"
    text = metrics.rendered(STATUS).decode()
    for name, (kind, label) in described.items():
        short = name.removesuffix("_total")
        assert re.search(rf"^# TYPE {short}(_total)? {kind}$", text, re.M), name
        assert re.search(rf"^{name}{{{label}=" if label else rf"^{name} ", text, re.M), name


def test_the_page_names_all_reasons_of_refusals() -> None:
    words = {
        getattr(module, name)
        for module in (answers, poll)
        for name in (
            "SIGNATURE",
            "SALT",
            "PURPOSE",
            "NODE",
            "FUTURE",
            "OLD",
            "FORM",
            "SIZE",
            "STATUS",
        )
        if hasattr(module, name)
    }
    table = rows("Why a report was refused", OPERATE)
    assert {word for row in table for word in re.findall(r"[a-z]+", row[0])} == words


@pytest.mark.parametrize("word", ["healthy", "suspect", "ill", "silent", "refused", "unknown"])
def test_the_page_explains_each_observation(word: str) -> None:
    assert word in {row[0] for row in rows("observation` is one of")}
