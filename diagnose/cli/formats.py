"""A run shown to people and to Nagios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.model.finding import EVACUATE, EVACUATE_FAILOVER, LIVE_REPAIR, OK, Finding
from ganeti_steward.diagnose.model.diagnosis import Diagnosis
from ganeti_steward.diagnose.model.hysteresis import Waiting
from ganeti_steward.diagnose.run.running import Run

HEADINGS: Final = ("Source", "Status", "Command", "Details")

#: Status -> exit status and word of Nagios.
_NAGIOS: Final = {
    OK: (0, "OK"),
    LIVE_REPAIR: (1, "WARNING"),
    EVACUATE: (2, "CRITICAL"),
    EVACUATE_FAILOVER: (2, "CRITICAL"),
}
NAGIOS_UNKNOWN: Final = 3

#: Sources named in a line of Nagios.
_NAMED: Final = 5


def table_rows(found: Diagnosis) -> list[tuple[str, ...]]:
    """A row for each thing that is known, waits, is unknown or does not apply."""
    rows = [_row(finding, finding.status) for finding in found.findings]
    for one in found.waiting:
        rows += [_row(finding, f"{finding.status} ({_runs(one)})") for finding in one.result]
        if not one.result:
            rows.append((one.source, f"{OK} ({_runs(one)})", "-", "-"))
    rows += [(one.source, "unknown", "-", one.reason) for one in found.unknown]
    rows += [(one.source, "not applicable", "-", one.reason) for one in found.not_applicable]
    return sorted(tuple(map(printable, row)) for row in rows)


def _row(finding: Finding, status: str) -> tuple[str, str, str, str]:
    details = "-" if finding.details is None else canonical(finding.details).decode()
    return finding.source, status, finding.command or "-", details


def _runs(waiting: Waiting) -> str:
    return f"{waiting.runs} of {waiting.needed} runs"


def nagios_line(found: Diagnosis) -> tuple[int, str]:
    """Exit status and line of the plugin protocol of Nagios.

    A node that is fine as far as anybody knows is not OK while something is unknown.
    """
    status, word = NAGIOS_UNKNOWN, "UNKNOWN"
    if found.object is not None and not (found.object["status"] == OK and found.unknown):
        status, word = _NAGIOS[found.object["status"]]
    return status, nagios_text(word, "; ".join(_nagios_parts(found)))


def nagios_text(word: str, text: str) -> str:
    """One line; what follows a bar would be taken for figures."""
    line = printable(" ".join(text.replace("|", "/").split()))
    return f"DIAGNOSE {word} - {line}"


def _nagios_parts(found: Diagnosis) -> Iterator[str]:
    if found.object is None:
        yield found.why
        return
    yield found.object["status"]
    ill = [f"{one.source} {one.status}" for one in found.findings if one.status != OK]
    if ill:
        yield _listed(ill)
    if found.unknown:
        yield "unknown: " + _listed([f"{one.source} ({one.reason})" for one in found.unknown])


def _listed(texts: list[str]) -> str:
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def verbose_lines(run: Run) -> Iterator[str]:
    """What ``--verbose`` adds: all that is no part of the object, a line for each."""
    yield from map(printable, _verbose(run))


def _verbose(run: Run) -> Iterator[str]:
    found = run.diagnosis
    for one in found.unknown:
        yield f"unknown: {one.source}: {one.reason}"
    for absent in found.not_applicable:
        yield f"not applicable: {absent.source}: {absent.reason}"
    for waiting in found.waiting:
        what = ", ".join(finding.status for finding in waiting.result) or OK
        yield f"waiting: {waiting.source}: {what}, {_runs(waiting)}"
    for source in run.sources:
        yield f"ran: {source.source}: {source.seconds:.2f} s"
