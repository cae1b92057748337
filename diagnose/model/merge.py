"""Many findings merged into the one diagnose object of a node.

``docs/reference/diagnose.md`` has the rules.

The same findings give the same bytes, in whatever order they came: a byte by byte
comparison of two objects shows one event as long as the hardware is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.finding import LIVE_REPAIR, OK, Finding, severity
from ganeti_steward.diagnose.model.budget import within_object


class Several(NamedTuple):
    """What to do where findings request different repair commands."""

    command: str = ""
    """the command that is requested instead; it reads all findings.  Empty for none"""
    status: str = LIVE_REPAIR
    """the status then; any other needs no command"""


#: No wrapper: the status is live-repair, and no command is requested.
NO_WRAPPER: Final = Several()


def consolidate(findings: Iterable[Finding], several: Several = NO_WRAPPER) -> dict[str, Any]:
    """The diagnose object: the worst status, one action, and why.

    Ok findings are left out; a finding reported twice is there once.  Details that would make the
    object too long are replaced (`ganeti_steward.diagnose.model.budget`).
    """
    ill = {canonical(finding): finding for finding in findings if finding.status != OK}
    if not ill:
        return {"status": OK}
    entries = map(_entry, within_object([ill[text] for text in sorted(ill)]))
    unique = {canonical(entry): entry for entry in entries}
    details = [unique[text] for text in sorted(unique, key=lambda t: (unique[t]["source"], t))]
    status = max((entry["status"] for entry in details), key=severity)
    found = {"status": status, "details": details}
    return found if status != LIVE_REPAIR else found | _action(details, several)


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
