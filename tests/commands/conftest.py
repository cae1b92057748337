"""What the tests of commands start from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from diagnose_front import PLUGIN, configure, says
from front import Front


@pytest.fixture
def front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Front]:
    front = Front(tmp_path, capsys)
    front.configure()
    monkeypatch.setenv("GNT_STEWARD_CONFIG", str(front.config_file))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield front
    own = {path.stem for path in front.path.iterdir()}
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]


@pytest.fixture
def disk(front: Front) -> Front:
    """A node whose only source says what the test wants."""
    front.plugin("disk", PLUGIN)
    configure(front)
    says(front, "Ok")
    return front
