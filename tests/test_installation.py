"""The tests run on what is installed; that has to be this checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import ROOT

import ganeti_steward.core


@pytest.mark.parametrize("room", ["core", "allocators", "plugins", "diagnose"])
def test_the_installed_package_is_this_checkout(room: str) -> None:
    installed = Path(ganeti_steward.core.__file__).parents[1] / room
    for file in (ROOT / room).rglob("*.py"):
        there = installed / file.relative_to(ROOT / room)
        assert there.is_file(), f"{file} is not installed; run contrib/setup test"
        assert there.read_bytes() == file.read_bytes(), f"{file} is not what is installed"
