"""What all tests start from."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from front import Front


@pytest.fixture(scope="session", autouse=True)
def _signals_as_in_a_terminal() -> Iterator[None]:
    """What a shell starts in the background, or nohup, would hand its deafness on."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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
