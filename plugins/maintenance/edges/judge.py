"""Which filter rules are records of incidents, and what must be written again; does no I/O.

Any user who may write filter rules can write such rules as well.  Only what is signed, and is not
older than what was known or may be, becomes an incident.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.rule_notes import record_in, record_rule, same_effect
from ganeti_steward.plugins.maintenance.edges import record
from ganeti_steward.plugins.maintenance.edges.record import UNWRITTEN, SignedRecord, Stamp
from ganeti_steward.plugins.texts import text_member


class RecordFault(NamedTuple):
    """Something about a record that people have to know."""

    uuid: str
    """of the rule, which is the incident's"""
    node: str
    """uuid of the node; empty when not even that can be read"""
    text: str
    """one sentence"""


class Memory(NamedTuple):
    """What a process knows of the records, by the uuid of their rule."""

    known: Mapping[str, SignedRecord] = MappingProxyType({})
    """as they were last accepted or written"""
    unanswered: Mapping[str, SignedRecord] = MappingProxyType({})
    """what may have been written: luxid has not answered"""
    removed: Mapping[str, Stamp] = MappingProxyType({})
    """the stamps of those that are gone"""

    def last(self, uuid: str) -> Stamp:
        """The stamp of the latest writing of a record."""
        written = [one[uuid].stamp for one in (self.known, self.unanswered) if uuid in one]
        return max([*written, self.removed.get(uuid, UNWRITTEN)])


#: A process that has just begun.
NOTHING: Final = Memory()


class Judged(NamedTuple):
    """What is to be made of the rules that claim to be records."""

    signed: Mapping[str, SignedRecord]
    """uuid -> what is accepted"""
    rewrites: Mapping[str, str]
    """uuid in ``signed`` -> why it must be written again, one sentence; empty: for its stamp"""
    acting: frozenset[str]
    """uuids of rules with another signed record that must be written so that they have no effect"""
    unconfirmed: frozenset[str]
    """uuids of what is signed, and ignored because it may be an old record"""
    faults: tuple[RecordFault, ...]
    """signed, but not understood: nothing may be done to their nodes"""
    ignored: tuple[RecordFault, ...]
    """what is ignored"""


class _Unconfirmed(record.NotSigned):
    """A record that is signed, and may be an old one."""


def judge(rules: Mapping[str, FilterRule], key: bytes, memory: Memory = NOTHING) -> Judged:
    """Judge the rules that claim to be records, or were; ``key``: the cluster's."""
    signed: dict[str, SignedRecord] = {}
    rewrites: dict[str, str] = {}
    acting, unconfirmed = set[str](), set[str]()
    faults, ignored = list[RecordFault](), list[RecordFault]()
    for uuid, rule in sorted(rules.items()):
        before, text, why = memory.known.get(uuid), record_in(rule) or "", None
        try:
            signed[uuid] = _accepted(rule, text, key, memory)
            why = _to_be_written(rule, signed[uuid], key)
        except record.NotSigned as err:
            if before:
                why = f"is written back as it was, because another user has changed it: {err}"
                signed[uuid] = before
            else:
                what = "is ignored, though it looks like an incident"
                ignored.append(_fault(uuid, text, f"{what}: {err}"))
                unconfirmed |= {uuid} if isinstance(err, _Unconfirmed) else set()
        except ValueError as err:
            what = "is the record of an incident, but not understood"
            faults.append(_fault(uuid, text, f"{what}: {err}"))
        if uuid in signed and why is not None:
            rewrites[uuid] = f"the record of incident {uuid} {why}" if why else ""
        elif uuid not in signed and _acts(rule, text, key):
            acting.add(uuid)
    return Judged(
        signed, rewrites, frozenset(acting), frozenset(unconfirmed), tuple(faults), tuple(ignored)
    )


def _accepted(rule: FilterRule, text: str, key: bytes, memory: Memory) -> SignedRecord:
    """The record of a rule.

    Raises NotSigned where it must be ignored, or written back; ValueError where it is signed and
    not understood.
    """
    before, own = memory.known.get(rule.uuid), memory.unanswered.get(rule.uuid)
    if before and before.text == text:
        return before
    stamp = record.stamp_of(rule.uuid, text, key)
    if stamp <= memory._replace(unanswered={}).last(rule.uuid):
        raise record.NotSigned("it is an older one, that was replaced or removed before")
    # What is later than the one that is known was written since that was read.
    certain = before or (own and own.text == text)
    if not certain and stamp.job != rule.watermark:
        raise _Unconfirmed(
            f"it was signed when the last job was {stamp.job}, and written when that was "
            f"{rule.watermark}, so another user may have put an old one back; nothing is begun for "
            "it until root on the master says that it is the latest one (gnt-steward incident "
            f"confirm {rule.uuid}); otherwise it can be deleted (gnt-filter delete {rule.uuid})"
        )
    return record.open_record(rule.uuid, text, key)


def _to_be_written(rule: FilterRule, found: SignedRecord, key: bytes) -> str | None:
    """Why an accepted record must be written again; None: it need not, empty: for its stamp."""
    if not record.is_signed(rule.uuid, found.text, key):
        return "is signed again: the cluster's key was renewed"
    if not same_effect(rule, record_rule(rule.uuid, found.text, 0)):
        return "is written back, because another user has changed what its filter rule does"
    return None if found.stamp.job == rule.watermark else ""


def _acts(rule: FilterRule, text: str, key: bytes) -> bool:
    """Whether a rule with a signed text is not what a record must be."""
    signed = record.is_signed(rule.uuid, text, key)
    return signed and not same_effect(rule, record_rule(rule.uuid, text, 0))


def _fault(uuid: str, text: str, why: str) -> RecordFault:
    return RecordFault(uuid, text_member(text, "node"), f"filter rule {uuid} {why}")
