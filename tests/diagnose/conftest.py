"""What the tests of the diagnosis start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import Agent, running
from diagnosing import Site


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """One agent for all tests of a module, which change nothing but its files."""
    with running(tmp_path_factory.mktemp("shared")) as agent:
        yield agent


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A node without any source yet; the plugins' folder is on the search path."""
    site = Site(tmp_path)
    site.modules.mkdir()
    monkeypatch.syspath_prepend(str(site.modules))
    site.configure()
    return site
