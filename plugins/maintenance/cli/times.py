"""Times as the commands print them."""

from __future__ import annotations

from datetime import datetime
from typing import Final

_SECOND: Final = 10**9


def moment(at: int | None) -> str:
    """Local time, to the second; ``at``: ns since the epoch.  ``-`` for none."""
    if not at:
        return "-"
    return datetime.fromtimestamp(at // _SECOND).astimezone().isoformat(sep=" ")
