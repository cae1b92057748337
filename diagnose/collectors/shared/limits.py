"""Limits for some things only: settings of the form ``["pattern=number", ...]``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ganeti_steward.core.errors import BadSettings
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.diagnose.collectors.shared.results import matches

Limits = Sequence[tuple[str, float]]


def read_limits(name: str, key: str, given: Sequence[str]) -> Limits:
    """The patterns with their numbers, in the order given; raises BadSettings."""
    limits, faults = [], []
    for text in given:
        pattern, equals, number = text.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        if pattern and equals and 0 <= limit < math.inf:
            limits.append((pattern, limit))
        else:
            faults.append(
                f"collector.{name}.{key}: {quoted(text)} is not of the form PATTERN=NUMBER"
            )
    if faults:
        raise BadSettings(name, [f"collector.{name}.{key}: {fault}" for fault in faults])
    return limits


def limit_of(limits: Limits, *names: str) -> float | None:
    """The first limit whose pattern fits one of the names; None where none does."""
    return next(
        (limit for pattern, limit in limits if any(matches(name, (pattern,)) for name in names)),
        None,
    )
