"""The metrics of the daemon, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ganeti_steward.plugins.maintenance.config import ACT
from ganeti_steward.plugins.maintenance.edges.status import (
    CANDIDATE_STATES,
    Status,
    observation_word,
)
from ganeti_steward.plugins.model.incident import DEAD, STATES

#: The type of the text, for HTTP.
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

#: The brake of an incident without progress.
STUCK: Final = "stuck"

_OBSERVATIONS: Final = ("healthy", "suspect", "ill", "silent", "refused", "unknown")

_SECOND: Final = 10**9


def rendered(status: Status) -> bytes:
    """All metrics of a status."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(status))
    return generate_latest(registry)


def names() -> list[str]:
    """The names of all metrics as they are rendered, sorted."""
    return sorted(
        f"{one.name}_total" if one.type == "counter" else one.name
        for one in _Metrics(Status(0, incidents=())).collect()
    )


class _Metrics(Collector):
    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Every metric, the figures first that say how the cluster is."""
        yield from _of_the_cluster(self._status)
        yield from _of_the_daemon(self._status)


def _of_the_cluster(status: Status) -> Iterator[Metric]:
    if status.incidents is not None:
        text = "Incidents by status; acknowledged: nothing is left to be done."
        states = Counter(one.state_name for one in status.incidents)
        yield _by_label(GaugeMetricFamily, "incidents", text, "status", states, STATES)
        dead = {one.node for one in status.incidents if one.active and one.action == DEAD}
        text = "Nodes of which nothing answers, by their incidents that have not ended."
        yield _value("nodes_dead", text, len(dead))
    observed = Counter(
        observation_word(status.poll.observations.get(uuid)) for uuid in status.nodes
    )
    text = "Nodes by what their last poll showed."
    yield _by_label(GaugeMetricFamily, "nodes", text, "observation", observed, _OBSERVATIONS)
    compared = Counter(one.state for one in status.candidates)
    text = "Master candidates by whether their daemon would act as this one does."
    yield _by_label(
        GaugeMetricFamily, "candidates", text, "configuration", compared, CANDIDATE_STATES
    )
    text = "Instances that should run and do not."
    yield _value("instances_down", text, len(status.figures.down))
    brakes = Counter(one.brake for one in status.held)
    text = "Tasks that the last round held, by brake."
    yield _by_label(GaugeMetricFamily, "held", text, "brake", brakes)
    yield _value(
        "incidents_stuck", "Incidents without progress for too long.", brakes.get(STUCK, 0)
    )


def _of_the_daemon(status: Status) -> Iterator[Metric]:
    yield _value("acting", "1 in mode act, 0 in mode observe.", status.mode == ACT)
    yield _value(
        "paused", "1 while nothing is started because of a pause.", status.pause is not None
    )
    text, refused = "Reports that were rejected, by reason.", status.poll.refused
    yield _by_label(CounterMetricFamily, "reports_refused", text, "reason", refused)
    text, started = "Tasks that were started, by step.", status.started_tasks
    yield _by_label(CounterMetricFamily, "tasks_started", text, "step", started)
    yield CounterMetricFamily(_name("rounds"), "Rounds that have ended.", value=status.rounds)
    yield CounterMetricFamily(_name("polls"), "Polls that have ended.", value=status.poll.polls)
    yield _value("round_seconds", "Duration of the last round.", status.round_seconds)
    yield _value("poll_seconds", "Duration of the last poll.", status.poll.seconds)
    yield _value(
        "round_ended_timestamp_seconds",
        "When the last round ended; 0 before the first one.",
        status.round_ended / _SECOND,
    )
    yield _value(
        "poll_ended_timestamp_seconds",
        "When the last poll ended; 0 before the first one.",
        status.poll.ended / _SECOND,
    )
    yield _value("round_failed", "1 when the last round failed.", bool(status.round_fault))


def _name(short: str) -> str:
    return f"steward_maintd_{short}"


def _value(short: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_name(short), text, value=value)


def _by_label(
    family: type[GaugeMetricFamily | CounterMetricFamily],
    short: str,
    text: str,
    label: str,
    values: Mapping[str, int],
    always: Iterable[str] = (),
) -> Metric:
    """``always``: labels that are there with a value of 0, too."""
    metric = family(_name(short), text, labels=[label])
    for word, number in sorted((dict.fromkeys(always, 0) | dict(values)).items()):
        metric.add_metric([word], number)
    return metric
