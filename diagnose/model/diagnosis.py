"""What is told about the node after a run: the object, and beside it what nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.errors import join_faults
from ganeti_steward.core.model.finding import OK, Finding, NotApplicable, Said, Unknown
from ganeti_steward.diagnose.model.hysteresis import Settled, Waiting
from ganeti_steward.diagnose.model.merge import Several, consolidate

#: The source of what is wrong with the diagnosis itself.
ITSELF: Final = "diagnose"


class Diagnosis(NamedTuple):
    """What came of one run."""

    object: dict[str, Any] | None
    """the diagnose object; None where nothing can be told"""
    why: str
    """why there is none, one sentence"""
    findings: tuple[Finding, ...]
    """what counts; of the sources that are fine, that they are"""
    waiting: tuple[Waiting, ...]
    """what does not count yet"""
    unknown: tuple[Unknown, ...]
    not_applicable: tuple[NotApplicable, ...]


def diagnosis(said: Sequence[Said], settled: Settled, several: Several) -> Diagnosis:
    """Put together what was said and what is believed.  Lists are sorted by source."""
    unknown = {*settled.kept, *(one for one in said if isinstance(one, Unknown))}
    ill = {finding.source for finding in settled.findings}
    fine = {
        Finding(one.source, OK)
        for one in said
        if isinstance(one, Finding) and one.status == OK and one.source not in ill
    }
    why = _why_nothing(said, settled)
    return Diagnosis(
        None if why else consolidate(settled.findings, several),
        why,
        (*settled.findings, *sorted(fine, key=lambda one: one.source)),
        settled.waiting,
        tuple(sorted(unknown)),
        tuple(sorted({one for one in said if isinstance(one, NotApplicable)})),
    )


def _why_nothing(said: Sequence[Said], settled: Settled) -> str:
    """Why nothing may be told: neither that the node is fine nor that it is not."""
    first = [one for one in settled.waiting if one.first]
    if first:
        faults = [f"{one.source} ({one.runs} of {one.needed} runs)" for one in first]
        return (
            "findings have to hold before they count, and what was told before is not known: "
            + join_faults(faults)
        )
    if settled.findings:
        return ""
    if settled.state.lost:
        return (
            "what was told before is lost, and may have been about what is unknown now: "
            + join_faults(settled.state.unheard)
        )
    faults = [f"{one.source}: {one.reason}" for one in said if isinstance(one, Unknown)]
    if faults and not any(isinstance(one, Finding) for one in said):
        return f"nothing is known about this node: {join_faults(faults)}"
    return ""
