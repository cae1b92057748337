"""How large a folder, a module and the core may be, and that every folder is a package."""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from rooms import ARROWS, PACKAGE, ROOT, folders, imports_of, kernel, modules, name_of, within

#: Lines of code of the kernel, without blank lines, comments and docstrings.
LARGEST_KERNEL: Final = 3600

#: Lines of code of the whole core, likewise.
LARGEST_CORE: Final = 8140

#: Modules a folder of a room may hold beside ``__init__``; more means that it has two subjects.
#: Folders of tests mirror the rooms, however many tests a folder needs.
LARGEST_FOLDER: Final = 16

#: Lines below which a module is small; one with a single user in its folder belongs into that.
SMALL: Final = 60

#: Small modules that stand alone all the same -> why.
APART: Final = {
    "core.model.instance_details": "the cluster's module would have more than 400 lines",
    "plugins.shadow.config": "the configuration is read without loading the shadows",
}


def lines_of_code(file: Path) -> int:
    """Lines with code on them: no blank ones, comments and docstrings."""
    source = file.read_text()
    texts = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {
        line
        for token in tokens
        if token.type not in (*layout, tokenize.ENDMARKER)
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - texts)


def test_the_kernel_is_small() -> None:
    number = sum(map(lines_of_code, kernel()))
    assert number <= LARGEST_KERNEL, "move what an allocation does not need out of the kernel"


def test_the_core_is_small() -> None:
    number = sum(map(lines_of_code, modules("core")))
    assert number <= LARGEST_CORE, "move what only one room uses to that room"


@pytest.mark.parametrize("room", ARROWS)
def test_folders_are_small(room: str) -> None:
    faults = []
    for folder in {file.parent for file in modules(room)}:
        number = sum(file.name != "__init__.py" for file in folder.glob("*.py"))
        if number > LARGEST_FOLDER:
            name = folder.relative_to(ROOT)
            faults.append(f"{name} holds {number} modules; divide it by subject")
    assert faults == []


def small_parts(room: str) -> dict[str, str]:
    """Small modules -> the only module that imports each, where that is beside it."""
    importers: dict[str, set[str]] = {name: set() for name in within(room)}
    for name in (name for each in ARROWS for name in modules(each)):
        for _, target in imports_of(name):
            for module in (target, target.rpartition(".")[0]):
                own = module.removeprefix(f"{PACKAGE}.")
                if own in importers and own != name_of(name):
                    importers[own].add(name_of(name))
    return {
        module: importer
        for module, (importer, *more) in ((m, sorted(i)) for m, i in importers.items() if i)
        if not more and importer.rpartition(".")[0] == module.rpartition(".")[0]
        if len((ROOT / f"{module.replace('.', '/')}.py").read_text().splitlines()) < SMALL
    }


@pytest.mark.parametrize("room", ARROWS)
def test_small_modules_are_shared(room: str) -> None:
    faults = [
        f"{module} is used by {importer} only: fold it into that"
        for module, importer in small_parts(room).items()
        if module not in APART
    ]
    assert faults == []


def test_a_small_part_is_found() -> None:
    assert set(APART) <= {module for room in ARROWS for module in small_parts(room)}


@pytest.mark.parametrize("room", ARROWS)
def test_packages_hold_a_docstring_only(room: str) -> None:
    """``core`` also has the name every plugin needs."""
    faults = [
        f"{file.relative_to(ROOT)} holds more than a docstring; move it to a module"
        for file in modules(room)
        if file.name == "__init__.py" and file.parent != ROOT / "core"
        for tree in [ast.parse(file.read_text())]
        if len(tree.body) != 1 or not ast.get_docstring(tree)
    ]
    assert faults == []


def setuptools() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


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
