"""What tests loop over, so that a loop over nothing is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_T = TypeVar("_T")


def some(items: Iterable[_T]) -> list[_T]:
    """The items; there has to be at least one, or what is asserted of each shows nothing."""
    found = list(items)
    assert found
    return found
