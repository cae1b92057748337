"""Which records of a cluster are accepted, which are rewritten, and which are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ganeti_steward.core.json_nesting import text_member
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.rule_notes import RECORD_SOURCE
from ganeti_steward.plugins.maintenance.edges.counters import Counters
from ganeti_steward.plugins.maintenance.edges.record import read_record
from ganeti_steward.plugins.maintenance.edges.signed_record import (
    NotSigned,
    Signed,
    adopted,
    is_signed,
    open_record,
)


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

    signed: Mapping[str, Signed]
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
    texts: Mapping[str, str], key: bytes, known: Mapping[str, Signed], counters: Counters
) -> Judged:
    """Judge records, given by the uuid of their rule.

    ``key``: the cluster's; ``known``: what was accepted before, by uuid.
    """
    signed: dict[str, Signed] = {}
    rewrites: dict[str, Rewrite] = {}
    faults, ignored = [], []
    for uuid, text in sorted(texts.items()):
        before = known.get(uuid)
        try:
            if before and before.text == text:
                signed[uuid] = before
                if not is_signed(uuid, text, key):
                    why = "is signed again: the cluster's key was renewed"
                    rewrites[uuid] = _rewrite(before, why)
            else:
                signed[uuid] = _opened(uuid, text, key, counters)
        except NotSigned as err:
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
    incident = read_record(text)
    if incident.uuid != uuid:
        raise ValueError(f"it is the record of incident {incident.uuid}, copied to another rule")
    return adopted(incident, now)


def _opened(uuid: str, text: str, key: bytes, counters: Counters) -> Signed:
    found = open_record(uuid, text, key)
    if counters.is_old(uuid, found.counter):
        raise NotSigned("it is an older one, that was replaced or removed before")
    return found


def _rewrite(before: Signed, why: str) -> Rewrite:
    uuid = before.incident.uuid
    return Rewrite(before.incident, f"the record of incident {uuid} {why}")


def _fault(uuid: str, text: str, why: str) -> RecordFault:
    return RecordFault(uuid, text_member(text, "node"), f"filter rule {uuid} {why}")
