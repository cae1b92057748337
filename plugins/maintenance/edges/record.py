"""The record of an incident: JSON in the reason trail of a filter rule, signed.

Reading is strict, since an incident that is understood only in part must not be acted upon.  Only
members of the record itself that this version does not know are kept and written back: another
master candidate may have a newer version, which gives records another number where an older one
must not act upon them.

Any user with write access to RAPI can write, copy and edit filter rules.  Only what `open_record`
returns was written by a program that has the cluster's key, for this very rule.

The text is a JSON object with the member ``hmac`` as its last one: HMAC-SHA256 over the uuid of the
rule, a newline, and the text without that member.  Its key is made from the cluster's for this
purpose, so that no signature made for another purpose fits.

A record that was replaced or removed is signed as well.  Its `Stamp` has the number of the
cluster's last job when it was signed.  Whenever luxid writes a rule it notes the number of the last
job in it, the watermark, which no caller can choose (``ReplaceFilter`` in Ganeti's
``Query/Server.hs``).  So an old record that is written back has a watermark that its stamp does
not have, as soon as the cluster has had another job.
"""

from __future__ import annotations

import hmac
import re
from typing import Any, Final, NamedTuple

from ganeti_steward.core.canonical_json import canonical, canonical_object
from ganeti_steward.core.ganeti.signing import strict_json
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.model.finding import is_object_id
from ganeti_steward.core.typed_json import from_json, to_json
from ganeti_steward.plugins.model.incident import (
    ACTIONS,
    MAINTENANCE,
    STATUSES,
    Incident,
)

#: The version this module writes, and the only one it reads.
FORMAT: Final = 1
#: The member that holds it.
VERSION: Final = "version"


#: The member of an incident with what is not known here, and the names of all that are.
_FOREIGN: Final = "foreign"
_KNOWN: Final = frozenset(Incident._fields) - {_FOREIGN}

#: Members that say which writing of a record it is, and what signs it.
_WRITES: Final = "writes"
_JOB: Final = "job"
_HMAC: Final = "hmac"


def write_record(incident: Incident) -> str:
    """The record of an incident without stamp and signature, as the audit log keeps it.

    One line of ASCII of limited size, equal for equal incidents.
    """
    return canonical(_members(incident.bounded())).decode("ascii")


def _members(incident: Incident) -> dict[str, Any]:
    members: dict[str, Any] = to_json(Incident, incident, whole=True)
    return {**members.pop(_FOREIGN), VERSION: FORMAT, **members}


def read_record(text: str) -> Incident:
    """The incident that a record claims to be, signed or not: for people, not to act upon.

    Raises ValueError with one sentence.
    """
    members = _object(text)
    for name in (_WRITES, _JOB, _HMAC):
        members.pop(name, None)
    return _incident_of(members)


def _object(text: str) -> dict[str, Any]:
    try:
        data = load_json(text)
    except ValueError as err:
        raise ValueError(f"the record is not JSON: {err}") from None
    if not isinstance(data, dict):
        raise ValueError(f"the record must be an object, found {describe(data)}")
    return data


def _incident_of(members: dict[str, Any]) -> Incident:
    """The incident of the members of a record; raises ValueError with one sentence."""
    version = members.pop(VERSION, None)
    if type(version) is not int or version < 1:
        raise ValueError(f"{describe(version)} is not the version of a record")
    if version > FORMAT:
        raise ValueError(
            f"the record has version {version}; this program reads version {FORMAT} only"
        )
    foreign = {name: members.pop(name) for name in members.keys() - _KNOWN}
    incident = from_json(Incident, members)._replace(foreign=canonical_object(foreign))
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
    return incident


_PURPOSE: Final = b"gnt-steward: the record of an incident"
_SIGNED: Final = re.compile(r'(\{.*),"hmac":"([0-9a-f]{64})"\}', re.DOTALL)
#: JSON readers with 64 bits understand all below.
_HIGHEST: Final = 2**63


class Stamp(NamedTuple):
    """Which writing of a record it is; of two of one record the greater is the later one."""

    writes: int
    """how many times the record was written, from 1"""
    job: int
    """the number of the cluster's last job when it was signed; 0: it had none"""

    def next(self, job: int) -> Stamp:
        """That of the next writing; ``job``: the number of the last job by now."""
        return Stamp(min(self.writes + 1, _HIGHEST - 1), job)


#: Before the first writing.
UNWRITTEN: Final = Stamp(0, 0)


class NotSigned(ValueError):
    """A record that no program with the cluster's key has written for this rule."""


class SignedRecord(NamedTuple):
    """A record whose signature was found to be right."""

    incident: Incident
    stamp: Stamp
    text: str
    """as it is in the rule"""


def sign_record(incident: Incident, stamp: Stamp, key: bytes) -> SignedRecord:
    """The record of an incident; ``key``: the cluster's."""
    bounded = incident.bounded()
    members = _members(bounded) | {_WRITES: stamp.writes, _JOB: stamp.job}
    body = canonical(members).decode("ascii")
    text = f'{body[:-1]},"{_HMAC}":"{_digest(incident.uuid, body, key)}"}}'
    return SignedRecord(bounded, stamp, text)


def is_signed(rule: str, text: str, key: bytes) -> bool:
    """Whether a program with the key has written this text for the rule with this uuid."""
    found = _SIGNED.fullmatch(text)
    return found is not None and hmac.compare_digest(_digest(rule, f"{found[1]}}}", key), found[2])


def stamp_of(rule: str, text: str, key: bytes) -> Stamp:
    """The stamp of the record in the rule with this uuid, whichever version wrote it.

    Raises NotSigned where it is nothing to rely on; ValueError where it is, and has no stamp that
    this program understands.
    """
    if not is_signed(rule, text, key):
        raise NotSigned(_why_not(text))
    return _stamp(strict_json(text))


def open_record(rule: str, text: str, key: bytes) -> SignedRecord:
    """The record in the rule with this uuid.

    Raises NotSigned where it is nothing to rely on; ValueError where it is, and this program does
    not understand it.
    """
    stamp = stamp_of(rule, text, key)
    incident = read_record(text)
    if incident.uuid != rule:
        raise ValueError(f"it is signed for incident {incident.uuid}")
    return SignedRecord(incident, stamp, text)


def _stamp(members: dict[str, Any]) -> Stamp:
    writes, job = members.get(_WRITES), members.get(_JOB)
    for name, value, least in ((_WRITES, writes, 1), (_JOB, job, 0)):
        if type(value) is not int or not least <= value < _HIGHEST:
            raise ValueError(f"key {name!r}: {describe(value)} is not expected")
    return Stamp(members[_WRITES], members[_JOB])


def _why_not(text: str) -> str:
    try:
        members: Any = strict_json(text)
    except ValueError as err:
        return f"it is not JSON: {err}"
    if isinstance(members, dict) and _HMAC not in members:
        return "it is not signed"
    return "its signature is not made with the cluster's key for this rule"


def _digest(rule: str, body: str, key: bytes) -> str:
    own = hmac.digest(key, _PURPOSE, "sha256")
    content = f"{rule}\n{body}".encode(errors="surrogatepass")
    return hmac.digest(own, content, "sha256").hex()
