"""The structure: which room and sub-room may import which."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from rooms import (
    ARROWS,
    KERNEL,
    PACKAGE,
    ROOT,
    folders,
    imported,
    imports_of,
    kernel,
    modules,
    name_of,
    within,
)

#: Folder -> its folders in order: a module imports its own folder or those before it.
#: "" stands for the modules directly in the folder.
ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "core": (
        "",
        "process",
        "model",
        "config",
        "service",
        "ganeti",
        "node_agent",
        "hooks",
        "iallocator",
        "commands",
    ),
    "allocators/balancing": ("", "planning"),
    "allocators": (
        "state",
        "loads",
        "jobs",
        "rules",
        "score",
        "placement",
        "capacity",
        "moves",
        "rolling",
        "balancing",
        "overview",
        "health",
        "advice",
        "",
        "cli",
    ),
    "diagnose": ("config", "model", "sources", "collectors", "run", "agent", "", "cli"),
    "diagnose/collectors": ("shared", ""),
    "plugins": (
        "model",
        "",
        "aggregates",
        "shadow",
        "filters",
        "exporter",
        "maintenance",
        "simulation",
    ),
    "plugins/aggregates": ("language", "", "cli"),
    "plugins/exporter": ("", "cli"),
    "plugins/filters": ("", "actions", "lint", "cli", "analysis"),
    "plugins/filters/analysis": ("", "cli"),
    "plugins/maintenance": (
        "",
        "confd",
        "engine",
        "edges",
        "queue",
        "repairs",
        "notify",
        "harep",
        "rebalance",
        "shutdown",
        "page",
        "daemon",
        "forecast",
        "cli",
    ),
    "plugins/maintenance/cli": ("", "planned"),
    "plugins/shadow": ("", "cli"),
    "plugins/simulation": ("", "demo", "cli"),
}

#: What the kernel stands on: the modules directly in the core, and child processes.
BELOW_KERNEL: Final = ("", "process")

#: The only module of the core that names modules of other rooms.
BUILTINS: Final = "core/builtins.py"


def rooms_imported(room: str, file: Path) -> set[tuple[int, str]]:
    return {
        (line, name.split(".")[1])
        for line, name in imports_of(file)
        if name.startswith(f"{PACKAGE}.") and name.split(".")[1] != room
    }


@pytest.mark.parametrize("room", ARROWS)
def test_arrows_between_rooms(room: str) -> None:
    assert modules(room)
    faults = [
        f"{file.relative_to(ROOT)}:{line} imports {other}; {room} may import "
        f"{', '.join(sorted(ARROWS[room])) or 'no other room'}: move what both need to core, or "
        f"name the module in {BUILTINS}"
        for file in modules(room)
        for line, other in sorted(rooms_imported(room, file))
        if other not in ARROWS[room]
    ]
    assert faults == []


def test_the_core_names_other_rooms_in_one_module() -> None:
    other = re.compile(rf'"{PACKAGE}\.(allocators|plugins|diagnose)\b')
    faults = [
        f"{file.relative_to(ROOT)}:{number} names a module of another room; do it in {BUILTINS}"
        for file in modules("core")
        if str(file.relative_to(ROOT)) != BUILTINS
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if other.search(line)
    ]
    assert faults == []


def divided() -> list[str]:
    """The folders that hold packages, as paths."""
    return sorted({str(Path(folder).parent) for folder in folders() if "/" in folder})


def room_of(folder: str) -> str:
    return Path(folder).parts[0]


def part(folder: str, module: str) -> str:
    """The folder right below ``folder`` that a module is in; "" directly in ``folder``."""
    name = module.removeprefix(f"{folder.replace('/', '.')}.").split(".")[0]
    return name if (ROOT / folder / name).is_dir() else ""


def arrows_up(folder: str, order: tuple[str, ...]) -> list[str]:
    """Every import from a folder below ``folder`` to one that stands after it."""
    prefix = f"{folder.replace('/', '.')}."
    return [
        f"{module} imports {other}: {part(folder, other) or folder} comes after "
        f"{part(folder, module) or folder}; move what both need down, or the module up"
        for module, others in within(room_of(folder)).items()
        if module.startswith(prefix)
        for other in sorted(others)
        if other.startswith(prefix)
        if order.index(part(folder, other)) > order.index(part(folder, module))
    ]


def test_every_divided_folder_has_an_order() -> None:
    assert set(ORDER) == set(divided())


@pytest.mark.parametrize("folder", ORDER)
def test_arrows_between_folders(folder: str) -> None:
    """``pytest -rP -k arrows_between_folders`` prints the floors."""
    order = ORDER[folder]
    prefix = f"{folder.replace('/', '.')}."
    inside = [name for name in within(room_of(folder)) if name.startswith(prefix)]
    assert {part(folder, name) for name in inside} == set(order), (
        f"give each folder of {folder} its place in ORDER"
    )
    print(f"{folder}: {' <- '.join(name or '(modules)' for name in order)}")
    assert arrows_up(folder, order) == []


def test_an_arrow_up_is_found() -> None:
    assert arrows_up("core", tuple(reversed(ORDER["core"])))


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """One import circle of a graph, its first module again at the end; empty without any."""
    done: set[str] = set()
    path: list[str] = []

    def visit(module: str) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        path.append(module)
        found = next((c for other in sorted(graph[module]) if (c := visit(other))), [])
        path.pop()
        done.add(module)
        return found

    return next((found for module in sorted(graph) if (found := visit(module))), [])


@pytest.mark.parametrize("room", ARROWS)
def test_no_import_circle(room: str) -> None:
    found = circle(within(room))
    assert not found, (
        f"import circle {' -> '.join(found)}: move what both need to a module of its own"
    )


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b"}, "b": set()}) == []


def imported_at_run_time(file: Path) -> set[str]:
    """What a module imports but for what only type checkers see."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    parts = [PACKAGE, *file.relative_to(ROOT).parent.parts]
    return {name for _, name in imported(tree, ".".join(parts))}


