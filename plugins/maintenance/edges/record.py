"""The record of an incident: JSON, format version 1, in the reason trail of a filter rule.

Reading is strict: an incident that is understood only in part must not be acted upon.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.maintenance.incident import STATUSES, Incident
from ganeti_steward.core.model.finding import STATUSES as ACTIONS

#: The version this module writes, and the only one it reads.
FORMAT: Final = 1
#: The member that holds it.
VERSION: Final = "version"

_Reader = Callable[[Any], Any]


def write_record(incident: Incident) -> str:
    """The record of an incident: one line of ASCII, the same for equal incidents."""
    return canonical({VERSION: FORMAT, **_object(incident)}).decode("ascii")


def read_record(text: str) -> Incident:
    """The incident of a record; raises ValueError with one sentence."""
    data = _parsed(text)
    version = data.pop(VERSION, None)
    if type(version) is not int or version < 1:
        raise ValueError(f"{describe(version)} is not the version of a record")
    if version > FORMAT:
        raise ValueError(
            f"the record has version {version}; this program reads version {FORMAT} only"
        )
    incident: Incident = _tuple(Incident)(data)
    for name, value, known in (
        ("status", incident.status, STATUSES),
        ("action", incident.action, ACTIONS),
    ):
        if value not in known:
            raise ValueError(f"key {name!r}: {quoted(value)} is none of {', '.join(known)}")
    return incident


def node_of(text: str) -> str:
    """The uuid of the node in a record that may be unreadable otherwise; empty without one."""
    try:
        node = _parsed(text).get("node")
    except ValueError:
        return ""
    return node if isinstance(node, str) else ""


def _parsed(text: str) -> dict[str, Any]:
    try:
        # A number that is none must not hide whose record it is; `canonical` refuses it later.
        data = load_json(text, read_real=float, read_constant=float)
    except ValueError as err:
        raise ValueError(f"the record is not JSON: {err}") from None
    if not isinstance(data, dict):
        raise ValueError(f"the record must be an object, found {describe(data)}")
    return data


def _object(value: Any) -> dict[str, Any]:
    return {name: _written(getattr(value, name)) for name in value._fields}


def _written(value: Any) -> Any:
    if isinstance(value, bytes):
        return load_json(value)
    if hasattr(value, "_fields"):
        return _object(value)
    return [_written(one) for one in value] if isinstance(value, tuple) else value


# Readers are made from the types of the fields, so that a new field is declared in one place.


@cache
def _tuple(kind: Any) -> _Reader:
    """Reads an object into a NamedTuple; members with a default may be missing."""
    hints = get_type_hints(kind)
    readers = {name: _reader(hints[name]) for name in kind._fields}
    required = readers.keys() - kind._field_defaults.keys()

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValueError(f"an object is expected, found {describe(data)}")
        if missing := required - data.keys():
            raise ValueError(f"key {min(missing)!r} is missing")
        if unknown := data.keys() - readers.keys():
            raise ValueError(f"key {quoted(min(unknown))} is unknown")
        return kind(**{name: _member(name, readers[name], data[name]) for name in data})

    return read


def _member(name: str, read: _Reader, value: Any) -> Any:
    try:
        return read(value)
    except ValueError as err:
        raise ValueError(f"key {name!r}: {err}") from None


def _reader(hint: Any) -> _Reader:
    if hint is bytes:
        return _diagnose_object
    if isinstance(hint, UnionType):
        (other,) = (one for one in get_args(hint) if one is not type(None))
        read = _reader(other)
        return lambda value: None if value is None else read(value)
    if get_origin(hint) is tuple:
        return _list(*get_args(hint))
    if hasattr(hint, "_fields"):
        return _tuple(hint)
    return lambda value: _plain(hint, value)


def _list(*parts: Any) -> _Reader:
    """Reads a list of any length into a tuple, or one with a type for each entry."""
    each = [_reader(part) for part in parts if part is not Ellipsis]
    fixed = Ellipsis not in parts

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"a list is expected, found {describe(value)}")
        if fixed and len(value) != len(each):
            raise ValueError(f"a list of {len(each)} entries is expected, found {len(value)}")
        return tuple(each[at if fixed else 0](one) for at, one in enumerate(value))

    return read


def _plain(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        words = {str: "a text", int: "a whole number", bool: "true or false"}
        raise ValueError(f"{words[kind]} is expected, found {describe(value)}")
    return value


def _diagnose_object(value: Any) -> bytes:
    if not isinstance(value, dict):
        raise ValueError(f"an object is expected, found {describe(value)}")
    return canonical(value)
