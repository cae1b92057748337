"""The jobs of repairs that no record knows, found by their reason trails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ganeti_steward.core.ganeti.reasons import read_reasons
from ganeti_steward.core.maintenance.incident import JOB_SOURCE, Incident
from ganeti_steward.core.maintenance.orphan import OrphanJob, named_instances, named_nodes
from ganeti_steward.plugins.maintenance.edges.submit import SUBMISSION_SOURCE
from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.queue.calls import AnyStarted


class Unrecorded(NamedTuple):
    """What the queue has that no record knows."""

    orphans: tuple[OrphanJob, ...] = ()
    """jobs of repairs that have not ended, by number"""
    last_job: int = 0
    """the highest number the queue has shown"""


def orphans_of(
    rows: Iterable[Mapping[str, Any]],
    running: Iterable[AnyStarted],
    incidents: Iterable[Incident],
) -> tuple[OrphanJob, ...]:
    """The orphans among jobs that have not ended, and among what is being handed over.

    ``rows``: with ``id`` and ``ops``; ``incidents``: as they are recorded.
    """
    known = {one.id for incident in incidents for one in incident.open}
    found = [*_stored(rows), *_under_way(running)]
    return tuple(sorted(one for one in found if one.submission not in known))


def _stored(rows: Iterable[Mapping[str, Any]]) -> Iterator[OrphanJob]:
    for row in rows:
        try:
            reasons = [one for op in row["ops"] for one in read_reasons(op["reason"])]
        except (KeyError, TypeError, ValueError):
            # Of a damaged job luxid gives no operations.
            continue
        texts = {one.source: one.text for one in reasons}
        if SUBMISSION_SOURCE in texts:
            yield OrphanJob(
                row["id"],
                texts.get(JOB_SOURCE, ""),
                texts[SUBMISSION_SOURCE],
                named_nodes(row["ops"]),
                named_instances(row["ops"]),
            )


def _under_way(running: Iterable[AnyStarted]) -> Iterator[OrphanJob]:
    for one in running:
        if isinstance(one, Started):
            nodes, instances = sorted(one.task.nodes), sorted(one.task.instances)
            yield OrphanJob(0, one.incident, one.submission, tuple(nodes), tuple(instances))
