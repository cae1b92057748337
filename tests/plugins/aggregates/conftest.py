"""What the tests of aggregates start from: a site without a plugin of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sites import Site


@pytest.fixture
def site(site: Site) -> Site:
    site.configure()
    return site
