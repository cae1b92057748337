"""Times as commands and pages show them, the texts of objects that others wrote, and of faults."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_nesting import load_lenient

_SECOND: Final = 10**9


def local_time(at: int | None) -> str:
    """Local time with its offset, to the second; ``at``: ns since the epoch.  ``-`` for none."""
    moment = _moment(at) if at else None
    return moment.astimezone().isoformat(sep=" ") if moment else str(at or "-")


def utc_time(at: int) -> str:
    """Time in UTC, to the second; ``at``: ns since the epoch."""
    moment = _moment(at, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else str(at)


def _moment(at: int, zone: tzinfo | None = None) -> datetime | None:
    """None where it is beyond what a calendar has: the number is shown then."""
    try:
        return datetime.fromtimestamp(at // _SECOND, zone)
    except (OSError, OverflowError, ValueError):
        return None


def text_member(text: str, name: str) -> str:
    """A text in the object that a JSON text is, whatever else it holds; empty where there is none.

    What it belongs to must not be hidden by another member, such as a number that is none.
    """
    try:
        given = load_lenient(text.encode(errors="replace"))
    except ValueError:
        return ""
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


def read_reasons(trail: Any) -> tuple[Reason, ...]:
    """The entries of a trail as Ganeti gives it; raises ValueError."""
    try:
        if not isinstance(trail, list | tuple):
            raise TypeError
        return tuple(_reason(*entry) for entry in trail)
    except (OverflowError, TypeError, ValueError):
        raise ValueError("the reason trail is not a list of sources, texts and times") from None


def _reason(source: object, text: object, at: object) -> Reason:
    if not (isinstance(source, str) and isinstance(text, str) and isinstance(at, int | float)):
        raise TypeError
    return Reason(source, text, int(at))


def describe_fault(err: Exception) -> str:
    """An error in one sentence; an unexpected one with its kind."""
    text = " ".join(str(err).split())
    return text if isinstance(err, StewardError) else f"{type(err).__name__}: {text}"
