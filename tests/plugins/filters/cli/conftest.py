"""What the tests of ``gnt-steward filter`` start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import clusters
import pytest
from ruled import WAYS, Call, Ruled
from standin import StandIn

if TYPE_CHECKING:
    from front import Front


@pytest.fixture(scope="session")
def nodes() -> clusters.Message:
    return clusters.generate("--nodes=2", "--seed=5")


@pytest.fixture
def cluster(nodes: clusters.Message) -> Ruled:
    return Ruled(StandIn(nodes))


@pytest.fixture(params=WAYS)
def call(
    cluster: Ruled, front: Front, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Call]:
    """``gnt-steward filter``, which reaches the cluster by luxid and by RAPI."""
    with cluster.reached(tmp_path, request.param) as options:
        yield lambda *words: front("filter", *words, *options)
