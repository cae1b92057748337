"""Every metric is documented, and what contrib/monitoring uses exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from exported import AGENT, DAEMON, EXPORTER
from paths import DOCS, ROOT
from prometheus_client.parser import text_string_to_metric_families

MONITORING: Final = ROOT / "contrib" / "monitoring"
PAGE: Final = (DOCS / "reference" / "metrics.md").read_text()
TEXTS: Final = {"maintd": DAEMON, "agent": AGENT, "exporter": EXPORTER}

#: What Prometheus itself adds to each target.
_OF_PROMETHEUS: Final = {"up"}


def described(text: str) -> dict[str, tuple[str, set[str]]]:
    """Metric -> its type and labels, from the tables of a page."""
    rows = re.findall(r"^\| `(steward_\w+)` \| (\w+) \|([^|]*)\|", text, re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def served(text: bytes) -> dict[str, tuple[str, set[str]]]:
    """Metric -> its type and labels, from what is served."""
    return {
        sample.name: (family.type, set(sample.labels))
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


ALL: Final = {name: found for text in TEXTS.values() for name, found in served(text).items()}


def test_every_metric_is_on_the_page() -> None:
    assert described(PAGE) == served(AGENT) | served(EXPORTER), "docs/reference/metrics.md"


def test_those_of_the_daemon_are_on_its_page() -> None:
    page = (DOCS / "reference" / "maintd-status.md").read_text()
    assert described(page) == served(DAEMON), (
        "docs/reference/maintd-status.md and plugins/maintenance/edges/metrics.py differ"
    )


@pytest.mark.parametrize("program", TEXTS)
def test_names_follow_the_conventions(program: str) -> None:
    for name, (kind, labels) in served(TEXTS[program]).items():
        assert re.fullmatch(r"steward(_[a-z0-9]+)+", name), name
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search("_(ms|mib|kb|minutes|percent)(_|$)", name), name
        assert labels <= {word for word in labels if re.fullmatch("[a-z]+", word)}, name
    help_lines = re.findall(r"^# HELP (\w+) (.*)$", TEXTS[program].decode(), re.MULTILINE)
    assert all(text.endswith(".") for _, text in help_lines)


# -- contrib/monitoring


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression with where it stands."""
    rules = yaml.safe_load((MONITORING / "steward-alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / "steward-dashboard.json").read_text())
    return found


EXPRESSIONS: Final = list(expressions())


@pytest.mark.parametrize(("place", "expression"), EXPRESSIONS)
def test_expressions_use_metrics_and_labels_that_exist(place: str, expression: str) -> None:
    used = re.findall(r"\b(steward_\w+|up)\b(?:\{(\w+)[=!~]+\"([^\"]*)\"\})?", expression)
    assert used, place
    for name, label, words in used:
        assert name in ALL or name in _OF_PROMETHEUS, name
        if not label or name in _OF_PROMETHEUS:
            continue
        assert label in ALL[name][1], (name, label)
        if label in ("status", "observation"):
            values = re.findall(rf'^{name}{{.*{label}="([^"]*)"', text_with(name), re.MULTILINE)
            assert set(words.split("|")) <= set(values), (name, words)
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing), place
    grouped = {word for found in re.findall(r"\bby \(([^)]*)\)", expression) for word in [found]}
    assert grouped <= {label for name, *_ in used for label in ALL.get(name, ("", set()))[1]}


def text_with(name: str) -> str:
    (found,) = (text for text in TEXTS.values() if name.encode() in text)
    return found.decode()


def test_every_alert_says_what_to_do() -> None:
    rules = yaml.safe_load((MONITORING / "steward-alerts.yml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({one["alert"] for one in alerts}) == len(alerts) > 15
    for one in alerts:
        assert one.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert one["labels"]["severity"] in ("info", "warning", "critical")
        for label in re.findall(r"\$labels\.(\w+)", one["annotations"]["summary"]):
            names = re.findall(r"steward_\w+", one["expr"])
            assert label == "instance" or any(label in ALL[name][1] for name in names), one


def test_the_dashboard_can_be_imported() -> None:
    found = dashboard()
    panels = found["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    assert found["uid"]
    taken = set[tuple[int, int]]()
    for one in panels:
        at = one["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, one["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        for target in one["targets"]:
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                known = {
                    each
                    for name in re.findall(r"steward_\w+", target["expr"])
                    for each in ALL[name][1]
                }
                assert label in known | {"instance"}, one["title"]


def test_the_ports_are_those_of_the_programs() -> None:
    scraped = yaml.safe_load((MONITORING / "prometheus.yml").read_text())["scrape_configs"]
    ports = {
        job["job_name"]: {
            target.rpartition(":")[2] for target in job["static_configs"][0]["targets"]
        }
        for job in scraped
    }
    table = dict(re.findall(r"^\| \[?`gnt-steward (\w+)`.*?\| (\d+) \|", PAGE, re.MULTILINE))
    assert ports == {f"steward-{name}": {port} for name, port in table.items()}
    assert len(ports) == 3
