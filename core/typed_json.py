"""Values as JSON and back, by the types that annotations give: what is kept, and what is sent.

Of JSON only the types are made that the reader names, no matter who wrote it.  Both directions are
strict, and a fault is one sentence that names the place, key by key.

====================================  ========================================================
type                                  JSON
====================================  ========================================================
``str``, ``int``, ``bool``, ``None``  the same
``float``                             a number, or one of the texts inf, -inf and nan
an enumeration                        the value of the member
``bytes``                             the object whose canonical JSON they are
``Annotated[int, Range(1, 9)]``       a whole number within these limits
a NamedTuple                          an object; members that have a default may be missing
another class                         an object of what its constructor takes, or the one
                                      attribute that its ``AS_JSON`` names
tuple, list, sequence, frozenset      a list; that of a frozenset is sorted
a mapping                             an object; its keys are texts or whole numbers
``X | None``                          null, or as ``X``
``X | Y``, of NamedTuples or classes  an object with the member ``kind``, the class's name in
                                      lower case
``Any``, ``object``                   any JSON; also for unions of anything else
====================================  ========================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ganeti_steward.core.canonical_json import canonical_object
from ganeti_steward.core.json_nesting import load_json
from ganeti_steward.core.json_reader import Range, describe, quoted, writable

_Value = TypeVar("_Value")

#: The member of an object that names its class, where several are possible.
_KIND: Final = "kind"

_WORDS: Final[Mapping[type, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}

#: Numbers that JSON does not have.
_NO_NUMBERS: Final = ("inf", "-inf", "nan")


class _Codec(NamedTuple):
    """How values of one type become JSON, and JSON such values; both raise ValueError."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class _Style(NamedTuple):
    whole: bool = False
    ordered: bool = False


def to_json(kind: Any, value: Any, *, whole: bool = False, ordered: bool = False) -> Any:
    """A value of a type as what `json.dumps` takes; raises ValueError with one sentence.

    ``whole``: with the members of NamedTuples that have their default.  ``ordered``: mappings in
    the order of their keys.
    """
    return _codec(kind, _Style(whole, ordered)).write(value)


def from_json(kind: type[_Value], data: Any) -> _Value:
    """The value of a type in parsed JSON; raises ValueError with one sentence."""
    hint: Any = kind
    found: _Value = _codec(hint, _Style()).read(data)
    return found


@cache
def _codec(hint: Any, style: _Style) -> _Codec:
    origin = get_origin(hint)
    if hint is Any or hint is object:
        return _any(style)
    if hint is bytes:
        return _Codec(load_json, canonical_object)
    if hint is float:
        return _Codec(_written_float, _read_float)
    if hint is None or hint in _WORDS:
        return _plain(hint or NoneType)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Codec(lambda value: _expect(value, hint, f"a {hint.__name__}").value, _member(hint))
    if origin is Annotated:
        kind, limits = get_args(hint)
        return _in_range(kind, limits, style)
    if origin in (Union, UnionType):
        return _union(get_args(hint), style)
    if origin is None:
        return _attribute(hint) if hasattr(hint, "AS_JSON") else _object(hint, style)
    if issubclass(origin, Mapping):
        key, inner = get_args(hint)
        return _mapping(key, inner, style)
    return _list(origin, get_args(hint), style)


