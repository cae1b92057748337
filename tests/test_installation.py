"""The tests run on what is installed; that has to be this checkout."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest
from paths import ROOT


@pytest.mark.parametrize("room", ["core", "allocators", "plugins", "diagnose"])
def test_the_installed_package_is_this_checkout(room: str) -> None:
    (folder,) = import_module(f"ganeti_steward.{room}").__path__
    assert Path(folder).resolve() == ROOT / room, "run contrib/setup test"


def test_a_plain_installation_has_every_file() -> None:
    """``pip install .`` copies what is listed; the checkout's own installation needs no list."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    data = setuptools["package-data"]
    left = [
        str(file.relative_to(ROOT))
        for folder, package in {
            ROOT / package.removeprefix("ganeti_steward.").replace(".", "/"): package
            for package in setuptools["packages"]
        }.items()
        for file in folder.iterdir()
        if file.is_file() and file.suffix != ".py"
        if not any(fnmatch(file.name, name) for name in [*data["*"], *data.get(package, [])])
    ]
    assert left == [], "name them under package-data in pyproject.toml"
