"""The records of incidents: one signed filter rule each, in Ganeti's configuration.

A rule with action CONTINUE has no effect on jobs, and the predicate is never true in addition; the
configuration is on all master candidates and survives a failover of the master.

Others can write such rules as well.  Only what is signed, and not older than what was seen before,
becomes an incident; the rest is reported and neither acts nor holds anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from ganeti_steward.core.errors import RefusedByGaneti, StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.model.finding import EVACUATE, EVACUATE_FAILOVER
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, PAUSE, FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.edges import record
from ganeti_steward.plugins.maintenance.edges.counters import Counters
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.texts import text_member


class RecordFault(NamedTuple):
    """Something about a record that people have to know."""

    uuid: str
    """of the rule, which is the incident's"""
    node: str
    """uuid of the node; empty when not even that can be read"""
    text: str
    """one sentence"""


class Rewrite(NamedTuple):
    """A record that is to be written again."""

    incident: Incident
    text: str
    """why, one sentence"""


class Judged(NamedTuple):
    """What is to be made of the records of a cluster."""

    signed: Mapping[str, record.SignedRecord]
    """uuid -> what is accepted"""
    rewrites: Mapping[str, Rewrite]
    """uuid -> what is to be written again"""
    faults: tuple[RecordFault, ...]
    """signed, but not understood: nothing may be done to their nodes"""
    ignored: tuple[RecordFault, ...]
    """what is ignored"""


def record_in(rule: FilterRule) -> str | None:
    """The text of the record that a rule claims to be; None for any other rule."""
    return next((reason.text for reason in rule.reasons if reason.source == RECORD_SOURCE), None)


def judge(
    texts: Mapping[str, str],
    key: bytes,
    known: Mapping[str, record.SignedRecord],
    counters: Counters,
) -> Judged:
    """Judge records, given by the uuid of their rule.

    ``key``: the cluster's; ``known``: what was accepted before, by uuid.
    """
    signed: dict[str, record.SignedRecord] = {}
    rewrites: dict[str, Rewrite] = {}
    faults, ignored = [], []
    for uuid, text in sorted(texts.items()):
        before = known.get(uuid)
        try:
            if before and before.text == text:
                signed[uuid] = before
                if not record.is_signed(uuid, text, key):
                    why = "is signed again: the cluster's key was renewed"
                    rewrites[uuid] = _rewrite(before, why)
            else:
                signed[uuid] = _opened(uuid, text, key, counters)
        except record.NotSigned as err:
            if before:
                why = f"is written back as it was, for others have changed it: {err}"
                signed[uuid], rewrites[uuid] = before, _rewrite(before, why)
            else:
                why = f"is ignored, though it looks like an incident: {err}"
                ignored.append(_fault(uuid, text, why))
        except ValueError as err:
            why = f"is the record of an incident, but not understood: {err}"
            faults.append(_fault(uuid, text, why))
    return Judged(signed, rewrites, tuple(faults), tuple(ignored))


def with_adopted(judged: Judged, texts: Mapping[str, str], now: int) -> Judged:
    """Records of the version before, which did not sign, are to be signed, not ignored.

    ``now``: ns since the epoch.
    """
    rewrites, ignored = dict(judged.rewrites), []
    for one in judged.ignored:
        try:
            incident = _unsigned_incident(one.uuid, texts[one.uuid], now)
        except ValueError:
            ignored.append(one)
            continue
        sentence = (
            f"the record of incident {one.uuid}, written by the version before, is signed now and "
            "counts as reported since now"
        )
        rewrites[one.uuid] = Rewrite(incident, sentence)
    return judged._replace(rewrites=rewrites, ignored=tuple(ignored))


def _unsigned_incident(uuid: str, text: str, now: int) -> Incident:
    """What is taken from a record of the version before, see `adopted`; raises ValueError."""
    incident = record.read_record(text)
    if incident.uuid != uuid:
        raise ValueError(f"it is the record of incident {incident.uuid}, copied to another rule")
    return record.adopted(incident, now)


