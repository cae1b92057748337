"""What the declaration of a section says, and reading the section by it.

A declaration is a NamedTuple (`ganeti_steward.core.config.kinds` shows one): its fields are the
keys, with dashes for underscores; a field without default is a key the section must have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar, get_args, get_type_hints

from ganeti_steward.core.config import kinds
from ganeti_steward.core.config.kinds import (
    FLAG,
    TEXT,
    TEXTS,
    Each,
    ValueKind,
    number,
    shown,
    whole,
)
from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.records import NamedTuple

_Section = TypeVar("_Section", bound=tuple[Any, ...])

#: Default of a key that has none.
REQUIRED: Final = object()

_KIND_OF_TYPE: Final[Mapping[object, ValueKind]] = {
    bool: FLAG,
    int: whole(),
    float: number(),
    str: TEXT,
    tuple[str, ...]: TEXTS,
}


class Key(NamedTuple):
    """One key of a section."""

    name: str
    """in the file, with dashes"""
    kind: ValueKind
    text: str
    """what it is for, one sentence"""
    default: Any
    """`REQUIRED` when the section must have it"""
    field: str
    """of the declaration"""
    one_of_each: bool = False
    """whether the field has several keys, as a mapping from their names"""


def keys(section: Any) -> list[Key]:
    """The keys of a declaration in its order; raises TypeError when it cannot be one."""
    if not _is_declaration(section):
        raise TypeError(f"CONFIG must be a NamedTuple class, not {describe(section)}")
    # A declaration need not import the kinds it names.
    hints = get_type_hints(section, localns=vars(kinds), include_extras=True)
    return [
        key
        for field in section._fields
        for key in _keys_of(
            section, field, hints[field], section._field_defaults.get(field, REQUIRED)
        )
    ]


def _is_declaration(section: Any) -> bool:
    return isinstance(section, type) and hasattr(section, "_field_defaults")


def _keys_of(section: type, field: str, hint: Any, default: Any) -> Iterator[Key]:
    """The keys of one field: one, or one for each name of an `Each`."""
    given, *metadata = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    kind = next(
        (one for one in metadata if isinstance(one, ValueKind | Each)), _KIND_OF_TYPE.get(given)
    )
    text = next((one for one in metadata if isinstance(one, str)), "")
    if isinstance(kind, Each):
        for name in kind.names:
            yield Key(name, kind.kind, text, kind.default, field, one_of_each=True)
    elif kind is None:
        raise TypeError(f"{section.__name__}.{field} of type {given} needs a kind of key")
    else:
        yield Key(field.replace("_", "-"), kind, text, default, field)


def read_section(
    section: type[_Section], path: str, given: Any, faults: list[str]
) -> _Section | None:
    """A section of the file by its declaration; adds to ``faults``, and is None then.

    ``path``: the name of the section, which each fault begins with.
    """
    before = len(faults)
    found = read_good_keys(section, path, given, faults)
    return found if len(faults) == before else None


def read_good_keys(
    section: type[_Section], path: str, given: Any, faults: list[str]
) -> _Section | None:
    """The same without the keys that have faults; None where one is missing that it needs."""
    if not isinstance(given, Mapping):
        faults.append(f"{path}: a section is expected, found {describe(given)}")
        return None
    known = {key.name: key for key in keys(section)}
    found = [
        f"{path}: has no {name}"
        for name, key in known.items()
        if key.default is REQUIRED and name not in given
    ]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name in known:
            fault = known[name].kind.fault(value)
            if fault:
                found.append(f"{path}.{name}: {fault}")
            else:
                _set(values, known[name], tuple(value) if isinstance(value, list) else value)
        else:
            found.append(f"{path}.{shown(name)}: no such key (known: {', '.join(known)})")
    faults += found
    needed = {key.field for key in known.values() if key.default is REQUIRED}
    return section(**values) if needed <= values.keys() else None


def _set(values: dict[str, Any], key: Key, value: Any) -> None:
    if not key.one_of_each:
        values[key.field] = value
    elif value != key.default:
        values.setdefault(key.field, {})[key.name] = value
