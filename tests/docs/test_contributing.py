"""What CONTRIBUTING.md names exists: files, tests, tasks; the source map is that of the folders."""

from __future__ import annotations

import re
import subprocess
from typing import Final

import pytest
from paths import DOCS, ROOT

TEXT: Final = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES: Final = {
    title: text
    for part in TEXT.split("\n### ")[1:]
    for title, _, text in [part.split("\n## ")[0].partition("\n")]
}
KINDS: Final = (
    "repair",
    "collector",
    "recipe",
    "HTTP resource",
    "metric",
    "state",
    "command",
    "request type",
    "notification",
    "configuration key",
    "member",
    "term",
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_extension_has_a_recipe(kind: str) -> None:
    """Files to touch, and tests: that they exist is tested with those of all pages."""
    (text,) = [text for title, text in RECIPES.items() if re.match(rf"Add an? {kind}\b", title)]
    files, _, tests = text.partition("\nTests that fail without it: ")
    assert re.search(r"^\| `\w+/", files, re.MULTILINE)
    assert "`tests/" in tests


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        *((kind, 3) for kind in ("repair", "collector", "recipe", "HTTP resource", "metric")),
        ("state", 2),
    ],
)
def test_few_files_are_touched(kind: str, most: int) -> None:
    (text,) = [text for title, text in RECIPES.items() if re.match(rf"Add an? {kind}\b", title)]
    rows = re.findall(r"^\| (`(?:core|allocators|plugins|diagnose)/[^|]*) \|", text, re.MULTILINE)
    files = [file for row in rows for file in row.split(", ")]
    assert 0 < len(files) <= most, f"gather what a new {kind} needs in fewer files than {files}"


def test_the_tests_named_exist() -> None:
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", TEXT)
    assert len(named) > 20
    for file, function in named:
        path = ROOT / file
        assert path.exists(), file
        assert not function or f"\ndef {function}(" in path.read_text(), f"{file}::{function}"


def test_the_tasks_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^(\w+):", makefile, re.MULTILINE)
    used = set(re.findall(r"(?:^    |`)make (\w+)", TEXT, re.MULTILINE))
    assert used
    assert used <= {*targets}
    assert f".PHONY: {' '.join(targets)}\n" in makefile
    for script in re.findall(r"^\tcontrib/[\w/-]+", makefile, re.MULTILINE):
        assert (ROOT / script.strip()).is_file(), script


def test_the_source_map_is_that_of_the_folders() -> None:
    done = subprocess.run([ROOT / "contrib" / "source-map"], capture_output=True, check=True)
    page = DOCS / "explanation" / "source-map.md"
    assert page.read_text() == done.stdout.decode(), (
        "run: contrib/source-map > docs/explanation/source-map.md"
    )