def _opened(uuid: str, text: str, key: bytes, counters: Counters) -> record.SignedRecord:
    found = record.open_record(uuid, text, key)
    if counters.is_old(uuid, found.counter):
        raise record.NotSigned("it is an older one, that was replaced or removed before")
    return found


def _rewrite(before: record.SignedRecord, why: str) -> Rewrite:
    uuid = before.incident.uuid
    return Rewrite(before.incident, f"the record of incident {uuid} {why}")


def _fault(uuid: str, text: str, why: str) -> RecordFault:
    return RecordFault(uuid, text_member(text, "node"), f"filter rule {uuid} {why}")


#: True for no job: their numbers start with 1.
_NEVER: Final = ["jobid", ["<", "id", 0]]
#: After all rules that have an effect, for people who read the list.
_PRIORITY: Final = 1000
#: How often a write is tried while luxid does not answer; a rule can be written twice.
_ATTEMPTS: Final = 3


class Records(NamedTuple):
    """All records of a cluster."""

    incidents: Mapping[str, Incident] = MappingProxyType({})
    """uuid -> incident; each was signed with the cluster's key"""
    faults: tuple[RecordFault, ...] = ()
    """what cannot be read and stands for something, by uuid: nothing is done to its node"""
    notes: tuple[RecordFault, ...] = ()
    """what was rewritten, then what is ignored, each by uuid"""


class Store:
    """Reads and writes the records of one cluster; every call raises StewardError."""

    def __init__(
        self,
        luxi: Luxi,
        key: Callable[[], bytes],
        *,
        counters: Counters | None = None,
        clock: Callable[[], int] = time.time_ns,
        holds_creations: Callable[[], bool] = lambda: False,
    ) -> None:
        """``key``: returns the cluster's key; raises NoKey.  ``clock``: ns since the epoch.

        ``counters``: what this machine knows of them; None: nothing.

        ``holds_creations``: whether new instances are held off nodes that are evacuated.
        """
        self._rules = FilterRules(luxi)
        self._key, self._clock = key, clock
        self._counters = counters or Counters()
        self._holds_creations = holds_creations
        self._holding: dict[str, str] = {}
        """uuid of a rule that holds creations -> the incident it belongs to"""
        self._unreadable: frozenset[str] = frozenset()
        """uuids of the records that hold their node"""
        self._known: dict[str, record.SignedRecord] = {}
        """uuid -> the record as it was last read or written"""
        self._adopts: bool | None = None
        """whether records that are not signed are those of the version before; None: not known"""

    def read_all(self, *, rewrite: bool = False) -> Records:
        """All incidents; rules of others are ignored.

        ``rewrite``: whether this is the master's daemon, which signs what is to be signed, and
        writes back what others have changed.
        """
        found = self._rules.read()
        self._holding = {rule.uuid: owner for rule in found.rules if (owner := owner_of(rule))}
        texts = {rule.uuid: text for rule in found.rules if (text := record_in(rule)) is not None}
        # A rule may not look like a record any more.
        there = {*(rule.uuid for rule in found.rules), *found.unreadable}
        texts |= dict.fromkeys((self._known.keys() & there) - texts.keys(), "")
        judged = judge(texts, self._key(), self._known, self._counters)
        if self._adopts is None:
            self._adopts = not (judged.signed or judged.faults or self._counters.all_signed)
        if self._adopts:
            judged = with_adopted(judged, texts, self._clock())
        self._known = dict(judged.signed)
        notes, faults = self._rewrite(judged.rewrites, rewrite=rewrite)
        if rewrite and not faults:
            self._adopts = False
        faults += judged.faults
        self._counters.note(
            {uuid: one.counter for uuid, one in self._known.items()},
            all_signed=not self._adopts,
            master=rewrite,
        )
        self._unreadable = frozenset(fault.uuid for fault in faults)
        return Records(
            {uuid: one.incident for uuid, one in sorted(self._known.items())},
            tuple(sorted(faults)),
            (*sorted(notes), *judged.ignored),
        )

    def _rewrite(
        self, rewrites: Mapping[str, Rewrite], *, rewrite: bool
    ) -> tuple[list[RecordFault], list[RecordFault]]:
        """Write what is to be written again; what was done, and what holds its node meanwhile."""
        notes: list[RecordFault] = []
        faults: list[RecordFault] = []
        for uuid, one in rewrites.items():
            failed = "that waits for a won vote"
            if rewrite:
                try:
                    self.write(one.incident)
                    failed = ""
                except StewardError as err:
                    failed = f"that failed: {err}"
            text = f"{one.text}; {failed}" if failed else one.text
            fault = RecordFault(uuid, one.incident.node, text)
            (notes if uuid in self._known else faults).append(fault)
        return notes, faults

    def write(self, incident: Incident) -> None:
        """Create or replace the record of an incident.

        Tried again while luxid does not answer.  With the StewardError `RefusedByGaneti` the record
        is as before; with another one that is not known.
        """
        now = self._clock()
        counter = self._counters.next(now)
        signed = record.SignedRecord(
            incident.bounded(), counter, record.sign_record(incident, counter, self._key())
        )
        rule = rule_of(signed, now)
        try:
            self._repeated(lambda: self._rules.write(rule))
        except RefusedByGaneti:
            raise
        except StewardError:
            self._counters.not_answered(incident.uuid, counter)
            raise
        self._known[incident.uuid] = signed
        self._counters.wrote(incident.uuid, counter)
        self._hold(incident.uuid, rules_of(incident, self._clock()))

    def remove(self, uuid: str) -> None:
        """Remove the record of an incident; nothing is done when there is none."""
        # First, so that no rule is left without an incident.
        self._hold(uuid, ())
        self._repeated(lambda: self._rules.delete(uuid))
        self._known.pop(uuid, None)
        self._counters.removed(uuid)

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
            except RefusedByGaneti:
                raise
            except StewardError:
                if not left:
                    raise


