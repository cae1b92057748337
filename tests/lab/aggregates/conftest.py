"""What the tests of this directory leave behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..cluster import Lab


@pytest.fixture(autouse=True)
def _clean(lab: Lab) -> Iterator[None]:
    """Whatever a test tagged or made is gone afterwards."""
    yield
    lab.clean()
