"""Fixtures that the tests of hooks and of plugins share; each conftest imports them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import CAPTURES
from sites import Capture, Message, Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with site.imported():
        yield site


@pytest.fixture(scope="session")
def capture() -> Capture:
    def read(name: str) -> Message:
        message: Message = json.loads((CAPTURES / f"{name}.in.json").read_text())
        return message

    return read
