"""The records of incidents: one filter rule each, in Ganeti's configuration.

A rule with action CONTINUE has no effect on jobs, and the predicate is never true in addition; the
configuration is on all master candidates and survives a failover of the master.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.filter_rules import CONTINUE, FilterRule, FilterRules
from ganeti_steward.core.ganeti.luxi import Luxi, Refused
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_nesting import text_member
from ganeti_steward.core.maintenance.incident import RECORD_SOURCE, Incident
from ganeti_steward.plugins.maintenance.edges.record import read_record, write_record
from ganeti_steward.plugins.maintenance.engine.held_creations import owner_of, rules_of

#: True for no job: their numbers start with 1.
_NEVER: Final = ["jobid", ["<", "id", 0]]
#: After all rules that have an effect, for people who read the list.
_PRIORITY: Final = 1000
#: How often a write is tried while luxid does not answer; a rule can be written twice.
_ATTEMPTS: Final = 3


class RecordFault(NamedTuple):
    """A record that cannot be read; the node that it names must not be touched."""

    uuid: str
    """of the rule, which is the incident's"""
    node: str
    """uuid of the node; empty where it names none: then it stands for nothing"""
    text: str
    """one sentence"""


class Records(NamedTuple):
    """All records of a cluster."""

    incidents: Mapping[str, Incident]
    """uuid -> incident"""
    faults: tuple[RecordFault, ...]
    """what could not be read, by uuid"""


class Store:
    """Reads and writes the records of one cluster; every call raises StewardError."""

    def __init__(
        self,
        luxi: Luxi,
        *,
        clock: Callable[[], int] = time.time_ns,
        holds_creations: Callable[[], bool] = lambda: False,
    ) -> None:
        """``clock``: ns since the epoch.

        ``holds_creations``: whether new instances are held off nodes that are evacuated.
        """
        self._rules = FilterRules(luxi)
        self._clock = clock
        self._holds_creations = holds_creations
        self._holding: dict[str, str] = {}
        """uuid of a rule that holds creations -> the incident it belongs to"""
        self._unreadable: frozenset[str] = frozenset()
        """uuids of the records that could not be read"""

    def read_all(self) -> Records:
        """All incidents; rules of others are ignored."""
        incidents, faults = {}, []
        rules = self._rules.read().rules
        self._holding = {rule.uuid: owner for rule in rules if (owner := owner_of(rule))}
        for rule in rules:
            try:
                incident = incident_of(rule)
            except ValueError as err:
                faults.append(_fault(rule, str(err)))
                continue
            if incident is not None:
                incidents[incident.uuid] = incident
        self._unreadable = frozenset(fault.uuid for fault in faults)
        return Records(incidents, tuple(sorted(faults)))

    def write(self, incident: Incident) -> None:
        """Create or replace the record of an incident.

        Tried again while luxid does not answer.  `Refused`, a kind of StewardError: the record is
        as before; otherwise that is not known.
        """
        rule = rule_of(incident, self._clock())
        self._repeated(lambda: self._rules.write(rule))
        self._hold(incident.uuid, rules_of(incident, self._clock()))

    def remove(self, uuid: str) -> None:
        """Remove the record of an incident; nothing is done when there is none."""
        # First, so that no rule is left without an incident.
        self._hold(uuid, ())
        self._repeated(lambda: self._rules.delete(uuid))

    def reconcile(self, incidents: Mapping[str, Incident]) -> None:
        """Have exactly the rules that hold creations exist which the incidents (by uuid) need.

        Records and rules can be deleted by others, and the configuration can change; the rules of
        a record that cannot be read stay.
        """
        for uuid in sorted({*self._holding.values(), *incidents} - self._unreadable):
            wanted = rules_of(incidents[uuid], self._clock()) if uuid in incidents else ()
            self._hold(uuid, wanted)

    def _hold(self, incident: str, wanted: Sequence[FilterRule]) -> None:
        """Have these rules that hold creations, and no others, exist for an incident."""
        rules = {rule.uuid: rule for rule in wanted} if self._holds_creations() else {}
        there = {uuid for uuid, owner in self._holding.items() if owner == incident}
        for uuid in sorted(there - set(rules)):
            self._repeated(partial(self._rules.delete, uuid))
            del self._holding[uuid]
        for uuid in sorted(set(rules) - there):
            self._repeated(partial(self._rules.write, rules[uuid]))
            self._holding[uuid] = incident

    def _repeated(self, call: Callable[[], object]) -> None:
        for left in reversed(range(_ATTEMPTS)):
            try:
                call()
                return
            except Refused:
                raise
            except StewardError:
                if not left:
                    raise


def rule_of(incident: Incident, now: int) -> FilterRule:
    """The rule that holds the record of an incident; ``now``: ns since the epoch."""
    reason = Reason(RECORD_SOURCE, write_record(incident), now)
    return FilterRule(incident.uuid, _PRIORITY, (_NEVER,), CONTINUE, reasons=(reason,))


def incident_of(rule: FilterRule) -> Incident | None:
    """The incident of a rule; None when the rule belongs to others, ValueError with a fault."""
    text = _record(rule)
    if text is None:
        return None
    incident = read_record(text)
    if incident.uuid != rule.uuid:
        raise ValueError(f"it is the record of incident {incident.uuid}, copied to another rule")
    return incident


def _record(rule: FilterRule) -> str | None:
    return next((reason.text for reason in rule.reasons if reason.source == RECORD_SOURCE), None)


def _fault(rule: FilterRule, text: str) -> RecordFault:
    sentence = f"filter rule {rule.uuid} is not the record of an incident: {text}"
    return RecordFault(rule.uuid, text_member(_record(rule) or "", "node"), sentence)
