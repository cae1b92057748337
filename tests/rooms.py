"""The rooms, their modules, and what each imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "ganeti_steward"

#: Room -> the rooms it may import in addition to itself.
ARROWS: Final = {
    "core": set[str](),
    "allocators": {"core"},
    "plugins": {"core", "allocators"},
    "diagnose": {"core"},
}

#: The folders of the core that load hooks, dispatch a request and write the answer.
KERNEL: Final = ("model", "config", "hooks", "iallocator")


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


@cache
def imports_of(file: Path) -> tuple[tuple[int, str], ...]:
    """What a module of the project imports, with the lines; each file is parsed once."""
    parts = [PACKAGE, *file.relative_to(ROOT).parent.parts]
    return tuple(imported(ast.parse(file.read_text()), ".".join(parts)))


def name_of(file: Path) -> str:
    """The dotted name of a module, the room first."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def within(room: str) -> dict[str, set[str]]:
    """Module -> the modules of the same room it imports, lazily or for types only, too."""
    known = {name_of(file): file for file in modules(room)}
    found: dict[str, set[str]] = {}
    for module, file in known.items():
        own = {name.removeprefix(f"{PACKAGE}.") for _, name in imports_of(file)}
        targets = {name if name in known else name.rpartition(".")[0] for name in own}
        found[module] = {t for t in targets if t in known and t != module and "." in t}
    return found


def kernel() -> list[Path]:
    """The modules of the kernel."""
    return [file for folder in KERNEL for file in modules(f"core/{folder}")]


def folders() -> set[str]:
    """Every folder of a room that is a package, as a path."""
    return {
        str(file.parent.relative_to(ROOT))
        for room in ARROWS
        for file in (ROOT / room).rglob("__init__.py")
    }
