"""The one switch for long repetitions: ``contrib/test --thorough`` (STEWARD_THOROUGH=1)."""

from __future__ import annotations

import os


def often(usually: int, thorough: int) -> int:
    """How often something is repeated: ``usually``, or ``thorough`` when all is to be tried."""
    return thorough if os.environ.get("STEWARD_THOROUGH") else usually
