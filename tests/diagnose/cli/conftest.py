"""What the tests of the commands of the diagnosis start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from diagnose_front import PLUGIN, configure, says

if TYPE_CHECKING:
    from front import Front


@pytest.fixture
def disk(front: Front) -> Front:
    """A node whose only source says what the test wants."""
    front.plugin("disk", PLUGIN)
    configure(front)
    says(front, "Ok")
    return front
