"""The outcome of a run: the diagnose object, and what is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import join_faults
from ganeti_steward.core.model.finding import OK, CheckResult, Finding, NotApplicable, Unknown
from ganeti_steward.diagnose.model.hysteresis import Update, Waiting
from ganeti_steward.diagnose.model.merge import Several, consolidate

#: The source of what is wrong with the diagnosis itself.
ITSELF: Final = "diagnose"

#: Characters of the reason why nothing is reported; it may name many sources.
_WHY: Final = 2000


class Diagnosis(NamedTuple):
    """What came of one run."""

    object: dict[str, Any] | None
    """the diagnose object; None where nothing can be reported"""
    why: str
    """why there is none, one sentence"""
    findings: tuple[Finding, ...]
    """what counts; of the sources that are fine, that they are"""
    waiting: tuple[Waiting, ...]
    """what does not count yet"""
    unknown: tuple[Unknown, ...]
    not_applicable: tuple[NotApplicable, ...]


def diagnosis(results: Sequence[CheckResult], outcome: Update, several: Several) -> Diagnosis:
    """Combine the results of a run with what is in effect after it.  Lists are sorted by source."""
    unknown = {*outcome.kept, *(one for one in results if isinstance(one, Unknown))}
    ill = {finding.source for finding in outcome.findings}
    fine = {
        Finding(one.source, OK)
        for one in results
        if isinstance(one, Finding) and one.status == OK and one.source not in ill
    }
    why = _why_nothing(results, outcome)[:_WHY]
    return Diagnosis(
        None if why else consolidate(outcome.findings, several),
        why,
        (*outcome.findings, *sorted(fine, key=lambda one: one.source)),
        outcome.waiting,
        tuple(sorted(unknown)),
        tuple(sorted({one for one in results if isinstance(one, NotApplicable)})),
    )


def _why_nothing(results: Sequence[CheckResult], outcome: Update) -> str:
    """Why nothing may be reported: neither that the node is fine nor that it is not."""
    first = [one for one in outcome.waiting if one.first]
    if first:
        faults = [f"{one.source} ({one.runs} of {one.needed} runs)" for one in first]
        return (
            "findings do not take effect yet, and what was reported before is not known: "
            + join_faults(faults)
        )
    if outcome.findings:
        return ""
    if outcome.state.lost:
        return (
            "what was reported before is lost, and may have been about what is unknown now: "
            + join_faults(outcome.state.unreported)
        )
    faults = [f"{one.source}: {one.reason}" for one in results if isinstance(one, Unknown)]
    if faults and not any(isinstance(one, Finding) for one in results):
        return f"nothing is known about this node: {join_faults(faults)}"
    return ""
