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

from ganeti_steward.core.errors import Refused, StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.plugins.filters.filter_rules import CONTINUE, FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.edges.counters import Counters
from ganeti_steward.plugins.maintenance.edges.judged_records import (
    RecordFault,
    Rewrite,
    judge,
    record_in,
    with_adopted,
)
from ganeti_steward.plugins.maintenance.edges.signed_record import Signed, sign_record
from ganeti_steward.plugins.maintenance.engine.held_creations import owner_of, rules_of

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
        self._known: dict[str, Signed] = {}
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
            {uuid: one.counter for uuid, one in self._known.items()}, all_signed=not self._adopts
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

        Tried again while luxid does not answer.  `Refused`, a kind of StewardError: the record is
        as before; otherwise that is not known.
        """
        now = self._clock()
        counter = self._counters.next(now)
        signed = Signed(incident.bounded(), counter, sign_record(incident, counter, self._key()))
        rule = rule_of(signed, now)
        self._repeated(lambda: self._rules.write(rule))
        self._known[incident.uuid] = signed
        self._counters.wrote(incident.uuid, counter)
        self._hold(incident.uuid, rules_of(incident, self._clock()))

    def remove(self, uuid: str) -> None:
        """Remove the record of an incident; nothing is done when there is none."""
        # First, so that no rule is left without an incident.
        self._hold(uuid, ())
        self._repeated(lambda: self._rules.delete(uuid))
        self._known.pop(uuid, None)

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


def rule_of(signed: Signed, now: int) -> FilterRule:
    """The rule that holds a record; ``now``: ns since the epoch."""
    reason = Reason(RECORD_SOURCE, signed.text, now)
    return FilterRule(signed.incident.uuid, _PRIORITY, (_NEVER,), CONTINUE, reasons=(reason,))
