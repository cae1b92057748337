"""Every configuration that a page shows is one: sections, keys and values exist."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

import pytest
from asserting import some
from paths import DOCS

from ganeti_steward.core.config.parse import parse_config

_FENCE: Final = re.compile(r"^ *```toml\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
#: The name of a file, where a block has several.
_FILE: Final = re.compile(r"^# [\w.-]+\.toml\n", re.MULTILINE)
#: In a list, code is indented further than the list's text; it begins with a section.
_INDENTED: Final = re.compile(
    r"^(?P<block>(?P<indent> {4,})\[[a-z.\"]+\]\n(?:(?P=indent).*\n|\n(?=(?P=indent)))*)",
    re.MULTILINE,
)


def configurations(page: Path) -> list[str]:
    """Without the project files of packages."""
    text = page.read_text()
    indented = [textwrap.dedent(found["block"]) for found in _INDENTED.finditer(text)]
    blocks = [block for block in [*_FENCE.findall(text), *indented] if "[project" not in block]
    return [file for block in blocks for file in _FILE.split(block)]


PAGES: Final = {
    str(page.relative_to(DOCS)): found
    for page in sorted(DOCS.rglob("*.md"))
    if (found := configurations(page))
}


def test_there_are_some() -> None:
    assert len(PAGES) > 20
    assert "how-to/repair-nodes.md" in PAGES


@pytest.mark.parametrize("page", PAGES)
def test_the_configurations_of_a_page(page: str) -> None:
    for text in some(PAGES[page]):
        parse_config("steward.toml", text.encode())
