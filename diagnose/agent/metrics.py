"""The metrics of the agent, in the text format of Prometheus: what its last report says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ganeti_steward.core.model.finding import OK, STATUSES

#: The type of the text, for HTTP.
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_SECOND: Final = 10**9


def rendered(report: Mapping[str, Any]) -> bytes:
    """All metrics of a report, as `Reports.text` serves it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(report))
    return generate_latest(registry)


class _Metrics(Collector):
    def __init__(self, report: Mapping[str, Any]) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        """When it was made, the status of the node, and what stands behind it."""
        report, data = self._report, self._report.get("data")
        yield GaugeMetricFamily(
            "steward_agent_report_timestamp_seconds",
            "When the last report was made; 0 before the first one.",
            value=report["timestamp"] / _SECOND,
        )
        yield GaugeMetricFamily(
            "steward_agent_report_valid",
            "1 while the report says how the node is, 0 without one or when it is too old.",
            value=isinstance(data, dict),
        )
        found = data if isinstance(data, dict) else {}
        yield _labelled(
            "steward_agent_status",
            "1 for the status of the node, 0 for the others; all 0 without a valid report.",
            "status",
            {status: int(found.get("status") == status) for status in STATUSES},
        )
        yield _labelled(
            "steward_agent_findings", "Findings of the report.", "status", _findings(found)
        )
        yield _labelled(
            "steward_agent_sources_without_result",
            "Sources that found neither that all is fine nor a fault.",
            "reason",
            {word: len(report.get(word) or ()) for word in ("unknown", "not_applicable")},
        )


def _findings(found: Mapping[str, Any]) -> dict[str, int]:
    """Status -> findings in the details; those of other programs need not have any."""
    details = found.get("details")
    entries = details if isinstance(details, list) else []
    words = Counter(one["status"] for one in entries if isinstance(one, dict) and "status" in one)
    return {status: words[status] for status in STATUSES if status != OK}


def _labelled(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family
