"""Jobs with their times, for a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ganeti_steward.core.json_reader import describe
from ganeti_steward.plugins.filters.jobs import QUEUED, Job, read_job


class TimedJob(NamedTuple):
    """A job that is submitted during a simulation; times in s, from any beginning."""

    job: Job
    submitted: float
    duration: float
    """s from its start to its end"""
    canceled: float | None = None
    """when a user cancels it if it is still queued; None: never"""


def timed_jobs(rows: Sequence[Mapping[str, Any]], duration: float | None) -> list[TimedJob]:
    """The jobs of a file's rows, all to be submitted; the first submission is at 0.

    ``duration`` (s) is for jobs for which the file has none.  Raises ValueError with one sentence.
    """
    found = [_timed(row, duration) for row in rows]
    begin = min((one.submitted for one in found), default=0.0)
    return [
        one._replace(
            submitted=one.submitted - begin,
            canceled=None if one.canceled is None else one.canceled - begin,
        )
        for one in found
    ]


def _timed(row: Mapping[str, Any], usual: float | None) -> TimedJob:
    job = read_job(row)._replace(status=QUEUED)
    try:
        return TimedJob(
            job, _submitted(row), _duration(row, usual), _seconds(row.get("canceled"), "canceled")
        )
    except ValueError as err:
        raise ValueError(f"job {job.number}: {err}") from None


def _submitted(row: Mapping[str, Any]) -> float:
    found = _seconds(row.get("submitted"), "submitted")
    return found if found is not None else _seconds(row.get("received_ts"), "received_ts") or 0.0


def _duration(row: Mapping[str, Any], usual: float | None) -> float:
    own = _seconds(row.get("duration"), "duration")
    start, end = (_seconds(row.get(key), key) for key in ("start_ts", "end_ts"))
    if own is None and start is not None and end is not None:
        own = max(0.0, end - start)
    found = usual if own is None else own
    if found is None:
        raise ValueError("nothing gives its duration: neither 'duration' nor start_ts and end_ts")
    return found


def _seconds(value: Any, key: str) -> float | None:
    """A number, or seconds and microseconds as Ganeti has times."""
    if value is None:
        return None
    parts = value if isinstance(value, list) and len(value) == 2 else [value, 0]
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in parts):
        raise ValueError(f"key {key!r}: seconds are expected, found {describe(value)}")
    seconds = parts[0] + parts[1] / 1e6
    if not 0 <= seconds < 1e12:
        raise ValueError(f"key {key!r}: {describe(value)} is out of range")
    return float(seconds)
