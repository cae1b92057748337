"""Which room may import which, and that the package mapping names every room."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "ganeti_steward"

#: Room -> the rooms it may import besides itself.
ARROWS: Final = {
    "core": set[str](),
    "allocators": {"core"},
    "plugins": {"core", "allocators"},
    "diagnose": {"core"},
}


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Every module a tree imports, wherever the statement stands, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            # ``from package import name``: the name may be a module of its own.
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def rooms_imported(room: str, file: Path) -> set[tuple[int, str]]:
    parts = [PACKAGE, *file.relative_to(ROOT).parent.parts]
    found = imported(ast.parse(file.read_text()), ".".join(parts))
    return {
        (line, name.split(".")[1])
        for line, name in found
        if name.startswith(f"{PACKAGE}.") and name.split(".")[1] != room
    }


@pytest.mark.parametrize("room", ARROWS)
def test_arrows(room: str) -> None:
    assert modules(room)
    faults = [
        f"{file.relative_to(ROOT)}:{line} imports {other}"
        for file in modules(room)
        for line, other in sorted(rooms_imported(room, file))
        if other not in ARROWS[room]
    ]
    assert faults == []


@pytest.mark.parametrize("room", ARROWS)
def test_rooms_by_their_package_name_only(room: str) -> None:
    """``import core`` would work in a checkout and nowhere else."""
    faults = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in modules(room)
        for line, name in imported(ast.parse(file.read_text()), "")
        if name.split(".")[0] in ARROWS
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import ganeti_steward.plugins.harep", "plugins"),
        ("import os, ganeti_steward.diagnose as d", "diagnose"),
        ("from ganeti_steward.allocators.load import load", "allocators"),
        ("from ganeti_steward.allocators import load", "allocators"),
        ("from ganeti_steward import plugins", "plugins"),
        ("from ..allocators.load import load", "allocators"),
        ("from .. import diagnose", "diagnose"),
        ("def f():\n    if True:\n        from ganeti_steward.plugins import x", "plugins"),
    ],
)
def test_every_form_of_import_is_seen(source: str, found: str) -> None:
    names = [name for _, name in imported(ast.parse(source), f"{PACKAGE}.core")]
    assert any(name.startswith(f"{PACKAGE}.{found}") for name in names)


def test_dotted_names_as_strings_are_no_imports() -> None:
    tree = ast.parse('BUILT_IN = {"balanced": "ganeti_steward.allocators.balanced"}')
    assert list(imported(tree, f"{PACKAGE}.core")) == []


def setuptools() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def folders() -> set[str]:
    """Every folder of a room that is a package, as a path."""
    return {
        str(file.parent.relative_to(ROOT))
        for room in ARROWS
        for file in (ROOT / room).rglob("__init__.py")
    }


def test_every_package_is_listed() -> None:
    listed = setuptools()["packages"]
    assert len(listed) == len(set(listed))
    assert set(listed) == {f"{PACKAGE}.{folder.replace('/', '.')}" for folder in folders()}


def test_every_folder_with_modules_is_a_package() -> None:
    holding = {str(file.parent.relative_to(ROOT)) for room in ARROWS for file in modules(room)}
    assert holding == folders()


def test_every_room_is_mapped_to_its_folder() -> None:
    assert setuptools()["package-dir"] == {f"{PACKAGE}.{room}": room for room in ARROWS}


@pytest.mark.parametrize("room", ARROWS)
def test_every_room_is_typed(room: str) -> None:
    assert (ROOT / room / "py.typed").is_file()
    assert "py.typed" in setuptools()["package-data"]["*"]
