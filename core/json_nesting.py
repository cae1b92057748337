"""Read JSON text from outside: its size and its nesting are limited before a parser sees it.

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

_BRACKETS: Final = b"[{]}"
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
#: Byte -> by how much it changes the depth.
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class TooDeep(ValueError):
    """A JSON text with too many lists and objects within one another."""


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
    return json.loads(
        text,
        object_pairs_hook=read_object,
        parse_int=read_integer,
        parse_float=read_real or _finite,
        parse_constant=read_constant or _no_constant,
    )


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:30]} is too large")
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")
