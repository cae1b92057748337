"""What a poll of a node agent shows about its node; one without a usable report is not ill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical_object
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.maintenance.world import Observation, Refused, Reported, Silent
from ganeti_steward.core.model.finding import STATUSES, is_name
from ganeti_steward.core.node_agent.protocol import LONGEST_OBJECT
from ganeti_steward.plugins.maintenance.edges.answers import FORM, SIZE, RejectedAnswer

#: Why a report is refused, in addition to the words of ``plugins.maintenance.edges.answers``.
STATUS: Final = "status"

#: Characters of a sentence that came from another node.
_SENTENCE: Final = 500

#: Reasons for missing data that are named.
_REASONS: Final = 3


class Polled(NamedTuple):
    """What polling one node once has shown."""

    observation: Observation
    refused: str = ""
    """why the report was refused, in one word; empty when it was not"""


def polled(report: Mapping[str, Any], now: int) -> Polled:
    """What a checked report shows; ``now``: ns since the epoch."""
    data = report.get("data")
    if data is None:
        return Polled(Silent(now, _short(f"the agent has no data{_reasons(report)}")))
    try:
        return Polled(_reported(data, report["timestamp"]))
    except RejectedAnswer as err:
        return failed(err, now)


def failed(err: StewardError, now: int) -> Polled:
    """What a poll without a usable report shows; ``now``: ns since the epoch."""
    if isinstance(err, RejectedAnswer):
        return Polled(Refused(now, _short(str(err))), err.reason)
    return Polled(Silent(now, _short(str(err))))


def _reported(data: Mapping[str, Any], taken: int) -> Reported:
    """The report of a diagnose object; raises RejectedAnswer."""
    status, command = data["status"], data.get("command")
    if status not in STATUSES:
        raise RejectedAnswer(STATUS, f"the report has an unknown status: {describe(status)}")
    try:
        original = canonical_object(data)
    except ValueError as err:
        raise RejectedAnswer(FORM, f"the diagnose object cannot be used: {err}") from None
    if len(original) > LONGEST_OBJECT:
        fault = f"the diagnose object has {len(original)} bytes, more than {LONGEST_OBJECT}"
        raise RejectedAnswer(SIZE, fault)
    named = command if isinstance(command, str) and is_name(command) else ""
    return Reported(original, status, named, taken)


def _reasons(report: Mapping[str, Any]) -> str:
    """Why there are no data, as far as the agent gives reasons."""
    unknown = report.get("unknown")
    found = [
        f"{one.get('source')}: {one.get('reason')}"
        for one in (unknown if isinstance(unknown, list) else ())
        if isinstance(one, dict)
    ]
    # The agent's own reason comes last.
    return f" ({'; '.join(found[-_REASONS:])})" if found else ""


def _short(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _SENTENCE else f"{line[: _SENTENCE - 3]}..."


def since(before: Observation | None, now: Observation) -> Observation:
    """The new observation, silent or refused since the old one if that was of the same kind."""
    if isinstance(now, Silent) and isinstance(before, Silent):
        return now._replace(since=before.since)
    if isinstance(now, Refused) and isinstance(before, Refused):
        return now._replace(since=before.since)
    return now


def is_news(before: Observation | None, now: Observation) -> bool:
    """Whether the node shows something else than before, apart from times and reasons."""
    if isinstance(before, Reported) and isinstance(now, Reported):
        return before.object_id != now.object_id
    return type(before) is not type(now)
