"""Limits for some things only: settings of the form ``["pattern=number", ...]``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from ganeti_steward.core.config.kinds import TEXTS, Kind
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.diagnose.collectors.shared.results import matches

Limits = Sequence[tuple[str, float]]


def _fault(value: Any) -> str:
    if fault := TEXTS.fault(value):
        return fault
    bad = [quoted(text) for text in value if _limit(text) is None]
    are = "are" if len(bad) > 1 else "is"
    return f"{', '.join(bad)} {are} not of the form PATTERN=NUMBER" if bad else ""


#: The kind of their keys.
LIMITS: Final = Kind(_fault, "list of `PATTERN=NUMBER`")


def read_limits(given: Sequence[str]) -> Limits:
    """The patterns with their numbers, in the order given."""
    return [limit for text in given if (limit := _limit(text))]


def _limit(text: str) -> tuple[str, float] | None:
    """A pattern with its number; None for a text of another form."""
    pattern, _, number = text.rpartition("=")
    try:
        limit = float(number)
    except ValueError:
        return None
    return (pattern, limit) if pattern and 0 <= limit < math.inf else None


def limit_of(limits: Limits, *names: str) -> float | None:
    """The first limit whose pattern fits one of the names; None where none does."""
    return next(
        (limit for pattern, limit in limits if any(matches(name, (pattern,)) for name in names)),
        None,
    )
