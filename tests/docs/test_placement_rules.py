"""Docstrings cite the placement rules by number: each number is a section of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "explanation" / "placement-rules.md"
ROOMS: Final = ("core", "allocators", "plugins", "diagnose", "tests")
NUMBER: Final = r"\d+(?:\.\d+)?"
CITATION: Final = re.compile(rf"allocation\s+({NUMBER}(?:(?:,| to| and)\s+{NUMBER})*)")


def cited(text: str) -> list[str]:
    return [number for found in CITATION.findall(text) for number in re.findall(NUMBER, found)]


def sections() -> set[str]:
    return set(re.findall(rf"^#+ ({NUMBER})\.? ", PAGE.read_text(), re.MULTILINE))


def test_every_number_cited_is_a_section() -> None:
    known = sections()
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    numbers = [(file, number) for file in files for number in cited(file.read_text())]
    faults = [f"{file.relative_to(ROOT)}: allocation {n}" for file, n in numbers if n not in known]
    assert faults == []
    assert len(numbers) > len(known)


def test_sections_are_numbered_in_order() -> None:
    numbers = re.findall(rf"^#+ ({NUMBER})\.? ", PAGE.read_text(), re.MULTILINE)
    assert numbers == sorted(numbers, key=lambda n: [int(part) for part in n.split(".")])
    assert len(numbers) == len(set(numbers))


def test_citations_of_every_form_are_found() -> None:
    text = "allocation 4.4, (allocation 3.2 to 3.6), allocation 6 and\n7; allocation 3.4, 11)"
    assert cited(text) == ["4.4", "3.2", "3.6", "6", "7", "3.4", "11"]