def _expect(value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    """The value; raises ValueError unless it is of just that type, or one of them."""
    if type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
        raise ValueError(f"{what} is expected, found {describe(value)}")
    return value


def _plain(kind: type) -> _Codec:
    def checked(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{_WORDS[kind]} is expected, found {describe(value)}")
        if isinstance(value, str) and not value.isascii() and writable(value) != value:
            raise ValueError(f"{describe(value)} cannot be written as UTF-8")
        return value

    return _Codec(checked, checked)


def _any(style: _Style) -> _Codec:
    def write(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key_of.write(key): write(one) for key, one in _items(value, style)}
        if isinstance(value, list | tuple):
            return [write(one) for one in value]
        number = isinstance(value, float) and math.isfinite(value)
        if number or isinstance(value, str | int | NoneType):
            return value
        raise ValueError(f"JSON is expected, found {describe(value)}")

    key_of = _plain(str)
    return _Codec(write, lambda data: data)


def _in_range(kind: Any, limits: Range, style: _Style) -> _Codec:
    inner = _codec(kind, style)
    return _Codec(
        lambda value: limits.check(inner.write(value)), lambda data: limits.check(inner.read(data))
    )


def _items(mapping: Mapping[Any, Any], style: _Style) -> Iterable[tuple[Any, Any]]:
    return sorted(mapping.items()) if style.ordered else mapping.items()


def _member(kind: type[Enum]) -> Callable[[Any], Enum]:
    known = {(type(one.value), one.value): one for one in kind}

    def read(data: Any) -> Enum:
        if not isinstance(data, str | int) or (type(data), data) not in known:
            raise ValueError(f"a {kind.__name__} is expected, found {describe(data)}")
        return known[type(data), data]

    return read


def _written_float(value: Any) -> Any:
    _expect(value, (float, int), _WORDS[float])
    return value if type(value) is int or math.isfinite(value) else str(value)


def _read_float(data: Any) -> Any:
    if data in _NO_NUMBERS:
        return float(data)
    return _expect(data, (float, int), _WORDS[float])


def _fields(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The members of an object of a class with their types, and the defaults of some."""
    hints = get_type_hints(kind, include_extras=True)
    if hasattr(kind, "_field_defaults"):
        return {name: hints[name] for name in kind._fields}, kind._field_defaults
    import inspect  # few values are of other classes

    parameters = inspect.signature(kind).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    return {one.name: hints[one.name] for one in parameters}, defaults


def _object(kind: Any, style: _Style) -> _Codec:
    hints, defaults = _fields(kind)
    codecs = {name: _codec(hint, style) for name, hint in hints.items()}
    # An attribute that stands for its object does not count when objects are compared.
    short = {} if style.whole or not hasattr(kind, "_fields") else dict(defaults)
    short = {name: one for name, one in short.items() if not hasattr(one, "AS_JSON")}
    required = hints.keys() - defaults.keys()

    def write(value: Any) -> dict[str, Any]:
        _expect(value, kind, f"a {kind.__name__}")
        found, name = {}, ""
        try:
            for name, codec in codecs.items():
                member = getattr(value, name)
                if name not in short or not _same(member, short[name]):
                    found[name] = codec.write(member)
        except ValueError as err:
            raise ValueError(f"key {name!r}: {err}") from None
        return found

    def read(data: Any) -> Any:
        _expect(data, dict, "an object")
        if missing := required - data.keys():
            raise ValueError(f"key {min(missing)!r} is missing")
        if unknown := data.keys() - codecs.keys():
            raise ValueError(f"key {quoted(min(unknown))} is unknown")
        return kind(**_each(codecs.__getitem__, data))

    return _Codec(write, read)


def _same(value: object, other: object) -> bool:
    return value is other or (type(value) is type(other) and value == other)


def _each(codec: Callable[[str], _Codec], data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the members of an object."""
    found, name = {}, ""
    try:
        for name, one in data.items():
            found[name] = codec(name).read(one)
    except ValueError as err:
        raise ValueError(f"key {quoted(name)}: {err}") from None
    return found


def _attribute(kind: Any) -> _Codec:
    """A class that is represented by one attribute."""
    name = kind.AS_JSON
    inner = _codec(get_type_hints(kind)[name], _Style())
    return _Codec(
        lambda value: inner.write(getattr(_expect(value, kind, f"a {kind.__name__}"), name)),
        lambda data: kind(inner.read(data)),
    )


def _union(parts: Sequence[Any], style: _Style) -> _Codec:
    others = tuple(part for part in parts if part is not NoneType)
    inner = _codec(others[0], style) if len(others) == 1 else _one_of(others, style)
    if len(others) == len(parts):
        return inner
    return _Codec(
        lambda value: None if value is None else inner.write(value),
        lambda data: None if data is None else inner.read(data),
    )


def _one_of(kinds: Sequence[Any], style: _Style) -> _Codec:
    """Classes of which the object names its own; any JSON where they are not all classes."""
    if any(get_origin(kind) or kind in _WORDS or kind is bytes for kind in kinds):
        return _any(style)
    codecs = {kind.__name__.lower(): _codec(kind, style) for kind in kinds}
    names = ", ".join(kind.__name__ for kind in kinds)

    def write(value: Any) -> dict[str, Any]:
        if type(value) not in kinds:
            raise ValueError(f"one of {names} is expected, found {describe(value)}")
        name = type(value).__name__.lower()
        return {_KIND: name, **codecs[name].write(value)}

    def read(data: Any) -> Any:
        name = _expect(data, dict, "an object").get(_KIND)
        if not isinstance(name, str) or name not in codecs:
            known = ", ".join(codecs)
            raise ValueError(f"key {_KIND!r}: one of {known} is expected, found {describe(name)}")
        return codecs[name].read({key: data[key] for key in data if key != _KIND})

    return _Codec(write, read)


def _mapping(key: Any, hint: Any, style: _Style) -> _Codec:
    inner, key_of = _codec(hint, style), _plain(key)

    def write(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"a mapping is expected, found {describe(value)}")
        found, name = {}, None
        try:
            for name, one in _items(value, style):
                found[str(key_of.write(name))] = inner.write(one)
        except ValueError as err:
            raise ValueError(f"key {quoted(str(name))}: {err}") from None
        return found

    def read(data: Any) -> dict[Any, Any]:
        found = _each(lambda _: inner, _expect(data, dict, "an object"))
        return found if key is str else {_number(name): one for name, one in found.items()}

    return _Codec(write, read)


def _number(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise ValueError(f"key {quoted(name)} is not a whole number") from None


def _list(origin: Any, parts: tuple[Any, ...], style: _Style) -> _Codec:
    """A list with a type for each entry, or with one for all, of any length."""
    codecs = [_codec(part, style) for part in parts if part is not Ellipsis]
    fixed = origin is tuple and Ellipsis not in parts
    is_set = issubclass(origin, frozenset)
    make = origin if origin in (frozenset, list) else tuple

    def checked(value: Any, *kinds: type) -> list[tuple[_Codec, Any]]:
        _expect(value, kinds, "a set" if set in kinds else "a list")
        if fixed and len(value) != len(codecs):
            raise ValueError(f"a list of {len(codecs)} entries is expected, found {len(value)}")
        return [(codecs[at if fixed else 0], one) for at, one in enumerate(value)]

    def write(value: Any) -> list[Any]:
        kinds = (frozenset, set) if is_set else (list, tuple)
        written = [codec.write(one) for codec, one in checked(value, *kinds)]
        return sorted(written) if is_set else written

    def read(data: Any) -> Any:
        return make(codec.read(one) for codec, one in checked(data, list))

    return _Codec(write, read)
