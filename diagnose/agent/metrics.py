"""The metrics of the agent, in the text format of Prometheus: what its last report says.

Written here and not by prometheus-client, which loads an HTTP server, TLS and e-mail with it: 4 to
5 MiB that the agent would keep locked in the memory of every node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.model.finding import OK, STATUSES

#: The type of the text, for HTTP.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECOND: Final = 10**9


class _Gauge(NamedTuple):
    """A metric; no name, text or word in it needs escaping."""

    name: str
    text: str
    samples: Mapping[str, float]
    """value of the label -> value; for a metric without label, of the empty word"""
    label: str = ""


def rendered(report: Mapping[str, Any]) -> bytes:
    """All metrics of a report, as `Reports.text` serves it."""
    lines = [line for gauge in _gauges(report) for line in _lines(gauge)]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(gauge: _Gauge) -> Iterator[str]:
    yield f"# HELP {gauge.name} {gauge.text}"
    yield f"# TYPE {gauge.name} gauge"
    for word, value in gauge.samples.items():
        labels = f'{{{gauge.label}="{word}"}}' if gauge.label else ""
        yield f"{gauge.name}{labels} {value}"


def _gauges(report: Mapping[str, Any]) -> Iterator[_Gauge]:
    """When it was made, the status of the node, and what stands behind it."""
    data = report.get("data")
    yield _Gauge(
        "steward_agent_report_timestamp_seconds",
        "When the last report was made; 0 before the first one.",
        {"": report["timestamp"] / _SECOND},
    )
    yield _Gauge(
        "steward_agent_report_valid",
        "1 while the report says how the node is, 0 without one or when it is too old.",
        {"": int(isinstance(data, dict))},
    )
    found = data if isinstance(data, dict) else {}
    yield _Gauge(
        "steward_agent_status",
        "1 for the status of the node, 0 for the others; all 0 without a valid report.",
        {status: int(found.get("status") == status) for status in STATUSES},
        "status",
    )
    yield _Gauge("steward_agent_findings", "Findings of the report.", _findings(found), "status")
    yield _Gauge(
        "steward_agent_sources_without_result",
        "Sources that found neither that all is fine nor a fault.",
        {word: len(report.get(word) or ()) for word in ("unknown", "not_applicable")},
        "reason",
    )


def _findings(found: Mapping[str, Any]) -> dict[str, int]:
    """Status -> findings in the details; those of other programs need not have any."""
    details = found.get("details")
    entries = details if isinstance(details, list) else []
    words = Counter(one["status"] for one in entries if isinstance(one, dict) and "status" in one)
    return {status: words[status] for status in STATUSES if status != OK}
