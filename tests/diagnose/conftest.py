"""What the tests of the diagnosis start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import Agent, running
from diagnosing import Site
from uid_pools import FIRST
from whitelists import whitelist

from ganeti_steward.diagnose.sources.uid_pool import Pool


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """One agent for all tests of a module, which change nothing but its files."""
    with running(tmp_path_factory.mktemp("shared")) as agent:
        yield agent


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A node without any source yet; the plugins' folder is on the search path."""
    site = Site(tmp_path)
    site.configure()
    with site.imported():
        yield site


@pytest.fixture
def commands() -> Iterator[Path]:
    with whitelist() as path:
        yield path


@pytest.fixture
def locks(tmp_path: Path) -> str:
    return str(tmp_path / "uid-pool")


@pytest.fixture
def pool(tmp_path: Path, locks: str) -> Pool:
    definition = tmp_path / "ssconf_uid_pool"
    definition.write_text(f"{FIRST}\n")
    return Pool(str(definition), locks)