def rule_of(signed: record.SignedRecord, now: int) -> FilterRule:
    """The rule that holds a record; ``now``: ns since the epoch."""
    reason = Reason(RECORD_SOURCE, signed.text, now)
    return FilterRule(signed.incident.uuid, _PRIORITY, (_NEVER,), CONTINUE, reasons=(reason,))


#: The source in the reason trail of such a rule; the text is the incident's uuid.
CREATION_SOURCE: Final = "maintd:held-creations"
#: After the rules that recipes write by default, and before their limits.
_CREATION_PRIORITY: Final = 90
#: Parameters that name the node of a new instance.  One rule each: luxid does not match an opcode
#: on which a parameter of the expression is not set.
_CREATION_FIELDS: Final = ("pnode", "snode")


def rules_of(incident: Incident, now: int) -> tuple[FilterRule, ...]:
    """The rules that are to exist for an incident; ``now``: ns since the epoch."""
    if not incident.state.under_repair or incident.action not in (EVACUATE, EVACUATE_FAILOVER):
        return ()
    reason = Reason(CREATION_SOURCE, incident.uuid, now)
    return tuple(
        FilterRule(
            str(uuid5(NAMESPACE_URL, f"{incident.uuid} {field}")),
            _CREATION_PRIORITY,
            (["opcode", _creation_on(field, incident.node_name)],),
            PAUSE,
            reasons=(reason,),
        )
        for field in _CREATION_FIELDS
    )


def _creation_on(field: str, node: str) -> list[object]:
    return ["&", ["=", "OP_ID", "OP_INSTANCE_CREATE"], ["=", field, node]]


def owner_of(rule: FilterRule) -> str:
    """The uuid of the incident a rule belongs to; empty for a rule of others."""
    found = (reason.text for reason in rule.reasons if reason.source == CREATION_SOURCE)
    return next(found, "")
