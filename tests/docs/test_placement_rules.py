"""Docstrings cite sections of two pages by number, and pages by path: each of them exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
#: Word of a citation -> the page with its sections.
PAGES: Final = {
    word: ROOT / "docs" / "explanation" / f"{name}.md"
    for word, name in {"allocation": "placement-rules", "job-filters": "job-filters"}.items()
}
ROOMS: Final = ("core", "allocators", "plugins", "diagnose", "tests")
NUMBER: Final = r"\d+(?:\.\d+)?"
NUMBERS: Final = rf"({NUMBER}(?:(?:,| to| and)\s+{NUMBER})*)"


def cited(word: str, text: str) -> list[str]:
    citations = re.findall(rf"{word}\s+{NUMBERS}", text)
    return [number for found in citations for number in re.findall(NUMBER, found)]


def sections(word: str) -> list[str]:
    return re.findall(rf"^#+ ({NUMBER})\.? ", PAGES[word].read_text(), re.MULTILINE)


@pytest.mark.parametrize("word", PAGES)
def test_every_number_cited_is_a_section(word: str) -> None:
    known = sections(word)
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    numbers = [(file, number) for file in files for number in cited(word, file.read_text())]
    faults = [f"{file.relative_to(ROOT)}: {word} {n}" for file, n in numbers if n not in known]
    assert faults == []
    assert len(numbers) > len(known)


def sources() -> list[Path]:
    return [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]


def numbered() -> set[str]:
    """What a reader takes for the name of a page.  Jobs have numbers of their own."""
    folders = {file.parent.name for file in sources() if file.name == "__init__.py"}
    return folders - {"jobs"} | {page.stem for page in (ROOT / "docs").rglob("*.md")}


def cited_without_page(text: str, names: set[str]) -> list[str]:
    citations = re.findall(rf"\(([a-z][a-z_-]*)\s+({NUMBER})[,) ]", text)
    return [f"{word} {n}" for word, n in citations if word in names and word not in PAGES]


def test_no_other_page_is_cited_by_number() -> None:
    names = numbered()
    assert cited_without_page('"""Merged (diagnose 1.1), (zlib 1) and (job-filters 2)."""', names)
    faults = [
        f"{file.relative_to(ROOT)}: {citation}: name the page, docs/.../NAME.md"
        for file in sources()
        if file != Path(__file__)
        for citation in cited_without_page(file.read_text(), names)
    ]
    assert faults == []


def test_every_page_cited_by_path_exists() -> None:
    cited_pages = {
        (file, page)
        for file in sources()
        for page in re.findall(r"``(docs/[\w/-]+\.\w+)``", file.read_text())
    }
    assert cited_pages
    faults = [
        f"{file.relative_to(ROOT)}: {page} does not exist"
        for file, page in sorted(cited_pages)
        if not (ROOT / page).is_file()
    ]
    assert faults == []


@pytest.mark.parametrize("word", PAGES)
def test_sections_are_numbered_in_order(word: str) -> None:
    numbers = sections(word)
    assert numbers == sorted(numbers, key=lambda n: [int(part) for part in n.split(".")])
    assert len(numbers) == len(set(numbers))


def test_citations_of_every_form_are_found() -> None:
    text = "allocation 4.4, (allocation 3.2 to 3.6), allocation 6 and\n7; allocation 3.4, 11)"
    assert cited("allocation", text) == ["4.4", "3.2", "3.6", "6", "7", "3.4", "11"]
