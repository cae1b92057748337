"""What is in effect for each source, from run to run: a new result has to last some runs.

What a source reported in one run, its result, is the set of its findings other than ``Ok``.

* A result other than the confirmed one takes effect after ``appear_after`` consecutive runs.
  One that is less bad, or only lacks something, takes effect after ``clear_after`` consecutive
  runs, and not before ``appear_after`` if anything in it is new.  Until then the confirmed one
  stays in effect.
* Consecutive results that differ, all of them worse than the confirmed one, count together; the
  one nearest to the confirmed result takes effect.  So a source cannot hide a defect by wording
  it again in each run, and one odd run does not escalate.
* Unknown changes nothing: the confirmed result stays, and so does the number of runs counted.
  It applies to its source and to every ``source:object`` that reports nothing itself.
* NotApplicable, of a source without any finding in that run, has the same effect: a tool that is
  being upgraded has not repaired a disk.
* A source that reports nothing at all, and to which no Unknown applies, has nothing wrong:
  the disk was taken out.
* Where the source itself is not run any more, it is not known what became of what it found: the
  confirmed result stays until an admin has it forgotten.
* Without a state, as in the very first run, earlier reports are not known.  A finding that still
  has to last could have been reported, so nothing may be reported without it: it waits.
* A state that is lost may have held findings of sources that are unknown now.  The node is not
  Ok until each of them has reported a finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_reader import Range
from ganeti_steward.core.model.finding import (
    OK,
    CheckResult,
    Finding,
    NotApplicable,
    Unknown,
    severity,
)

#: All that is wrong with a source, sorted; empty for nothing.
Result = tuple[Finding, ...]

#: Stands for every source.
EVERYTHING: Final = "*"

_GONE: Final = ", but their source is gone; gnt-steward diagnose --forget {source} drops them"


class SourceState(NamedTuple):
    """What is known about one source."""

    confirmed: Result | None = ()
    """what is in effect; None where it is not known what was in effect before"""
    pending: Result = ()
    """what takes effect if it lasts"""
    runs: Annotated[int, Range(0, 2**63)] = 0
    """consecutive runs it has lasted; 0 for nothing pending"""


class RunState(NamedTuple):
    """What one run leaves to the next.  The default is that of the very first run."""

    held: Mapping[str, SourceState] = {}
    """sources about which there is anything to be kept"""
    unreported: tuple[str, ...] = (EVERYTHING,)
    """sources without any finding, Ok included, since there is a state"""
    lost: bool = False
    """whether there was one before that is lost, and those sources may have been in it"""


class RunCounts(NamedTuple):
    """Consecutive runs after which a result takes effect."""

    appear_after: int = 1
    """runs in which a new finding has to be seen"""
    clear_after: int = 1
    """runs in which a confirmed finding has to be gone"""


class Waiting(NamedTuple):
    """A result that is not in effect yet."""

    source: str
    result: Result
    runs: int
    """consecutive runs it has lasted"""
    needed: int
    """consecutive runs after which it takes effect"""
    first: bool
    """whether it is not known what was in effect before"""


class Update(NamedTuple):
    """What is in effect after a run."""

    state: RunState
    findings: tuple[Finding, ...]
    """what is in effect, none of it Ok"""
    kept: tuple[Unknown, ...]
    """sources whose findings stay although they do not apply, or are not run, any more"""
    waiting: tuple[Waiting, ...]


def covers(source: str, other: str) -> bool:
    """Whether what is unknown about a source is so for the other."""
    return source in (EVERYTHING, other) or other.startswith(f"{source}:")


def _is_covered(source: str, by: Iterable[str]) -> bool:
    """Whether one of some sources covers it."""
    return any(covers(name, source) for name in by)


def update(
    state: RunState,
    results: Iterable[CheckResult],
    run_counts: RunCounts,
    sources: Collection[str] = (EVERYTHING,),
) -> Update:
    """The state after one more run, and what is in effect now.

    ``sources``: the names of those that were run; they cover the sources of their objects.
    """
    results = tuple(results)
    reported = _reported(results)
    unknown = [result.source for result in results if isinstance(result, Unknown)]
    # A source with findings about some of its objects knows that the others are not there.
    absent = [
        result
        for result in results
        if isinstance(result, NotApplicable)
        and not any(covers(result.source, known) for known in reported)
    ]
    silent = [*unknown, *(result.source for result in absent)]
    held: dict[str, SourceState] = {}
    waiting: list[Waiting] = []
    kept: list[Unknown] = []
    for source in sorted({*reported, *state.held}):
        new = SourceState(None if _is_covered(source, state.unreported) else ())
        before = state.held.get(source, new)
        confirmed, reasons = before.confirmed or (), list[str]()
        if source not in reported and not _is_covered(source, (*sources, *silent)):
            after, needed = SourceState(confirmed), 0
            reasons = [_GONE.format(source=source)]
        elif source not in reported and _is_covered(source, silent):
            after, needed = before, _needed(confirmed, before.pending, run_counts)
            reasons = [f": {one.reason}" for one in absent if covers(one.source, source)]
        else:
            # What reports something, but not all, may add to what was confirmed, not end it.
            more = confirmed if source in silent else ()
            result = _sorted((*reported.get(source, ()), *more))
            after, needed = _step(before, result, run_counts)
        if confirmed:
            kept += (Unknown(source, f"earlier findings stay{reason}") for reason in reasons)
        if after.runs:
            first = after.confirmed is None
            waiting.append(Waiting(source, after.pending, after.runs, needed, first))
        if after != SourceState():
            held[source] = after
    unreported = {source for source in unknown if _is_covered(source, state.unreported)}
    findings = tuple(finding for after in held.values() for finding in after.confirmed or ())
    new_state = RunState(held, tuple(sorted(unreported)), state.lost and bool(unreported))
    return Update(new_state, findings, tuple(kept), tuple(waiting))


def _reported(results: Iterable[CheckResult]) -> dict[str, Result]:
    """The results of the sources that report findings, Ok included."""
    reported: dict[str, Result] = {}
    for finding in results:
        if isinstance(finding, Finding):
            wrong = () if finding.status == OK else (finding,)
            reported[finding.source] = _sorted((*reported.get(finding.source, ()), *wrong))
    return reported


def _step(before: SourceState, result: Result, run_counts: RunCounts) -> tuple[SourceState, int]:
    """The new state of a source after one known result."""
    confirmed = before.confirmed or ()
    if _texts(result) == _texts(confirmed):
        return SourceState(result), 0
    needed, count = _needed(confirmed, result, run_counts), 1
    better = _is_better(confirmed, result)
    if before.runs and _is_better(confirmed, before.pending) == better and needed > 1:
        result, count = _nearer(confirmed, before.pending, result), before.runs + 1
        needed = _needed(confirmed, result, run_counts)
    if count >= needed:
        return SourceState(result), 0
    return SourceState(before.confirmed, result, count), needed


def _needed(confirmed: Result, result: Result, run_counts: RunCounts) -> int:
    """Consecutive runs after which a result takes the place of the confirmed one."""
    new = run_counts.appear_after if _texts(result) - _texts(confirmed) else 1
    return max(new, run_counts.clear_after) if _is_better(confirmed, result) else new


def _is_better(confirmed: Result, result: Result) -> bool:
    """Whether a result is less bad, or lacks something and has nothing else."""
    if _severity(result) != _severity(confirmed):
        return _severity(result) < _severity(confirmed)
    return _texts(result) < _texts(confirmed)


def _nearer(confirmed: Result, old: Result, new: Result) -> Result:
    """Which of two results of one streak is nearer to what was confirmed before it."""
    better = _is_better(confirmed, new)
    if _severity(old) != _severity(new):
        return (max if better else min)(old, new, key=_severity)
    # What was seen in every run; unless nothing would be left of why it is a streak.
    common = tuple(finding for finding in new if _text(finding) in _texts(old))
    as_bad = _severity(common) == _severity(new)
    other = _texts(common) != _texts(confirmed) and _is_better(confirmed, common) == better
    return common if as_bad and other else old


def _severity(result: Result) -> int:
    return max((severity(finding.status) for finding in result), default=0)


def _sorted(findings: Iterable[Finding]) -> Result:
    """Findings of one source in one order, none of them twice."""
    unique = {_text(finding): finding for finding in findings}
    return tuple(unique[text] for text in sorted(unique))


def _texts(result: Result) -> frozenset[bytes]:
    return frozenset(map(_text, result))


def _text(finding: Finding) -> bytes:
    """What makes two findings the same: not the order of keys, but 1 is not 1.0."""
    return canonical(finding)
