"""Limit how deeply a JSON text is nested, before a recursive parser reads it.

Python's parser recurses once per level and, since Python 3.12, not within the recursion limit:
in a thread with a small stack, a text of a few kilobytes would crash the process.
"""

from __future__ import annotations

import re
from typing import Final

#: Levels of lists and objects; a thread with a stack of 256 KiB crashes at about 1800.
DEEPEST: Final = 500

#: A string (to the end of the text where it is not closed) or a bracket.
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def check_nesting(text: str) -> None:
    """Raise RecursionError where the text opens more than ``DEEPEST`` lists and objects at once."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in ("[", "{"):
            depth += 1
        elif token in ("]", "}"):
            depth -= 1
        if depth > DEEPEST:
            raise RecursionError(f"the JSON text is nested more than {DEEPEST} levels deep")
