"""The figures of a cluster in the text format of Prometheus, renewed by a thread, over HTTP."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.service.http_messages import HttpAnswer, HttpRequest, json_answer
from ganeti_steward.core.service.http_server import Limits
from ganeti_steward.plugins.exporter.figures import CountedSize, Figures, GroupFigures

_MIB: Final = 2**20
_SECOND: Final = 10**9

#: Of each group: name, help, value.
_GROUP: Final[tuple[tuple[str, str, Callable[[GroupFigures], float]], ...]] = (
    ("score", "Score of the node group; a lower one is better.", lambda one: one.score),
    (
        "score_bound",
        "No placement of the instances of the node group has a lower score.",
        lambda one: one.bound,
    ),
    (
        "n1_failing_nodes",
        "Nodes without the memory for what they are secondary of.",
        lambda one: one.counts.n1,
    ),
    (
        "unevacuable_nodes",
        "Nodes whose instances have no place elsewhere in the node group.",
        lambda one: one.counts.blocked,
    ),
    (
        "tag_conflict_nodes",
        "Nodes with two primaries that share an exclusion tag.",
        lambda one: one.counts.tags,
    ),
    (
        "unusable_primary_instances",
        "Instances whose primary is offline or drained.",
        lambda one: one.counts.primaries,
    ),
    (
        "unusable_secondary_instances",
        "Instances whose secondary is offline or drained.",
        lambda one: one.counts.secondaries,
    ),
    ("instances", "Instances with their primary in the node group.", lambda one: one.instances),
    (
        "misplaced_instances",
        "Instances on a node that the tags of aggregates do not permit today.",
        lambda one: one.misplaced,
    ),
)

#: Of each size: name, help, value.
_SIZE: Final[tuple[tuple[str, str, Callable[[CountedSize], float]], ...]] = (
    (
        "capacity_instances",
        "Instances of the size that fit in addition to the sizes before it.",
        lambda one: one.fits,
    ),
    ("capacity_memory_bytes", "Memory of one instance of the size.", lambda one: one.memory * _MIB),
    (
        "capacity_disk_bytes",
        "Disk space that one instance of the size takes on each of its nodes.",
        lambda one: one.disk * _MIB,
    ),
    ("capacity_vcpus", "VCPUs of one instance of the size.", lambda one: one.vcpus),
)


class ClusterReading(NamedTuple):
    """What is known of the cluster, and of the reading of it."""

    figures: Figures | None = None
    """None before the first reading, and after one that failed"""
    ended: int = 0
    """when the last one that succeeded ended, ns since the epoch; 0 before it"""
    seconds: float = 0.0
    """how long the last one took"""
    readings: int = 0
    failures: int = 0
    fault: str = ""
    """why the last one failed; empty when it did not"""


def rendered(reading: ClusterReading) -> bytes:
    """All metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(reading))
    return generate_latest(registry)


class _Metrics(Collector):
    def __init__(self, reading: ClusterReading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        """Those of the cluster, where it could be read, and those of the exporter."""
        if self._reading.figures is not None:
            yield from _of_the_cluster(self._reading.figures)
        yield from _of_the_exporter(self._reading)


def _of_the_cluster(figures: Figures) -> Iterator[Metric]:
    for short, text, of_group in _GROUP:
        family = GaugeMetricFamily(_cluster(short), text, labels=["group"])
        for group in figures.groups:
            family.add_metric([group.name], of_group(group))
        yield family
    nodes = GaugeMetricFamily(
        _cluster("nodes"), "Nodes of the node group.", labels=["group", "condition"]
    )
    for group in figures.groups:
        for condition, number in sorted(group.nodes.items()):
            nodes.add_metric([group.name, condition], number)
    yield nodes
    for short, text, of_size in _SIZE:
        family = GaugeMetricFamily(_cluster(short), text, labels=["mode", "size"])
        for size in figures.sizes:
            family.add_metric([size.mode, str(size.number)], of_size(size))
        yield family
    used = GaugeMetricFamily(
        _cluster("used_ratio"), "Share of a resource that is in use, 0 to 1.", labels=["resource"]
    )
    for resource, share in figures.used._asdict().items():
        used.add_metric([resource], share)
    yield used


def _of_the_exporter(reading: ClusterReading) -> Iterator[Metric]:
    def gauge(short: str, text: str, value: float) -> Metric:
        return GaugeMetricFamily(f"steward_exporter_{short}", text, value=value)

    def counter(short: str, text: str, value: float) -> Metric:
        return CounterMetricFamily(f"steward_exporter_{short}", text, value=value)

    yield gauge(
        "success_timestamp_seconds",
        "When the cluster was read successfully last; 0 before that.",
        reading.ended / _SECOND,
    )
    yield gauge("read_seconds", "Duration of the last reading.", reading.seconds)
    yield gauge("failed", "1 when the last reading failed.", bool(reading.fault))
    yield counter("readings", "Readings of the cluster that have ended.", reading.readings)
    yield counter("failures", "Readings of the cluster that have failed.", reading.failures)


def _cluster(short: str) -> str:
    return f"steward_cluster_{short}"


#: What callers may take; a request has no body.
LIMITS: Final = Limits(threads=2, body=1024)

_log: Final = logging.getLogger(__name__)


class Readings:
    """Reads the cluster again and again; `last` may be used by other threads."""

    def __init__(
        self, read: Callable[[], Figures], interval: float, clock: Callable[[], int] = time.time_ns
    ) -> None:
        """``read`` raises StewardError; ``interval``: seconds between two; ``clock``: ns."""
        self._read, self._interval, self._clock = read, interval, clock
        self._stopped = threading.Event()
        self.last = ClusterReading()

    def once(self) -> ClusterReading:
        """Read once; a failure is part of the reading."""
        began, before = time.monotonic(), self.last
        figures, fault = None, ""
        try:
            figures = self._read()
        except StewardError as err:
            fault = str(err)
            _log.error("the cluster cannot be read: %s", err)
        except Exception as err:
            fault = f"{type(err).__name__}: {err}"
            _log.exception("the figures cannot be computed")
        self.last = ClusterReading(
            figures,
            before.ended if fault else self._clock(),
            time.monotonic() - began,
            before.readings + 1,
            before.failures + bool(fault),
            fault,
        )
        return self.last

    def start(self) -> None:
        """Read in a thread, until `stop`."""
        threading.Thread(target=self._run, name="readings", daemon=True).start()

    def stop(self) -> None:
        """Begin no other reading."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.once()
            self._stopped.wait(self._interval)


class MetricsApplication:
    """What the server calls, in several threads: GET only."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request."""
        if request.path not in ("/metrics", "/healthz"):
            return json_answer({"error": "no such path"}, 404)
        if request.method != "GET":
            return json_answer({"error": "wrong method"}, 405, allow="GET")
        reading = self._readings.last
        if request.path == "/metrics":
            return HttpAnswer(rendered(reading), kind=CONTENT_TYPE_LATEST)
        reason = reading.fault or ("" if reading.readings else "the cluster was not read yet")
        return json_answer({"ok": not reason, "reason": reason}, 503 if reason else 200)
