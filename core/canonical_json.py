"""JSON in one canonical form: equal values give equal bytes."""

from __future__ import annotations

import json
from typing import Any


def canonical(value: Any) -> bytes:
    """JSON in one form only: sorted keys, no blanks, ASCII; raises ValueError, TypeError."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")
