"""The records of incidents: one signed filter rule each, in Ganeti's configuration.

A rule with action CONTINUE has no effect on jobs, and the predicate is never true in addition; the
configuration is on all master candidates and survives a failover of the master.

Other users can write such rules as well.  Only what is signed, and not older than what was seen
before, becomes an incident; the rest is reported and neither acts nor holds anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from ganeti_steward.core.errors import RefusedByGaneti, StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.plugins.filters.filter_rules import FilterRule, FilterRules
from ganeti_steward.plugins.filters.rule_notes import (
    creation_rules,
    owner_of,
    record_in,
    record_rule,
    same_effect,
)
from ganeti_steward.plugins.maintenance.edges.judge import Memory, RecordFault, judge
from ganeti_steward.plugins.maintenance.edges.record import (
    SignedRecord,
    Stamp,
    open_record,
    sign_record,
)
from ganeti_steward.plugins.model.incident import LEAVING, Incident

#: How often a write is tried while luxid does not answer; a rule can be written twice.
_ATTEMPTS: Final = 3
#: How often a record is signed again where the cluster has had another job meanwhile.
_STAMPED: Final = 3


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
        clock: Callable[[], int] = time.time_ns,
        holds_creations: Callable[[], bool] = lambda: False,
    ) -> None:
        """``key``: returns the cluster's key; raises NoKey.  ``clock``: ns since the epoch.

        ``holds_creations``: whether new instances are held off nodes that are evacuated.
        """
        self._luxi, self._rules = luxi, FilterRules(luxi)
        self._key, self._clock = key, clock
        self._holds_creations = holds_creations
        self._holding: dict[str, FilterRule] = {}
        """the rules that hold creations by uuid"""
        self._unreadable: frozenset[str] = frozenset()
        """uuids of the records that hold their node"""
        self._known: dict[str, SignedRecord] = {}
        self._unanswered: dict[str, SignedRecord] = {}
        self._removed: dict[str, Stamp] = {}
        self._last_job = 0
        """the number of the last job that the cluster is known to have had"""

    @property
    def _memory(self) -> Memory:
        return Memory(self._known, self._unanswered, self._removed)

    def read_all(self, *, rewrite: bool = False) -> Records:
        """All incidents; rules of others are ignored.

        ``rewrite``: whether this is the master's daemon, which writes back what others have
        changed, and signs again what needs it.
        """
        found = self._rules.read()
        rules = {uuid: FilterRule(uuid) for uuid in found.unreadable}
        rules |= {rule.uuid: rule for rule in found.rules}
        self._holding = {rule.uuid: rule for rule in found.rules if owner_of(rule)}
        self._last_job = max([self._last_job, *(rule.watermark for rule in found.rules)])
        if rewrite:
            self._forget(self._known.keys() - rules.keys())
        claimed = {
            uuid: rule
            for uuid, rule in rules.items()
            if uuid in self._known or record_in(rule) is not None
        }
        judged = judge(claimed, self._key(), self._memory)
        self._known = dict(judged.signed)
        self._unanswered = {
            uuid: one
            for uuid, one in self._unanswered.items()
            if uuid not in self._known or self._known[uuid].stamp < one.stamp
        }
        notes = self._rewrite(judged.rewrites, rewrite=rewrite)
        if rewrite:
            notes += self._disarm(claimed[uuid] for uuid in sorted(judged.acting))
        self._unreadable = frozenset(fault.uuid for fault in judged.faults)
        return Records(
            {uuid: one.incident for uuid, one in sorted(self._known.items())},
            judged.faults,
            (*sorted(notes), *judged.ignored),
        )

    def _forget(self, uuids: Iterable[str]) -> None:
        """Note that records are gone.

        Once the cluster has had another job, their stamps alone say that they are old.
        """
        self._removed |= {uuid: self._memory.last(uuid) for uuid in [*uuids]}
        for uuid in self._removed:
            self._unanswered.pop(uuid, None)
        self._removed = {
            uuid: stamp for uuid, stamp in self._removed.items() if stamp.job >= self._last_job
        }

    def _rewrite(self, rewrites: Mapping[str, str], *, rewrite: bool) -> list[RecordFault]:
        """Write again what needs it; what people have to know of that."""
        notes = list[RecordFault]()
        for uuid, text in rewrites.items():
            incident, failed = self._known[uuid].incident, "; that waits for a won vote"
            if rewrite:
                failed = self._tried(partial(self.write, incident))
            if text:
                notes.append(RecordFault(uuid, incident.node, text + failed))
        return notes

    def _disarm(self, rules: Iterable[FilterRule]) -> list[RecordFault]:
        """Write rules of records that are ignored so that they have no effect on jobs."""
        notes = list[RecordFault]()
        for rule in rules:
            harmless = record_rule(rule.uuid, record_in(rule) or "", self._clock())
            failed = self._tried(partial(self._repeated, partial(self._rules.write, harmless)))
            text = (
                f"filter rule {rule.uuid} is written so that it has no effect on jobs: it is the "
                "record of an incident, and another user has changed what it does"
            )
            notes.append(RecordFault(rule.uuid, "", text + failed))
        return notes

    def _tried(self, call: Callable[[], object]) -> str:
        """Empty where a call has succeeded."""
        try:
            call()
        except StewardError as err:
            return f"; that failed: {err}"
        return ""

    def write(self, incident: Incident) -> None:
        """Create or replace the record of an incident.

        Tried again while luxid does not answer.  With the StewardError `RefusedByGaneti` the record
        is as before; with another one that is not known.
        """
        last = self._memory.last(incident.uuid)
        with suppress(StewardError):
            # So that the first stamp is right nearly always: to write again is dear.
            newer = self._luxi.rows("job", ("id",), [">", "id", self._last_job])
            self._last_job = max([self._last_job, *(row["id"] for row in newer)])
        self._write(sign_record(incident, last.next(self._last_job), self._key()))
        # It is written: what fails from here on is done after the next reading.
        with suppress(StewardError):
            self._sign_again(incident, last)
        self._hold(incident.uuid, rules_of(incident, self._clock()))

    def _sign_again(self, incident: Incident, last: Stamp) -> None:
        """Have the stamp of a record be the number that luxid noted when it wrote the rule.

        ``last``: the stamp of the writing before.  Where the cluster has another job in every
        moment, that is done after a later reading.
        """
        for _ in range(_STAMPED):
            watermark = self._rules.watermark(incident.uuid)
            if watermark is None or watermark == self._known[incident.uuid].stamp.job:
                return
            self._last_job = watermark
            self._write(sign_record(incident, last.next(watermark), self._key()))

    def _write(self, signed: SignedRecord) -> None:
        uuid = signed.incident.uuid
        rule = record_rule(uuid, signed.text, self._clock())
        try:
            self._repeated(partial(self._rules.write, rule))
        except RefusedByGaneti:
            raise
        except StewardError:
            self._unanswered[uuid] = signed
            raise
        self._known[uuid] = signed
        self._unanswered.pop(uuid, None)

    def confirm(self, uuid: str) -> Incident:
        """Sign a record again that may be an old one: a person says that it is the latest.

        Raises ValueError where it is not signed with the key, or not understood.
        """
        rules = {rule.uuid: rule for rule in self._rules.read().rules}
        text = record_in(rules[uuid]) if uuid in rules else None
        found = open_record(uuid, text or "", self._key())
        self._known[uuid] = found
        self.write(resumed(found.incident, self._clock()))
        return found.incident

    def remove(self, uuid: str) -> None:
        """Remove the record of an incident; nothing is done when there is none."""
        # First, so that no rule is left without an incident.
        self._hold(uuid, ())
        self._repeated(lambda: self._rules.delete(uuid))
        self._forget([uuid])
        self._known.pop(uuid, None)

    def reconcile(self, incidents: Mapping[str, Incident]) -> None:
        """Have exactly the rules that hold creations exist which the incidents (by uuid) need.

        Records and rules can be deleted and changed by others, and the configuration can change;
        the rules of a record that cannot be read stay.
        """
        owners = {owner_of(rule) for rule in self._holding.values()}
        for uuid in sorted({*owners, *incidents} - self._unreadable):
            wanted = rules_of(incidents[uuid], self._clock()) if uuid in incidents else ()
            self._hold(uuid, wanted)

    def _hold(self, incident: str, wanted: Sequence[FilterRule]) -> None:
        """Have these rules that hold creations, and no others, exist for an incident."""
        rules = {rule.uuid: rule for rule in wanted} if self._holds_creations() else {}
        there = {uuid for uuid, rule in self._holding.items() if owner_of(rule) == incident}
        for uuid in sorted(there - set(rules)):
            self._repeated(partial(self._rules.delete, uuid))
            del self._holding[uuid]
        for uuid, rule in sorted(rules.items()):
            if uuid not in there or not same_effect(self._holding[uuid], rule):
                self._repeated(partial(self._rules.write, rule))
                self._holding[uuid] = rule

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


def resumed(incident: Incident, now: int) -> Incident:
    """An incident that was ignored for a while: what has to last begins to last again.

    ``now``: ns since the epoch.
    """
    silent = now if incident.healthy_since is not None else None
    return incident._replace(observed_since=now, silent_since=silent)


def rules_of(incident: Incident, now: int) -> tuple[FilterRule, ...]:
    """The rules that must exist beside an incident's record; ``now``: ns since the epoch."""
    if not incident.state.under_repair or incident.action not in LEAVING:
        return ()
    return creation_rules(incident.uuid, incident.node_name, now)
