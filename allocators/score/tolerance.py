"""The tolerance of comparisons between scores."""

from __future__ import annotations

from typing import Final

#: Scores that differ by less are equal: sums of the same values in another order do.
TOLERANCE: Final = 1e-9
