"""What the tests of plugins start from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import CAPTURES
from sites import Capture, Message, Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site(tmp_path)
    site.modules.mkdir()
    monkeypatch.syspath_prepend(str(site.modules))
    yield site
    own = {path.stem for path in site.modules.iterdir()}
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def capture() -> Capture:
    def read(name: str) -> Message:
        message: Message = json.loads((CAPTURES / f"{name}.in.json").read_text())
        return message

    return read
