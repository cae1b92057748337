"""Migrations that copy the memory of an instance now, by the logs of their jobs.

The texts are those of Ganeti's ``lib/cmdlib/instance_migration.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.shapes import job_number, returned_by
from ganeti_steward.core.model.job_state import JobState
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.progress import Transfer

_BEGINS: Final = "* starting memory transfer"
_PROGRESS: Final = re.compile(r"\* memory transfer progress: ([0-9]{1,9}\.[0-9]{2}) %")
#: What ends it; a switch to postcopy does not.
_ENDS: Final = ("* memory transfer complete", "Migration failed, aborting")


def late_jobs(
    incidents: Iterable[Incident], jobs: Mapping[int, JobState], before: int
) -> list[int]:
    """Numbers of the jobs that run and were submitted before a moment (ns since the epoch)."""
    return sorted(
        number
        for incident in incidents
        for submission in incident.open
        if submission.at <= before
        for number in submission.jobs
        if number in jobs and jobs[number].status == "running"
    )


def transfers(numbers: Iterable[int], luxi: Luxi) -> dict[int, Transfer]:
    """Number -> the transfer, of those of these jobs that copy memory; raises StewardError."""
    given = luxi.call("QueryJobs", list(numbers), ["id", "oplog"])
    with returned_by(luxi.where):
        # Of an unknown job luxid returns the number alone.
        logs = {job_number(row[0]): _texts(row[1]) for row in given if row and row[1]}
    return {number: found for number, log in logs.items() if (found := transfer_in(log))}


def _texts(logs: Iterable[Iterable[Any]]) -> list[tuple[int, str]]:
    """All texts in the logs of the operations of a job; raises TypeError, ValueError."""
    return [
        ((int(seconds) * 10**6 + int(micro)) * 1000, text)
        for log in logs
        for _, (seconds, micro), _, text in log
        if isinstance(text, str)
    ]


def transfer_in(log: Iterable[tuple[int, str]]) -> Transfer | None:
    """What the log of a job shows; None where no memory is copied now.

    ``log``: texts of the job, each with its time in ns since the epoch, in their order.
    """
    found: Transfer | None = None
    for at, text in log:
        if text == _BEGINS:
            found = Transfer(at)
        elif text in _ENDS:
            found = None
        elif found and (progress := _PROGRESS.fullmatch(text)):
            found = found._replace(percent=float(progress[1]))
    return found
