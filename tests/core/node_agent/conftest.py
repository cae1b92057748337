"""The key that agents and their clients share."""

from __future__ import annotations

from pathlib import Path

import pytest
from repair_requests import KEY

from ganeti_steward.core.ganeti.hmac_key import KeyFile


@pytest.fixture
def key(tmp_path: Path) -> KeyFile:
    file = tmp_path / "hmac.key"
    file.write_bytes(KEY)
    return KeyFile(str(file))
