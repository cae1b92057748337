"""The results of a source as lines of JSON, and the rules of what a source may report.

A worker writes a line for each result as soon as it has it; the last line is ``null``.  The reader
checks them all: a source can write into the pipe.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final, NamedTuple

from ganeti_steward.core.hooks.timed_call import sentence, shown
from ganeti_steward.core.json_nesting import load_lenient
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


#: The source has found the worker's pipe.
_FOREIGN: Final = "wrote into the pipe of its own results"


class OwnName(NamedTuple):
    """A line ahead of the results: what the source calls itself."""

    name: str


#: The kinds of results, by their names on a line.
_KINDS: Final = {kind.__name__: kind for kind in (Finding, Unknown, NotApplicable, OwnName)}


class _BadResult(Exception):
    """Something a source may not report."""


def to_line(name: str, result: object) -> bytes:
    """What the source ``name`` reports as a line; `from_line` checks it.

    An Unknown takes the place of what is not JSON.
    """
    try:
        return json.dumps([type(result).__name__, result]).encode()
    except (TypeError, ValueError, RecursionError) as err:
        about = shown(getattr(result, "source", result))
        fault = f"reports about {about} what is not JSON: {sentence(err)}"
        return to_line(name, Unknown(name, fault[:LONGEST_REASON]))


def is_own_name(name: object, taken: Collection[str]) -> bool:
    """Whether a source may call itself so; ``taken``: names of other sources."""
    return isinstance(name, str) and not source_fault(name) and name not in taken


def from_line(name: str, names: Collection[str], line: bytes) -> CheckResult | OwnName:
    """The result in a line of a worker, Unknown where it may not be reported.

    ``names``: what the names of its sources may begin with.
    """
    try:
        kind, fields = parse(line, _AROUND)
        if kind not in _KINDS:
            raise _BadResult(f"returned {shown(fields)}, which is not a result of a source")
        result: CheckResult | OwnName = _KINDS[kind](*fields)
        if not isinstance(result, OwnName):
            _check(names, result)
    except _BadResult as err:
        return Unknown(name, str(err)[:LONGEST_REASON])
    except BadObject as err:
        about = _about(line)
        fault = f"reports about {about} what is not good JSON: {err}" if about else _FOREIGN
        return Unknown(name, fault[:LONGEST_REASON])
    except (TypeError, ValueError):
        return Unknown(name, _FOREIGN)
    return result


def _about(line: bytes) -> str:
    """What a line with faults is about; empty where it is not a result of a worker."""
    try:
        _, (source, *_) = load_lenient(line)
        return shown(source)
    except (TypeError, ValueError):
        return ""


def _check(names: Collection[str], result: CheckResult) -> None:
    """Raise _BadResult for what may not be reported."""
    begins = tuple(f"{name}:" for name in names)
    if not (isinstance(result.source, str) and f"{result.source}:".startswith(begins)):
        raise _BadResult(f"reports for {shown(result.source)}, not for itself")
    about = quoted(result.source)
    if len(result.source) > _LONGEST_SOURCE:
        raise _BadResult(f"reports for {about}, a name of more than {_LONGEST_SOURCE} characters")
    if isinstance(result, Finding):
        _check_finding(about, result)
    elif not isinstance(result.reason, str):
        raise _BadResult(f"gives {shown(result.reason)} as a reason about {about}, not a text")


def _check_finding(about: str, finding: Finding) -> None:
    if finding.status not in STATUSES:
        known = ", ".join(STATUSES)
        raise _BadResult(f"gives {about} the status {shown(finding.status)} (known: {known})")
    command = finding.command
    named = isinstance(command, str) and len(command) <= _LONGEST_COMMAND
    if not named or (command and not is_name(command)):
        raise _BadResult(f"requests {shown(command)} for {about}, which is not a command name")
