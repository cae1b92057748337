"""JSON in one canonical form: equal values give equal bytes."""

from __future__ import annotations

import json
from typing import Any, Final

from ganeti_steward.core.json_nesting import is_deep
from ganeti_steward.core.json_reader import describe

#: Lists and objects within one another in an object that becomes part of others.  A diagnose
#: object of a command may have 64, and some are put around it when it is merged and reported.
DEEPEST_OBJECT: Final = 72


def canonical(value: Any) -> bytes:
    """JSON in one form only: sorted keys, no blanks, ASCII; raises ValueError, TypeError."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


def canonical_object(value: object) -> bytes:
    """An object of JSON in that form; raises ValueError, also where it is nested too deeply."""
    if not isinstance(value, dict):
        raise ValueError(f"an object is expected, found {describe(value)}")
    if is_deep(value, DEEPEST_OBJECT):
        raise ValueError(f"lists and objects are nested more than {DEEPEST_OBJECT} deep")
    return canonical(value)
