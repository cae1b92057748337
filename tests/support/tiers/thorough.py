"""How much a run repeats, and from which seed.

``contrib/test`` runs tier 1, ``contrib/test --all`` tier 2, ``contrib/test --thorough`` tier 3; the
number is in STEWARD_TIER.  Without it, as in ``pytest tests/core``, it is tier 2.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

FIRST: Final = 1
USUAL: Final = 2
THOROUGH: Final = 3

TIER: Final = int(os.environ.get("STEWARD_TIER") or USUAL)
#: Tier 1 tries others each day, so that a year of runs tries as many as a long one.
SEED: Final = int(os.environ.get("STEWARD_SEED") or f"{datetime.now(UTC):%Y%m%d}")


def often(usually: _T, thorough: _T, few: _T | None = None, *, tier: int = TIER) -> _T:
    """How often something is repeated: ``usually``, or ``thorough`` when all is to be tried.

    Tier 1 repeats it ``few`` times: without that argument a tenth of a usual number, at least 3
    times.  What is less in a thorough run, such as a step, stays as usual.
    """
    if tier == THOROUGH:
        return thorough
    if tier == USUAL:
        return usually
    if few is not None:
        return few
    number: Any = usually
    if isinstance(number, int) and number < thorough:  # type: ignore[operator]
        number = max(number // 10, min(number, 3))
    return number  # type: ignore[no-any-return]


def dice(number: int, *, tier: int = TIER, seed: int = SEED) -> Random:
    """What a property draws its cases from, always the same; in tier 1 others each day."""
    return Random(f"{seed} {number}" if tier == FIRST else number)


def seeds(
    usually: int, thorough: int, start: int = 0, *, tier: int = TIER, seed: int = SEED
) -> Sequence[int]:
    """The seeds of a property, from ``start``: the first ``usually`` ones, or ``thorough``.

    Tier 1 draws a few of the thorough ones by its own seed.
    """
    number = often(usually, thorough, tier=tier)
    if tier != FIRST:
        return range(start, start + number)
    return sorted(Random(seed).sample(range(start, start + thorough), number))
