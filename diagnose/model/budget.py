"""How much of the findings is reported: status and command always, the details within limits.

The report has to be readable for the agent and for the maintenance daemon, whose limits for an
answer and for an object are far below what sources may print.  Details beyond the budget are
replaced by their SHA-256 and size, so other details are still another finding.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import OK, CheckResult, Finding, Unknown, severity
from ganeti_steward.core.node_agent.protocol import LONGEST_OBJECT

#: Bytes of canonical JSON: the details of one finding, and all findings of one source.
DETAILS: Final = 2**13
SOURCE: Final = 2**16

#: Findings of one source other than Ok; more become one for each status and command.
FINDINGS: Final = 500

#: Characters of one reason, and of all reasons in one list of the report.
REASON: Final = 500
REASONS: Final = 2**16

#: Bytes of an object that are kept for its own status and command.
_AROUND: Final = 2**9

#: Bytes of the names of a finding's members.
_NAMES: Final = 50

#: The name of everything that a source reports about.
_ALL: Final = "diagnose"


def within_budget(source: str, results: Iterable[CheckResult]) -> list[CheckResult]:
    """The results of one source, its findings and reasons within their limits."""
    kept: list[CheckResult] = []
    wrong: list[Finding] = []
    for result in results:
        if not isinstance(result, Finding):
            kept.append(result._replace(reason=result.reason[:REASON]))
        elif result.status == OK:
            kept.append(result)
        else:
            wrong.append(result)
    if len(wrong) > FINDINGS:
        wrong = _merged(wrong, lambda _: source)[:FINDINGS]
        # What was known before of each of its objects stays.
        kept.append(Unknown(source, f"reports more than {FINDINGS} findings"))
    return [*kept, *_fitting([_shortened(result, DETAILS) for result in wrong], SOURCE)]


def within_object(findings: Sequence[Finding]) -> list[Finding]:
    """Findings that together fit into a diagnose object: with less details, or merged."""
    budget = LONGEST_OBJECT - _AROUND
    fitting = _fitting(findings, budget)
    for name_of in (_source, lambda _: _ALL):
        if _size(fitting) <= budget:
            return fitting
        fitting = _fitting(_merged(fitting, name_of), budget)
    # Only where a source makes up commands without end: which of them is of no use then.
    while _size(fitting) > budget:
        fitting = fitting[: len(fitting) // 2]
    return fitting


def within_list(reasons: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """The first ones of a list of (source, reason), as members of the report."""
    listed: list[dict[str, str]] = []
    room = REASONS
    for number, (source, reason) in enumerate(reasons):
        room -= len(canonical([source, reason]))
        if room < 0:
            more = f"{len(reasons) - number} more are not listed"
            return [*listed, {"source": _ALL, "reason": more}]
        listed.append({"source": source, "reason": reason})
    return listed


def _source(finding: Finding) -> str:
    """The source itself, without the object it reports about."""
    parts = finding.source.split(":")
    return ":".join(parts[:2] if parts[0] in ("command", "nagios") else parts[:1])


def _merged(findings: Iterable[Finding], name_of: Callable[[Finding], str]) -> list[Finding]:
    """One finding for each name, status and command, the worst ones first."""
    groups: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[name_of(finding), finding.status, finding.command].append(finding)
    merged = [
        members[0] if len(members) == 1 else Finding(*key, _together(members))
        for key, members in groups.items()
    ]
    return sorted(merged, key=lambda finding: (-severity(finding.status), canonical(finding)))


def _together(members: Iterable[Finding]) -> dict[str, Any]:
    texts = sorted(map(canonical, members))
    return {"findings": len(texts), **_digest(b"\n".join(texts))}


def _fitting(findings: Sequence[Finding], budget: int) -> list[Finding]:
    """The findings, of as few as possible of them the digest instead of the details."""
    fitting, size = list(findings), _size(findings)
    texts = [canonical(finding.details) for finding in findings]
    for index in sorted(range(len(fitting)), key=lambda index: (-len(texts[index]), texts[index])):
        if size <= budget:
            break
        before = fitting[index]
        fitting[index] = _shortened(before, len(canonical(_digest(b""))))
        size += _size([fitting[index]]) - _size([before])
    return fitting


def _shortened(finding: Finding, longest: int) -> Finding:
    """A finding with the digest of its details, where those have more than ``longest`` bytes."""
    text = canonical(finding.details)
    return finding if len(text) <= longest else finding._replace(details=_digest(text))


def _digest(text: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(text).hexdigest(), "size": len(text)}


def _size(findings: Iterable[Finding]) -> int:
    """Bytes of findings in an object."""
    return sum(len(canonical(finding)) + _NAMES for finding in findings)
