"""A cluster behind the stand-in for luxid, and the key of agents and their clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import clusters
import pytest
from repair_requests import KEY
from standin import StandIn
from standin_server import serving

from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.luxi import Luxi


@pytest.fixture
def stand_in() -> StandIn:
    """Six nodes with DRBD instances."""
    return StandIn(clusters.generate("--nodes=6", "--groups=2", "--mix=drbd=1", "--seed=5"))


@pytest.fixture
def luxi(stand_in: StandIn, tmp_path: Path) -> Iterator[Luxi]:
    with serving(tmp_path, stand_in) as client:
        yield client


@pytest.fixture
def key(tmp_path: Path) -> KeyFile:
    """The key that agents and their clients share."""
    file = tmp_path / "hmac.key"
    file.write_bytes(KEY)
    return KeyFile(str(file))
