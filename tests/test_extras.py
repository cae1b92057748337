"""Extras can be taken away: each is a folder or module, and rows that name it."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import clusters
import pytest
from rooms import ARROWS, PACKAGE, ROOT, imports_of, modules, name_of

BUILT_INS: Final = "core/builtins.py"
#: Extra -> the file with the rows that name it.
EXTRAS: Final = {
    "allocators.text_format": BUILT_INS,
    "plugins.compared_nodes": BUILT_INS,
    "plugins.exporter": BUILT_INS,
    "plugins.filters.analysis": "plugins/filters/cli/filter.py",
    "plugins.maintenance.harep": BUILT_INS,
    "plugins.maintenance.repairs.repair_storage": BUILT_INS,
    "plugins.shadow": BUILT_INS,
    "plugins.simulation": "plugins/maintenance/cli/commands.py",
}


def is_in(module: str, extra: str) -> bool:
    return module == extra or module.startswith(f"{extra}.")


@pytest.mark.parametrize("extra", EXTRAS)
def test_nothing_else_imports_it(extra: str) -> None:
    importers = {
        name_of(file)
        for room in ARROWS
        for file in modules(room)
        for _, name in imports_of(file)
        if is_in(name.removeprefix(f"{PACKAGE}."), extra) and not is_in(name_of(file), extra)
    }
    assert importers == set()


def without_rows(source: str, extra: str) -> str:
    """A table's file without the rows that name an extra, fully or from its own folder on."""
    named = re.compile(rf"[\".]({re.escape(extra)}|{re.escape(extra.rpartition('.')[2])})[\".:]")
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        rows: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Tuple):
            rows = [(one, one) for one in node.elts if isinstance(one, ast.Call)]
        elif isinstance(node, ast.Dict):
            rows = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key]
        for first, last in rows:
            end = last.end_lineno or last.lineno
            if named.search("".join(lines[first.lineno - 1 : end])):
                lines[first.lineno - 1 : end] = [""] * (end - first.lineno + 1)
    return "".join(lines)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with no extra."""
    path = tmp_path_factory.mktemp("bare")
    ignored = shutil.ignore_patterns("__pycache__")
    for room in ARROWS:
        shutil.copytree(ROOT / room, path / PACKAGE / room, ignore=ignored)
    for extra, table in EXTRAS.items():
        rows = path / PACKAGE / table
        before = rows.read_text()
        rows.write_text(without_rows(before, extra))
        place = path / PACKAGE / extra.replace(".", "/")
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.with_suffix(".py").unlink()
    return path


def run(bare: Path, source: str, *arguments: str) -> str:
    path = f"import sys; sys.path.insert(0, {str(bare)!r}); "
    done = subprocess.run(
        [sys.executable, "-P", "-c", path + source, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=bare,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


ALLOCATION: Final = "from ganeti_steward.core.iallocator.main import main; sys.exit(main())"
COMMAND: Final = "from ganeti_steward.core.commands.main import main; sys.exit(main(sys.argv[1:]))"


def test_without_all_of_them_an_allocation_is_answered(bare: Path, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(clusters.cluster(3, "allocate-pair")))
    answer = json.loads(run(bare, ALLOCATION, str(file)))
    assert answer["success"], answer["info"]


@pytest.mark.parametrize("words", ["--help", "plugins", "check-config --sample", "filter --help"])
def test_without_all_of_them_the_commands_are_there(bare: Path, words: str) -> None:
    printed = run(bare, COMMAND, *words.split())
    assert printed
    assert not re.search(r"^ *(shadow|exporter|harep|repair-storage|lint) ", printed, re.MULTILINE)


EVERYTHING: Final = """
import importlib, pkgutil
for room in sys.argv[1:]:
    package = importlib.import_module(f"ganeti_steward.{room}")
    for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(one.name)
        print(one.name)
"""


def test_without_all_of_them_every_module_can_be_imported(bare: Path) -> None:
    imported = run(bare, EVERYTHING, *ARROWS).split()
    assert len(imported) > 300
    gone = [name for name in imported for extra in EXTRAS if is_in(name, f"{PACKAGE}.{extra}")]
    assert gone == []
