"""Running this program as another user than root, wherever Python lies."""

from __future__ import annotations

import os
import stat
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import ganeti_steward

if TYPE_CHECKING:
    import pytest


def open_up(request: pytest.FixtureRequest, place: Path, mode: int) -> None:
    """Give a directory another mode for the rest of the test."""
    request.addfinalizer(partial(place.chmod, place.stat().st_mode))
    place.chmod(mode)


def let_everybody_reach_python(request: pytest.FixtureRequest) -> None:
    """The sources run as programs; the interpreter may lie in a home directory."""
    files = (
        sys.executable,
        os.path.realpath(sys.executable),
        os.__file__,
        *ganeti_steward.__path__,
    )
    for place in {parent for file in files for parent in Path(file).parents}:
        mode = stat.S_IMODE(place.stat().st_mode)
        if not mode & stat.S_IXOTH:
            open_up(request, place, mode | stat.S_IXOTH)
