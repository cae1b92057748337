"""The structure: which room and sub-room may import which, and how large a folder may be."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "ganeti_steward"

#: Room -> the rooms it may import in addition to itself.
ARROWS: Final = {
    "core": set[str](),
    "allocators": {"core"},
    "plugins": {"core", "allocators"},
    "diagnose": {"core"},
}

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
        "jobs",
        "rules",
        "score",
        "placement",
        "capacity",
        "moves",
        "rolling",
        "balancing",
        "overview",
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
        "page",
        "daemon",
        "cli",
    ),
    "plugins/simulation": ("", "demo", "cli"),
}

#: The folders of the core that load hooks, dispatch a request and write the answer.
KERNEL: Final = ("model", "config", "hooks", "iallocator")

#: What the kernel stands on: the modules directly in the core, and child processes.
BELOW_KERNEL: Final = ("", "process")

#: Lines of code of the kernel, without blank lines, comments and docstrings.
LARGEST_KERNEL: Final = 3600

#: Lines of code of the whole core, likewise.
LARGEST_CORE: Final = 8000

#: The only module of the core that names modules of other rooms.
BUILTINS: Final = "core/builtins.py"

#: Modules a folder may hold in addition to ``__init__``; more means that it has two subjects.
LARGEST_FOLDER: Final = 16

#: Lines below which a module is small; one with a single user in its folder belongs into that.
SMALL: Final = 60

#: Small modules that stand alone all the same -> why.
APART: Final = {
    "core.model.instance_details": "the cluster's module would have more than 400 lines",
    "plugins.shadow.config": "the configuration is read without loading the shadows",
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


@cache
def imports_of(file: Path) -> tuple[tuple[int, str], ...]:
    """What a module of the project imports, with the lines; each file is parsed once."""
    parts = [PACKAGE, *file.relative_to(ROOT).parent.parts]
    return tuple(imported(ast.parse(file.read_text()), ".".join(parts)))


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


def kernel() -> list[Path]:
    """The modules of the kernel."""
    return [file for folder in KERNEL for file in modules(f"core/{folder}")]


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


@pytest.mark.parametrize("room", [*ARROWS, "tests"])
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


@pytest.mark.parametrize("room", ARROWS)
def test_only_commands_read_arguments(room: str) -> None:
    """Everything else takes values, so that a daemon can call it, too."""
    faults = [
        f"{file.relative_to(ROOT)}:{line} imports argparse; parse in commands/ or cli/ and pass a "
        "value"
        for file in modules(room)
        if file.parent.name not in ("commands", "cli")
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
