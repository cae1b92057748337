"""What happened to incidents, as entries of the audit log and lines of the log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Final, NamedTuple

from ganeti_steward.plugins.maintenance.engine.decision import Change, Decision
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.model.incident import BAD, STATES, Incident
from ganeti_steward.plugins.model.task import Held

CHANGE: Final = "change"
HELD: Final = "held"
TASK: Final = "task"

#: The state before the first one.
NEW: Final = "new"

#: Entries that the status has, the latest ones.
LATEST: Final = 500

#: The brake of an incident without progress.
_STUCK: Final = "stuck"

#: ns after which a sentence is repeated in which only numbers have changed.
_REPEAT: Final = 3600 * 10**9

_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")
_PLAIN: Final = re.compile(r"[\w.:@/+-]+")


#: Subject, brake, the sentence without its numbers, and which one it is of those that are alike.
_Key = tuple[str, str, str, int]


class AuditEntry(NamedTuple):
    """One thing that happened, or did not."""

    at: int
    """ns since the epoch"""
    kind: str
    """``change`` of an incident, ``task`` that was started, or ``held``: it was not done"""
    incident: str
    """its uuid; otherwise what it is about, as `Held.subject`: a node, ``cluster``, ..."""
    node: str
    """uuid of the incident's node; empty where there is none"""
    node_name: str
    event: str
    """what happened to the incident, the step of the task, or what held it"""
    before: str
    """the incident's state before a change; ``new``: there was none"""
    after: str
    """the incident's state after a change, which can be ``forgotten``"""
    reason: str
    """one sentence"""

    @property
    def alarming(self) -> bool:
        """Whether an admin should look at it."""
        bad = self.after in STATES and STATES[self.after].look == BAD
        return bad or (self.kind == HELD and self.event == _STUCK)

    @property
    def line(self) -> str:
        """The entry as ``key=value`` pairs on one line."""
        pairs = {"incident": self.incident, "node": self.node_name}
        if self.kind == CHANGE:
            pairs |= {"from": self.before, "to": self.after, "event": self.event}
        else:
            pairs |= {self.kind: self.event}
        return " ".join(f"{key}={_quoted(value)}" for key, value in pairs.items() if value) + (
            f" reason={json.dumps(self.reason, ensure_ascii=False)}"
        )


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class Trail:
    """Makes entries of decisions; remembers what was held before, to report it only once."""

    def __init__(self) -> None:
        self._held: dict[_Key, tuple[str, int]] = {}
        """the last sentence that became an entry, and when (ns)"""

    def entries(
        self, decision: Decision, incidents: Mapping[str, Incident], now: int
    ) -> list[AuditEntry]:
        """The entries of a decision: all changes and tasks, and what is newly held.

        ``incidents``: by uuid, as they were before the decision; ``now``: ns since the epoch.
        """
        known = {**incidents, **{incident.uuid: incident for incident in decision.records}}
        tasks = [(started.incident, started.task) for started in decision.started]
        tasks += [(started.name, started.task) for started in decision.routine]
        return [
            *(_of_change(change, now) for change in decision.changes),
            *(_entry(now, TASK, subject, known, task.step, task.reason) for subject, task in tasks),
            *(
                _entry(now, TASK, change.holding, known, f"{change.kind}-job", change.sentence)
                for change in decision.releases.changes
            ),
            *(
                _entry(now, HELD, held.subject, known, held.brake, held.sentence)
                for held in self._news(decision, now)
            ),
        ]

    def _news(self, decision: Decision, now: int) -> Iterator[Held]:
        before, self._held = self._held, {}
        for held in decision.held:
            key = self._key(held)
            last = before.get(key)
            if last is None or _differs(last, held.sentence, now):
                self._held[key] = held.sentence, now
                yield held
            else:
                self._held[key] = last

    def _key(self, held: Held) -> _Key:
        alike = held.subject, held.brake, _NUMBER.sub("0", held.sentence)
        return next(key for at in count() if (key := (*alike, at)) not in self._held)


#: What happened to an incident that is found to be in another state than was reported.
FOUND: Final = "found in its record"
#: The same of one without a record.
GONE: Final = "its record is gone"


class ReportedStates:
    """The states of incidents that were reported; finds those of which nothing was reported.

    A daemon can be ended between the record of a change and the report of it, and luxid can write a
    record without the daemon getting to know.
    """

    def __init__(self, states: Callable[[], Mapping[str, str] | None] | None) -> None:
        """``states``: uuid -> state that was reported before; what is not known now returns None.

        Without it everything that is recorded at first was reported.
        """
        self._states = states
        self._reported: dict[str, str] | None = None
        self._own: dict[str, str] = {}
        """reported by this process before the others are known"""

    def missing(self, incidents: Mapping[str, Incident], now: int) -> list[AuditEntry]:
        """The entries of changes that were not reported; ``incidents``: as they are recorded."""
        if self._reported is None:
            self._reported = self._first(incidents)
        if self._reported is None:
            return []
        return [
            *(
                _found(incident, now, self._reported.get(uuid, NEW))
                for uuid, incident in sorted(incidents.items())
                if self._reported.get(uuid) != incident.state_name
            ),
            *(
                AuditEntry(now, CHANGE, uuid, "", "", GONE, state, FORGOTTEN, "its record is gone")
                for uuid, state in sorted(self._reported.items())
                if uuid not in incidents
            ),
        ]

    def _first(self, incidents: Mapping[str, Incident]) -> dict[str, str] | None:
        if self._states is None:
            return {uuid: incident.state_name for uuid, incident in incidents.items()}
        before = self._states()
        return None if before is None else _left({**before, **self._own})

    def note(self, entries: Iterable[AuditEntry]) -> None:
        """These are reported."""
        reported = {entry.incident: entry.after for entry in entries if entry.kind == CHANGE}
        if self._reported is None:
            self._own |= reported
        else:
            self._reported = _left(self._reported | reported)


def _left(reported: Mapping[str, str]) -> dict[str, str]:
    """Those that were not forgotten."""
    return {uuid: state for uuid, state in reported.items() if state != FORGOTTEN}


def _found(incident: Incident, now: int, before: str) -> AuditEntry:
    return AuditEntry(
        now,
        CHANGE,
        incident.uuid,
        incident.node,
        incident.node_name,
        FOUND,
        before,
        incident.state_name,
        incident.note,
    )


def _differs(last: tuple[str, int], sentence: str, now: int) -> bool:
    """Whether a sentence is news of which only numbers can have changed: not for an hour."""
    before, at = last
    return now - at >= _REPEAT and sentence != before


def _of_change(change: Change, now: int) -> AuditEntry:
    incident = change.after or change.before
    return AuditEntry(
        at=now,
        kind=CHANGE,
        incident=incident.uuid if incident else "",
        node=incident.node if incident else "",
        node_name=incident.node_name if incident else "",
        event=change.event,
        before=state_before(change.before),
        after=state_after(change.after),
        reason=change.reason,
    )


def state_before(incident: Incident | None) -> str:
    """The state before a change."""
    return incident.state_name if incident else NEW


def state_after(incident: Incident | None) -> str:
    """The state after a change."""
    return incident.state_name if incident else FORGOTTEN


def _entry(
    now: int, kind: str, subject: str, known: Mapping[str, Incident], event: str, reason: str
) -> AuditEntry:
    incident = known.get(subject)
    node, name = (incident.node, incident.node_name) if incident else ("", "")
    return AuditEntry(now, kind, subject, node, name, event, "", "", reason)
