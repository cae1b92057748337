"""In the thorough run seven nodes; otherwise the lab that all tests of the daemon share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from thorough import often

from ..conftest import brought_up
from ..maintained_lab import MaintainedLab

if often(0, 1):

    @pytest.fixture(scope="session")
    def maintained() -> Iterator[MaintainedLab]:
        with brought_up(MaintainedLab("seven", nodes=7)) as lab:
            yield lab
