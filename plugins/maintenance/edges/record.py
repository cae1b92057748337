"""The record of an incident: JSON, format version 1, in the reason trail of a filter rule.

Reading is strict: an incident that is understood only in part must not be acted upon.
"""

from __future__ import annotations

from typing import Any, Final

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.maintenance.incident import STATUSES, Incident
from ganeti_steward.core.maintenance.kept_object import is_object_id
from ganeti_steward.core.model.finding import STATUSES as ACTIONS
from ganeti_steward.core.typed_json import from_json, to_json

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
    if incident.object and not is_object_id(incident.object):
        raise ValueError(f"key 'object': {quoted(incident.object)} is not the hash of an object")
    # The version before wrote whole objects: their incidents stay the same.
    return incident.bounded()
