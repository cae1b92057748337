"""What the tests of the diagnosis start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnosing import Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A node without any source yet; the plugins' folder is on the search path."""
    site = Site(tmp_path)
    site.modules.mkdir()
    monkeypatch.syspath_prepend(str(site.modules))
    site.configure()
    return site
