"""Ad-hoc rate limits: the buckets that the reasons of a job name (job-filters 5)."""

from __future__ import annotations

from collections.abc import Mapping

from ganeti_steward.plugins.filters.dialect import Dialect
from ganeti_steward.plugins.filters.jobs import Job


def buckets_of(job: Job, dialect: Dialect) -> Mapping[str, int]:
    """Bucket -> the most of its jobs that may run at a time."""
    found = (dialect.bucket.fullmatch(reason.text) for reason in job.reasons)
    return {one["name"]: int(one["limit"]) for one in found if one is not None}
