"""Read JSON text from outside: its size and its nesting are limited before a parser sees it.

Every text in a value that was read can be written again: half of a surrogate pair, which no
encoding has, is refused (or replaced, where one bad text must not hide the others).

Python's parser recurses once per level and, since Python 3.12, not within the recursion limit:
in a thread with a small stack, a text of a few kilobytes would crash the process.  (orjson, which
reads the large messages of Ganeti, has such a limit of its own.)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

#: Levels of lists and objects; a thread with a stack of 256 KiB crashes at about 1800.
DEEPEST: Final = 500

#: Bytes (or characters) of a text whose reader has no smaller limit: 256 MiB.
LONGEST: Final = 2**28

#: A string (to the end of the text where it is not closed).
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

#: Half of a surrogate pair may be in the text; whether it is, the next one shows.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
#: An escape: a whole pair, half of one (the group), or any other.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
#: What opens or closes a list or an object, or a string, which may hold such characters.
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)

#: Digits of a whole number that Python converts, which takes time that grows with their square.
_DIGITS: Final = 4000
#: A whole number with more of them may be in the text.
_LONG: Final = re.compile(f"[0-9]{{{_DIGITS + 1}}}")

_BRACKETS: Final = b"[{]}"
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
#: Byte -> by how much it changes the depth.
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class TooDeep(ValueError):
    """A JSON text with too many lists and objects within one another."""


class HalfPair(ValueError):
    """A JSON text with half of a surrogate pair."""


def check_nesting(text: str | bytes, deepest: int = DEEPEST) -> None:
    """Raise TooDeep where the text opens more than ``deepest`` lists and objects at once."""
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    if raw.count(b"[") + raw.count(b"{") <= deepest:
        return
    brackets = _STRING.sub(b"", raw).translate(None, _OTHERS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > deepest:
        raise TooDeep(f"the JSON text is nested more than {deepest} levels deep")


def load_json(
    text: str | bytes,
    *,
    longest: int = LONGEST,
    deepest: int = DEEPEST,
    read_object: Callable[[list[tuple[str, Any]]], Any] | None = None,
    read_integer: Callable[[str], Any] | None = None,
    read_real: Callable[[str], Any] | None = None,
    read_constant: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a JSON text in UTF-8; raises ValueError, TooDeep where it is nested too deeply.

    ``longest``: bytes or characters; ``deepest``: levels; the functions are those of
    `json.loads`.  Without them numbers beyond what a float holds, and NaN, are refused.
    """
    if len(text) > longest:
        raise ValueError(f"the JSON text is longer than {longest} bytes")
    # Parsed from bytes, it could also be UTF-16, whose brackets are not where they seem to be.
    text = text if isinstance(text, str) else text.decode()
    check_nesting(text, deepest)
    _check_pairs(text)
    return json.loads(
        text,
        object_pairs_hook=read_object,
        parse_int=read_integer,
        parse_float=read_real or _finite,
        parse_constant=read_constant or _no_constant,
    )


def load_lenient(raw: bytes) -> Any:
    """The value of a JSON text of Ganeti, in which one bad value must not hide all others.

    What is no Unicode text is replaced by U+FFFD, lists and objects below `DEEPEST` levels by
    null, and a number that cannot be held by an infinite or undefined one.  Raises ValueError.
    """
    if len(raw) > LONGEST:
        raise ValueError(f"the JSON text is longer than {LONGEST} bytes")
    text = raw.decode(errors="replace")
    if _SURROGATE.search(text):
        text = _ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], text)
    try:
        check_nesting(text)
    except TooDeep:
        text = _cut(text)
    return json.loads(text, parse_int=_integer if _LONG.search(text) else None)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def _cut(text: str) -> str:
    """The text with null in place of what is nested too deeply."""
    parts, kept, depth = [], 0, 0
    for found in _TOKEN.finditer(text):
        if found[0] in ("[", "{"):
            depth += 1
            if depth == DEEPEST + 1:
                parts += [text[kept : found.start()], "null"]
        elif found[0] in ("]", "}"):
            if depth == DEEPEST + 1:
                kept = found.end()
            depth -= 1
    return "".join([*parts, text[kept:] if depth <= DEEPEST else ""])


def is_deep(value: Any, levels: int) -> bool:
    """Whether a value of JSON has more than ``levels`` lists and objects within one another."""
    inner = [value]
    for _ in range(levels + 1):
        inner = [one for one in inner if isinstance(one, list | tuple | dict)]
        if not inner:
            return False
        parts = (one.values() if isinstance(one, dict) else one for one in inner)
        inner = [part for each in parts for part in each]
    return True


def _check_pairs(text: str) -> None:
    """Raise HalfPair where a string of the text would hold half of a surrogate pair."""
    halves = _SURROGATE.search(text) and any(found[1] for found in _ESCAPE.finditer(text))
    if halves or not (text.isascii() or _is_unicode(text)):
        raise HalfPair("a text holds half of a surrogate pair")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:30]} is too large")
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")
