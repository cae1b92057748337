"""Values of the daemon as JSON and back, by the types of their fields.

A NamedTuple is an object without the members that have their default; where a field can hold
several kinds of values, the member ``kind`` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.maintenance.task import Done, Failed, Task, Wait
from ganeti_steward.core.maintenance.world import Refused, Reported, Silent
from ganeti_steward.core.model.cluster import Cluster, Group, Instance, Node
from ganeti_steward.core.model.sent import Sent

_Value = TypeVar("_Value")
_Reader = Callable[[Any], Any]

#: The kinds of values that share a field with others.
_KINDS: Final = {
    kind.__name__.lower(): kind for kind in (Reported, Silent, Refused, Task, Done, Failed, Wait)
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}

#: The members of a cluster with the types of their entries; the rest is derived from them.
_CLUSTER: Final[Mapping[str, Any]] = {
    "groups": tuple[Group, ...],
    "nodes": tuple[Node, ...],
    "instances": tuple[Instance, ...],
    "tags": tuple[str, ...],
    "hypervisors": tuple[str, ...],
}


def to_json(value: Any) -> Any:
    """A value as what `json.dumps` takes; a diagnose object (bytes of JSON) as an object."""
    if isinstance(value, bytes):
        return load_json(value)
    if isinstance(value, Sent):
        return dict(value.data)
    if isinstance(value, Cluster):
        return {name: to_json(getattr(value, name)) for name in _CLUSTER}
    if hasattr(value, "_fields"):
        kind = {"kind": _NAMES[type(value)]} if type(value) in _NAMES else {}
        return {**kind, **members(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(one) for key, one in sorted(value.items())}
    if isinstance(value, set | frozenset):
        return sorted(map(to_json, value))
    return [to_json(one) for one in value] if isinstance(value, list | tuple) else value


def members(value: Any) -> dict[str, Any]:
    """The fields of a NamedTuple as JSON, without those that have their default."""
    defaults = value._field_defaults
    return {
        name: to_json(one)
        for name, one in zip(value._fields, value, strict=True)
        if name not in defaults or one != defaults[name] or isinstance(one, Sent)
    }


def from_json(kind: type[_Value], data: Any) -> _Value:
    """A value of a type; raises ValueError with one sentence that names the place."""
    hint: Any = kind
    found: _Value = _reader(hint)(data)
    return found


@cache
def _reader(hint: Any) -> _Reader:
    if hint is Any:
        return lambda value: value
    if hint is bytes:
        return _diagnose_object
    if hint is Sent:
        return lambda value: Sent(_object(value))
    if hint is Cluster:
        return _cluster
    if isinstance(hint, UnionType):
        return _union(get_args(hint))
    if hasattr(hint, "_fields"):
        return _named_tuple(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is None:
        return lambda value: _plain(hint, value)
    if issubclass(origin, Mapping):
        return _mapping(*parts)
    return _tuple(parts) if origin is tuple else _several(origin, parts[0])


def _union(parts: Sequence[Any]) -> _Reader:
    """``X | None``, or kinds of NamedTuples."""
    if NoneType in parts:
        (other,) = (part for part in parts if part is not NoneType)
        return lambda value: None if value is None else _reader(other)(value)
    known = {_NAMES[part]: part for part in parts}

    def read(value: Any) -> Any:
        kind = _object(value).get("kind")
        if kind not in known:
            raise ValueError(f"kind is {describe(kind)}, expected is one of {', '.join(known)}")
        return _reader(known[kind])({key: value[key] for key in value if key != "kind"})

    return read


def _named_tuple(kind: Any) -> _Reader:
    hints = get_type_hints(kind)
    required = [name for name in kind._fields if name not in kind._field_defaults]

    def read(value: Any) -> Any:
        unknown = [name for name in _object(value) if name not in kind._fields]
        if unknown:
            raise ValueError(f"{unknown[0]} is no known member")
        missing = [name for name in required if name not in value]
        if missing:
            raise ValueError(f"{missing[0]} is missing")
        return kind(**{name: _at(name, hints[name], one) for name, one in value.items()})

    return read


def _cluster(value: Any) -> Cluster:
    given = _object(value)
    return Cluster(*(_at(name, hint, given.get(name, [])) for name, hint in _CLUSTER.items()))


def _mapping(key: Any, hint: Any) -> _Reader:
    def read(value: Any) -> Any:
        return {_key(key, name): _at(name, hint, one) for name, one in _object(value).items()}

    return read


def _key(kind: Any, name: str) -> Any:
    try:
        return kind(name)
    except ValueError:
        raise ValueError(f"{name} is not a whole number") from None


def _tuple(parts: Sequence[Any]) -> _Reader:
    if parts[-1] is Ellipsis:
        return _several(tuple, parts[0])

    def read(value: Any) -> Any:
        found = _list(value)
        if len(found) != len(parts):
            raise ValueError(f"is a list of {len(found)} entries, expected are {len(parts)}")
        return tuple(_at(str(at), part, found[at]) for at, part in enumerate(parts))

    return read


def _several(origin: Any, part: Any) -> _Reader:
    make = origin if origin in (tuple, frozenset, list) else tuple
    return lambda value: make(_at(str(at), part, one) for at, one in enumerate(_list(value)))


def _at(place: str, hint: Any, value: Any) -> Any:
    try:
        return _reader(hint)(value)
    except ValueError as err:
        text = str(err)
        between = " " if text.startswith("is ") else "."
        raise ValueError(f"{place}{between}{text}") from None


def _plain(kind: Any, value: Any) -> Any:
    if kind is float and type(value) is int:
        return value
    if type(value) is not kind:
        words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        raise ValueError(f"is {describe(value)}, expected is {words.get(kind, kind)}")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"is {describe(value)}, expected is an object")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"is {describe(value)}, expected is a list")
    return value


def _diagnose_object(value: Any) -> bytes:
    return canonical(_object(value))
