"""A collector's thresholds, from its section ``[collector.NAME]``, and their kinds of keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, Any, Final, Generic, TypeVar

from ganeti_steward.core.config.kinds import TEXTS, ValueKind, list_of, number, whole, word
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.diagnose.collectors.shared.results import matches
from ganeti_steward.diagnose.config.finding_kinds import COMMAND, STATUS

_Settings = TypeVar("_Settings", bound=tuple[Any, ...])

#: The status of a finding.
Status = Annotated[str, STATUS]

#: How many of something.
Count = Annotated[int, whole(0)]

#: A figure whose unit its sentence gives.
Figure = Annotated[float, number(0)]

#: Disks behind a controller.
DEVICES: Final = list_of(
    word(
        lambda text: re.fullmatch(r"/dev/[!-9;-~]+:[!-~]+", text) is not None,
        "disk behind a controller",
        hint='path, colon, and what smartctl -d takes, like "/dev/sda:cciss,0"',
    )
)

Repair = Annotated[str, COMMAND, "Repair command for live-repair."]


class Configured(Generic[_Settings]):
    """A collector that has thresholds of its own."""

    CONFIG: type[_Settings]
    """the declaration of its section"""

    def __init__(self) -> None:
        self.configure(self.CONFIG())

    def configure(self, settings: _Settings) -> None:
        """``settings``: the section of the configuration."""
        self._settings = settings


def _limits_fault(value: Any) -> str:
    if fault := TEXTS.fault(value):
        return fault
    bad = [quoted(text) for text in value if _limit(text) is None]
    are = "are" if len(bad) > 1 else "is"
    return f"{', '.join(bad)} {are} not of the form PATTERN=NUMBER" if bad else ""


#: Limits for some things only.
LIMITS: Final = ValueKind(_limits_fault, "list of `PATTERN=NUMBER`")


def _limit(text: str) -> tuple[str, float] | None:
    """A pattern with its number; None for a text of another form."""
    pattern, _, number = text.rpartition("=")
    try:
        limit = float(number)
    except ValueError:
        return None
    return (pattern, limit) if pattern and 0 <= limit < math.inf else None


def limit_of(limits: Iterable[str], *names: str) -> float | None:
    """The first of ``PATTERN=NUMBER`` whose pattern fits one of the names; None where none does."""
    for pattern, limit in filter(None, map(_limit, limits)):
        if any(matches(name, (pattern,)) for name in names):
            return limit
    return None
