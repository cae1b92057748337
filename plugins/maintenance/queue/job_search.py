"""Finding jobs in the queue by an entry of their reason trails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.ganeti.this_node import DATA, lines
from ganeti_steward.plugins.model.orphan import named_instances
from ganeti_steward.plugins.texts import read_reasons

_FIELDS: Final = ("id", "status", "ops")

#: Jobs that are read in one call, which bounds the memory of both sides.
_PAGE: Final = 2000

_NUMBER: Final = re.compile("[0-9]{1,15}")


class FoundJob(NamedTuple):
    """A job of the queue, and why it was submitted."""

    number: int
    """Ganeti's number of it"""
    status: str
    """in Ganeti's words, see `core.model.job_state.JobState`"""
    operations: tuple[str, ...]
    """the ``OP_ID`` of each operation"""
    reasons: tuple[tuple[Reason, ...], ...]
    """the reason trail of each operation; luxid adds the last entry at the submission"""
    instances: tuple[str, ...] = ()
    """names of the instances its operations name, sorted"""


def last_job(data: str = DATA) -> int | None:
    """The number of the last job that Ganeti's queue has given out; None where that is not known.

    Jobs of higher numbers can be in the queue all the same.  Ganeti 3 does not copy the queue to a
    node that becomes a master candidate: as the master it counts on from what it has, and gives out
    again numbers that another master has given before.
    """
    text = "\n".join(lines(data, "queue/serial"))
    return int(text) if _NUMBER.fullmatch(text) else None


def jobs_with_reason(
    luxi: Luxi,
    source: str,
    text: str | None = None,
    *,
    after: int = 0,
    archived: bool = False,
    page: int = _PAGE,
) -> list[FoundJob]:
    """The jobs with an entry of this source, and of exactly this text, by number.

    Queued, running and ended ones; also the jobs that such a job has submitted, for they inherit
    its trail.  ``archived``: those that are archived as well.  ``after``: jobs of higher numbers
    only; the watermark of a filter rule is the last number when it was written.  Jobs that cannot
    be read are left out.  Raises StewardError.

    luxid cannot search reasons: it reads the file of each job after ``after``, in calls of
    ``page`` jobs.  On two busy cores 1000 jobs took 1 s and 20 000 took 20 to 30 s, nearly all of
    it in luxid.
    """
    found = (_job(row) for row in _rows(luxi, after, archived, page))
    return [job for job in found if job and _has(job, source, text)]


def _rows(luxi: Luxi, after: int, archived: bool, page: int) -> Iterator[dict[str, Any]]:
    # luxid looks into its archive where this field is requested.
    more = ("archived",) if archived else ()
    numbers = sorted({row["id"] for row in luxi.rows("job", ("id", *more), [">", "id", after])})
    for start in range(0, len(numbers), page):
        some = numbers[start : start + page]
        condition = ["&", [">=", "id", some[0]], ["<=", "id", some[-1]]]
        yield from luxi.rows("job", (*_FIELDS, *more), condition)


def _job(row: dict[str, Any]) -> FoundJob | None:
    """A job; None when its file is damaged, for which luxid gives no values."""
    try:
        operations: Sequence[dict[str, Any]] = row["ops"]
        return FoundJob(
            row["id"],
            row["status"],
            tuple(operation["OP_ID"] for operation in operations),
            tuple(read_reasons(operation["reason"]) for operation in operations),
            named_instances(operations),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _has(job: FoundJob, source: str, text: str | None) -> bool:
    return any(
        reason.source == source and text in (None, reason.text)
        for trail in job.reasons
        for reason in trail
    )
