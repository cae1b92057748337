"""The results of a source as lines of JSON, and the rules of what a source may report.

A worker writes a line for each result as soon as it has it; the last line is ``null``.  Both
sides check: the worker to name the fault, the reader because a source can write into the pipe.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final, NamedTuple

from ganeti_steward.core.hooks.timed_call import sentence, shown
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.finding import (
    STATUSES,
    CheckResult,
    Finding,
    NotApplicable,
    Unknown,
    is_name,
)
from ganeti_steward.diagnose.config.sections import source_fault
from ganeti_steward.diagnose.model.object import BadObject, parse

#: The last line.
DONE: Final = b"null"

#: Levels of a line around the details of a finding; of an object they are the inner levels, or
#: all of them where it has members that are not known.
_AROUND: Final = 2

#: Characters of a reason; an exception may hold megabytes.
LONGEST_REASON: Final = 500

#: Characters of a result's source, and of a command; paths are part of some sources.
_LONGEST_SOURCE: Final = 5000
_LONGEST_COMMAND: Final = 255


class OwnName(NamedTuple):
    """A line ahead of the results: what the source calls itself."""

    name: str


#: The kinds of results, by their names on a line.
_KINDS: Final = {kind.__name__: kind for kind in (Finding, Unknown, NotApplicable, OwnName)}


class BadResult(Exception):
    """Something a source may not report."""


def to_line(names: Collection[str], result: object) -> bytes:
    """A result of a source as a line; raises BadResult.

    ``names``: what the names of its sources may begin with.
    """
    about = result.name if isinstance(result, OwnName) else check(names, result)
    try:
        line = json.dumps([type(result).__name__, result]).encode()
        parse(line, _AROUND)
    except (TypeError, ValueError, RecursionError) as err:
        raise BadResult(f"reports about {about} what is not JSON: {sentence(err)}") from None
    except BadObject as err:
        raise BadResult(f"reports about {about} what is not good JSON: {err}") from None
    return line


def is_own_name(name: object, taken: Collection[str]) -> bool:
    """Whether a source may call itself so; ``taken``: names of other sources."""
    return isinstance(name, str) and not source_fault(name) and name not in taken


def line_or_fault(name: str, names: Collection[str], result: object) -> bytes:
    """The same, with an Unknown of the source ``name`` in the place of what may not be reported."""
    try:
        return to_line(names, result)
    except BadResult as err:
        return to_line(names, Unknown(name, str(err)[:LONGEST_REASON]))


def from_line(name: str, names: Collection[str], line: bytes) -> CheckResult | OwnName:
    """The result in a line of a worker, Unknown where the line is no result of this source."""
    try:
        kind, fields = parse(line, _AROUND)
        result: CheckResult | OwnName = _KINDS[kind](*fields)
        if not isinstance(result, OwnName):
            check(names, result)
    except (BadObject, BadResult, ValueError, KeyError, TypeError):
        # The source found the worker's pipe and wrote into it.
        return Unknown(name, "wrote into the pipe of its own results")
    return result


def check(names: Collection[str], result: object) -> str:
    """What a result is about, for a sentence; raises BadResult for what may not be reported."""
    if not isinstance(result, Finding | Unknown | NotApplicable):
        raise BadResult(f"returned {shown(result)}, which is no result of a source")
    begins = tuple(f"{name}:" for name in names)
    if not (isinstance(result.source, str) and f"{result.source}:".startswith(begins)):
        raise BadResult(f"reports for {shown(result.source)}, not for itself")
    about = quoted(result.source)
    if len(result.source) > _LONGEST_SOURCE:
        raise BadResult(f"reports for {about}, a name of more than {_LONGEST_SOURCE} characters")
    if isinstance(result, Finding):
        _check_finding(about, result)
    elif not isinstance(result.reason, str):
        raise BadResult(f"gives {shown(result.reason)} as a reason about {about}, not a text")
    return about


def _check_finding(about: str, finding: Finding) -> None:
    if finding.status not in STATUSES:
        known = ", ".join(STATUSES)
        raise BadResult(f"gives {about} the status {shown(finding.status)} (known: {known})")
    command = finding.command
    named = isinstance(command, str) and len(command) <= _LONGEST_COMMAND
    if not named or (command and not is_name(command)):
        raise BadResult(f"requests {shown(command)} for {about}, which is no name of a command")
