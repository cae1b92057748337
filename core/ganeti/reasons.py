"""Reason trails: who submitted a job or made a filter rule, and why.

Only ASCII goes into them.  Ganeti 3.0.2 writes other text in a wrong encoding between its daemons,
in any locale: a job with such text is taken, but confirmed after ten seconds or never, and a filter
rule with such text can block all later changes of the configuration until they are restarted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.model.opcodes import Job

#: The source of what a user gives as the reason, with gnt-* commands and RAPI, too.
USER: Final = "gnt:user"


class Reason(NamedTuple):
    """One entry of a reason trail."""

    source: str
    """the program, such as ``gnt:client:gnt-job``"""
    text: str
    timestamp: int
    """ns since 1970"""


def with_reasons(job: Job, reasons: Sequence[Reason]) -> Job:
    """The job with these entries after those each operation has."""
    return [{**operation, "reason": _written(operation, reasons)} for operation in job]


def ascii_fault(job: Job) -> str:
    """Why Ganeti must not get this job; empty when it may."""
    if json.dumps(job, ensure_ascii=False).isascii():
        return ""
    names = ", ".join(str(one.get("OP_ID", "?")) for one in job)
    return f"{names}: only ASCII may be in a job: other text can stop Ganeti's daemons"


def _written(operation: dict[str, Any], reasons: Sequence[Reason]) -> list[list[str | int]]:
    trail = (*operation.get("reason", ()), *reasons)
    return [[escaped(source), escaped(text), at] for source, text, at in trail]


def escaped(text: str) -> str:
    """The text with backslash escapes in place of everything but ASCII."""
    return text.encode("ascii", "backslashreplace").decode("ascii")