def test_the_kernel_imports_no_other_folder_of_the_core() -> None:
    allowed = {*KERNEL, *BELOW_KERNEL}
    faults = [
        f"{file.relative_to(ROOT)} imports {name}, which is not of the kernel"
        for file in kernel()
        for name in sorted(imported_at_run_time(file))
        if name.startswith(f"{PACKAGE}.core.")
        if part("core", name.removeprefix(f"{PACKAGE}.")) not in allowed
    ]
    assert faults == []


#: Imports modules by their names; all others of the program do not exist.
ALONE: Final = """
import importlib, sys

class Others:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] == ["ganeti_steward", "core"]:
            if name.split(".")[2:3] and name.split(".")[2] in {others!r}:
                raise ImportError(name + " is not of the kernel")
        elif name.startswith("ganeti_steward."):
            raise ImportError(name + " is of another room")

sys.meta_path.insert(0, Others())
for name in {names!r}:
    importlib.import_module("ganeti_steward." + name)
"""


def test_the_kernel_is_importable_alone() -> None:
    folders_of_core = {path.name for path in (ROOT / "core").iterdir() if path.is_dir()}
    others = sorted(folders_of_core - {*KERNEL, *BELOW_KERNEL})
    names = [name_of(file) for file in kernel()]
    assert others
    assert len(names) > 20
    source = ALONE.format(others=others, names=names)
    subprocess.run([sys.executable, "-c", source], check=True, timeout=300)


@pytest.mark.parametrize("room", ARROWS)
def test_only_commands_read_arguments(room: str) -> None:
    """Everything else takes values, so that a daemon can call it, too."""
    faults = [
        f"{file.relative_to(ROOT)}:{line} imports argparse; parse in commands/ or cli/ and pass a "
        "value"
        for file in modules(room)
        if {"commands", "cli"}.isdisjoint(file.relative_to(ROOT).parts)
        for line, name in imports_of(file)
        if name == "argparse"
    ]
    assert faults == []


@pytest.mark.parametrize("room", ARROWS)
def test_nothing_is_pickled(room: str) -> None:
    """Reading a pickle runs what its writer wants."""
    faults = [
        f"{file.relative_to(ROOT)}:{line} imports {name}; exchange JSON by core/typed_json.py"
        for file in modules(room)
        for line, name in imports_of(file)
        if name.split(".")[0] in ("pickle", "marshal", "shelve", "copyreg", "multiprocessing")
    ]
    assert faults == []


@pytest.mark.parametrize("room", ARROWS)
def test_rooms_by_their_package_name_only(room: str) -> None:
    """``import core`` would work in a checkout and nowhere else."""
    faults = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in modules(room)
        for line, name in imports_of(file)
        if name.split(".")[0] in ARROWS
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import ganeti_steward.plugins.harep", "plugins"),
        ("import os, ganeti_steward.diagnose as d", "diagnose"),
        ("from ganeti_steward.allocators.state.load import load", "allocators"),
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
