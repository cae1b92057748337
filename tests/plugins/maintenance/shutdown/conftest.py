"""A small site with the commands ``shutdown`` and ``bring-up``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from small_site import Site, site

if TYPE_CHECKING:
    from front import Front


@pytest.fixture
def small(front: Front, tmp_path: Path) -> Iterator[Site]:
    with site(front, tmp_path) as made:
        yield made
