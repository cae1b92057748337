"""The kinds of keys: what a value in the configuration file may be, and the fault if it is not.

A section is a NamedTuple whose fields name their kind and their sentence:

    keep: Annotated[int, whole(0, 10000), "How many requests are kept; 0 keeps none."] = 20

A field without a kind gets the one of its type (`ganeti_steward.core.config.declaration`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from math import inf
from types import UnionType
from typing import Any, Final

from ganeti_steward.core.json_reader import describe, quoted
from ganeti_steward.core.records import NamedTuple

#: What is wrong with a value; empty when nothing is.
Check = Callable[[Any], str]


class ValueKind(NamedTuple):
    """What the value of a key may be."""

    fault: Check
    text: str
    """for the reference page: "number 1-890" """


class Each(NamedTuple):
    """One key for each of some names, together one field: a mapping from name to value.

    The field has only what the file sets; a name that is missing there has ``default``.
    """

    names: Collection[str]
    kind: ValueKind
    default: Any


def request_types() -> Collection[str]:
    """Ganeti's names of all request types."""
    # Only the section of the allocators needs them.
    from ganeti_steward.core.model.requests import HOOKS

    return HOOKS


def number(low: float = -inf, high: float = inf) -> ValueKind:
    """A number within limits."""
    return _bounded("number", int | float, low, high)


def whole(low: float = -inf, high: float = inf) -> ValueKind:
    """A whole number within limits."""
    return _bounded("whole number", int, low, high)


def _bounded(what: str, types: type | UnionType, low: float, high: float) -> ValueKind:
    wanted = f"a {what}" + (f" from {_plain(low)}" if -inf < low and high == inf else "")

    def fault(value: Any) -> str:
        typed = isinstance(value, types) and not isinstance(value, bool)
        if typed and low <= value <= high:
            return ""
        if typed and high < inf:
            return f"{value} is not between {_plain(low)} and {_plain(high)}"
        return f"{wanted} is expected, found {describe(value)}"

    return ValueKind(fault, what + _limits(low, high))


def _limits(low: float, high: float) -> str:
    if high < inf:
        return f" {_plain(low)}-{_plain(high)}"
    return f" from {_plain(low)}" if low > -inf else ""


def _plain(limit: float) -> str:
    return str(limit) if isinstance(limit, int) else f"{limit:g}"


def one_of(*words: str) -> ValueKind:
    """One of some words."""
    known = ", ".join(words)

    def fault(value: Any) -> str:
        return "" if value in words else f"one of {known} is expected, found {describe(value)}"

    return ValueKind(fault, " or ".join(f"`{word}`" for word in words))


def word(good: Callable[[str], bool], what: str, *, hint: str) -> ValueKind:
    """A text of a certain form, or the empty one.

    :param good: whether a text has the form
    :param what: for example "command name"
    :param hint: what the form is, for example "letters and digits only"
    """

    one = f"{'an' if what[0] in 'aeiou' else 'a'} {what} ({hint})"

    def fault(value: Any) -> str:
        if not isinstance(value, str):
            return f"{one} is expected, found {describe(value)}"
        return "" if value == "" or good(value) else f"{quoted(value)} is not {one}"

    return ValueKind(fault, what)


def list_of(kind: ValueKind, *others: str) -> ValueKind:
    """A list of different names, each of a kind or one of the words in ``others``."""

    def fault(value: Any) -> str:
        bad = _names(value)
        faults = () if bad else (kind.fault(name) for name in value if name not in others)
        return bad or "; ".join(filter(None, faults))

    return ValueKind(fault, f"list: each a {kind.text}{''.join(f' or `{b}`' for b in others)}")


def _is_host(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.-]{1,253}|[0-9A-Fa-f:.]{2,45}", text) is not None


def _path(value: Any) -> str:
    if not isinstance(value, str):
        return f"a path is expected, found {describe(value)}"
    if not value.isprintable():
        return f"{quoted(value)} has characters that do not belong in a path"
    good = value == "" or value.startswith("/")
    return "" if good else f"{quoted(value)} is not an absolute path"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return f"a text is expected, found {describe(value)}"
    return "" if value.isprintable() else f"{quoted(value)} has characters that cannot be printed"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else f"true or false is expected, found {describe(value)}"


def _repeated_names(value: Any) -> str:
    if not isinstance(value, list):
        return f"a list of names is expected, found {describe(value)}"
    for name in value:
        if not (isinstance(name, str) and name):
            return f"a list of names is expected, it holds {describe(name)}"
    return ""


def _names(value: Any) -> str:
    if fault := _repeated_names(value):
        return fault
    twice = next((name for name in value if value.count(name) > 1), "")
    return f"{shown(twice)} is named twice" if twice else ""


def _texts(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ""
    return f"a list of texts is expected, found {describe(value)}"


def shown(name: str) -> str:
    """A name as it is, unless that would spoil the sentence."""
    return name if name.isprintable() and 0 < len(name) <= 80 else quoted(name)


PATH: Final = ValueKind(_path, "path")
TEXT: Final = ValueKind(_text, "text")
FLAG: Final = ValueKind(_flag, "boolean")
#: Different names.
NAMES: Final = ValueKind(_names, "list of names")
#: Names of which a repetition changes nothing.
REPEATED_NAMES: Final = ValueKind(_repeated_names, "list of names")
#: Names and addresses of machines.
HOSTS: Final = list_of(word(_is_host, "host name or IP address", hint="without a port"))
#: Any texts, also the same one twice.
TEXTS: Final = ValueKind(_texts, "list of texts")
