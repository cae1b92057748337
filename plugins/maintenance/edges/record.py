"""The record of an incident: JSON in the reason trail of a filter rule, signed.

Reading is strict: an incident that is understood only in part must not be acted upon.

Everybody with write access to RAPI can write, copy and edit filter rules.  Only what `open_record`
returns was written by a program that has the cluster's key, for this very rule.

Format version 1 is not signed.  Version 2 is the same JSON object with the member ``counter``, and
``hmac`` as its last member: HMAC-SHA256 over the uuid of the rule, a newline, and the text without
that member.  Its key is made from the cluster's for this purpose, so that no signature made for
another purpose fits.
"""

from __future__ import annotations

import hmac
import re
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.ganeti.signing import strict_json
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.model.finding import is_object_id
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.plugins.model.incident import (
    ACTIONS,
    MAINTENANCE,
    READY_TAG,
    STATUSES,
    Incident,
)
from ganeti_steward.plugins.model.world import diagnose_object

#: The version this module writes, and the only one it reads.
FORMAT: Final = 1
#: The member that holds it.
VERSION: Final = "version"


def write_record(incident: Incident) -> str:
    """The record of an incident: one line of ASCII of limited size, equal for equal incidents."""
    return canonical({VERSION: FORMAT, **members_of(incident)}).decode("ascii")


def members_of(incident: Incident) -> dict[str, Any]:
    """The members of a record but for its version, in limited size."""
    members: dict[str, Any] = to_json(Incident, incident.bounded(), whole=True)
    if not members["object"]:
        # The version before does not know it.
        del members["object"]
    if not incident.maintenance:
        del members["maintenance"]
    return members


def read_record(text: str) -> Incident:
    """The incident of a record; raises ValueError with one sentence."""
    try:
        data = load_json(text)
    except ValueError as err:
        raise ValueError(f"the record is not JSON: {err}") from None
    if not isinstance(data, dict):
        raise ValueError(f"the record must be an object, found {describe(data)}")
    version = data.pop(VERSION, None)
    if type(version) is not int or version < 1:
        raise ValueError(f"{describe(version)} is not the version of a record")
    if version > FORMAT:
        raise ValueError(
            f"the record has version {version}; this program reads version {FORMAT} only"
        )
    return incident_of(data)


def incident_of(members: dict[str, Any]) -> Incident:
    """The incident of the members of a record; raises ValueError with one sentence."""
    incident = from_json(Incident, members)
    for name, value, known in (
        ("status", incident.status, STATUSES),
        ("action", incident.action, ACTIONS),
    ):
        if value not in known:
            raise ValueError(f"key {name!r}: {quoted(value)} is none of {', '.join(known)}")
    if (incident.action == MAINTENANCE) != (incident.maintenance is not None):
        raise ValueError(f"key 'maintenance': the action is {incident.action}")
    if incident.object and not is_object_id(incident.object):
        raise ValueError(f"key 'object': {quoted(incident.object)} is not the hash of an object")
    # The version before wrote whole objects: their incidents stay the same.
    return incident.bounded()


#: The version of a signed record.
SIGNED_FORMAT: Final = 2

_COUNTER: Final = "counter"
_PURPOSE: Final = b"gnt-steward: the record of an incident"
_SIGNED: Final = re.compile(r'(\{.*),"hmac":"([0-9a-f]{64})"\}', re.DOTALL)
#: Counters are times in ns; JSON readers with 64 bits understand all below.
_HIGHEST: Final = 2**63


class NotSigned(ValueError):
    """A record that no program with the cluster's key has written for this rule."""


class SignedRecord(NamedTuple):
    """A record whose signature was found to be right."""

    incident: Incident
    counter: int
    """grows with each write of a record of the cluster"""
    text: str
    """as it is in the rule"""


def sign_record(incident: Incident, counter: int, key: bytes) -> str:
    """The text of a record; ``counter``: from 1, ``key``: the cluster's."""
    members = members_of(incident) | {VERSION: SIGNED_FORMAT, _COUNTER: counter}
    body = canonical(members).decode("ascii")
    return f'{body[:-1]},"hmac":"{_digest(incident.uuid, body, key)}"}}'


def is_signed(rule: str, text: str, key: bytes) -> bool:
    """Whether a program with the key has written this text for the rule with this uuid."""
    found = _SIGNED.fullmatch(text)
    return found is not None and hmac.compare_digest(_digest(rule, f"{found[1]}}}", key), found[2])


def open_record(rule: str, text: str, key: bytes) -> SignedRecord:
    """The record in the rule with this uuid.

    Raises NotSigned where it is nothing to rely on; ValueError where it is, and this program does
    not understand it.
    """
    if not is_signed(rule, text, key):
        raise NotSigned(_why_not(text))
    counter, incident = _content(text)
    if incident.uuid != rule:
        raise ValueError(f"it is signed for incident {incident.uuid}")
    return SignedRecord(incident, counter, text)


def claimed_incident(text: str) -> Incident:
    """The incident that a record claims to be, signed or not: for people, not to act upon.

    Raises ValueError with one sentence.
    """
    return _content(text)[1] if _SIGNED.fullmatch(text) else read_record(text)


def adopted(incident: Incident, now: int) -> Incident:
    """What is taken from a record that was not signed; ``now``: ns since the epoch.

    It gives no time, and nothing that a brake judges by: what had begun has to be reported again,
    and waits as if it were new, but for its jobs.  Raises ValueError where it contradicts itself.
    """
    if incident.maintenance:
        raise ValueError("a maintenance was always signed")
    if diagnose_object(incident.original).get("status") != incident.action:
        raise ValueError(f"its object does not request its action {incident.action}")
    return incident.as_not_begun()._replace(
        tag=(incident.state.result or READY_TAG) + incident.uuid,
        first_seen=min(incident.first_seen, now),
        observed_since=now,
        healthy_since=None,
        silent_since=None,
        changed=now,
        progressed=now,
        retry_at=0,
        last_task="",
        repeated=0,
        synced=(),
        off_at=0,
        confirmed_at=0,
        reported=False,
    )


def _content(text: str) -> tuple[int, Incident]:
    """Counter and incident of a text in the form of a signed record; raises ValueError."""
    members = strict_json(text)
    del members["hmac"]
    version, counter = members.pop(VERSION, None), members.pop(_COUNTER, None)
    if version != SIGNED_FORMAT:
        shown = version if type(version) is int else describe(version)
        raise ValueError(
            f"the record has version {shown}; this program reads versions up to {SIGNED_FORMAT}"
        )
    if type(counter) is not int or not 0 < counter < _HIGHEST:
        raise ValueError(f"key {_COUNTER!r}: {describe(counter)} is not expected")
    return counter, incident_of(members)


def _why_not(text: str) -> str:
    try:
        members: Any = strict_json(text)
    except ValueError as err:
        return f"it is not JSON: {err}"
    if isinstance(members, dict) and members.get(VERSION) == FORMAT:
        return "it is not signed"
    return "its signature is not made with the cluster's key for this rule"


def _digest(rule: str, body: str, key: bytes) -> str:
    own = hmac.digest(key, _PURPOSE, "sha256")
    content = f"{rule}\n{body}".encode(errors="surrogatepass")
    return hmac.digest(own, content, "sha256").hex()
