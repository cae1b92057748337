"""The outcome of a run: the one diagnose object of a node, and what is unknown.

The same findings give the same object, in whatever order they came: a byte by byte comparison of
two objects shows one event as long as the hardware is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.errors import join_faults
from ganeti_steward.core.model.finding import (
    LIVE_REPAIR,
    OK,
    SUSPECT,
    CheckResult,
    Finding,
    NotApplicable,
    Unknown,
    severity,
)
from ganeti_steward.diagnose.model.budget import within_object
from ganeti_steward.diagnose.model.hysteresis import Update, Waiting

#: The source of what is wrong with the diagnosis itself.
ITSELF: Final = "diagnose"

#: Characters of the reason why nothing is reported; it may name many sources.
_WHY: Final = 2000


class Several(NamedTuple):
    """What to do where findings request different repair commands."""

    command: str = ""
    """the command that is requested instead; it reads all findings.  Empty for none"""
    status: str = LIVE_REPAIR
    """the status then; any other needs no command"""


#: No wrapper: the status is live-repair, and no command is requested.
NO_WRAPPER: Final = Several()


class Diagnosis(NamedTuple):
    """The outcome of one run."""

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
    unknown = {*outcome.kept, *(result for result in results if isinstance(result, Unknown))}
    wrong = {finding.source for finding in outcome.findings}
    fine = {
        Finding(result.source, OK)
        for result in results
        if isinstance(result, Finding) and result.status == OK and result.source not in wrong
    }
    why = _why_nothing(results, outcome)[:_WHY]
    return Diagnosis(
        None if why else consolidate(outcome.findings, several),
        why,
        (*outcome.findings, *sorted(fine, key=lambda finding: finding.source)),
        outcome.waiting,
        tuple(sorted(unknown)),
        tuple(sorted({result for result in results if isinstance(result, NotApplicable)})),
    )


def _why_nothing(results: Sequence[CheckResult], outcome: Update) -> str:
    """Why nothing may be reported: neither that the node is fine nor that it is not."""
    first = [waiting for waiting in outcome.waiting if waiting.first]
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
    unknown = [result for result in results if isinstance(result, Unknown)]
    if unknown and not any(isinstance(result, Finding) for result in results):
        # Collectors that look at several objects end in any order.
        reasons = sorted(f"{result.source}: {result.reason}" for result in unknown)
        return f"nothing is known about this node: {join_faults(reasons)}"
    return ""


def consolidate(findings: Iterable[Finding], several: Several = NO_WRAPPER) -> dict[str, Any]:
    """The diagnose object: the worst status, one action, and why.

    Ok findings are left out; a finding reported twice is there once.  Beside a worse one a suspect
    finding is left out, too: it would make another object, and so another incident.  Details that
    would make the object too long are replaced (`ganeti_steward.diagnose.model.budget`).
    """
    wrong = {canonical(finding): finding for finding in findings if finding.status != OK}
    asking = {text: one for text, one in wrong.items() if one.status != SUSPECT}
    wrong = asking or wrong
    if not wrong:
        return {"status": OK}
    fitting = within_object([wrong[text] for text in sorted(wrong)])
    entries = {canonical(entry): entry for entry in map(_entry, fitting)}
    details = [entries[text] for text in sorted(entries, key=lambda t: (entries[t]["source"], t))]
    status = max((entry["status"] for entry in details), key=severity)
    action = _action(details, several) if status == LIVE_REPAIR else {}
    return {"status": status, "details": details} | action


def _entry(finding: Finding) -> dict[str, Any]:
    """A finding as a member of the details; the command of another status means nothing."""
    entry: dict[str, Any] = {"source": finding.source, "status": finding.status}
    if finding.command and finding.status == LIVE_REPAIR:
        entry["command"] = finding.command
    if finding.details is not None:
        entry["details"] = finding.details
    return entry


def _action(details: list[dict[str, Any]], several: Several) -> dict[str, str]:
    """Command and status where nothing is worse than live-repair."""
    commands = {entry["command"] for entry in details if "command" in entry}
    if len(commands) == 1:
        return {"command": commands.pop()}
    if commands and several.status != LIVE_REPAIR:
        return {"status": several.status}
    return {"command": several.command} if commands and several.command else {}
