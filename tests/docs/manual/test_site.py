"""The manual as a site: one command builds it, and it has all that the pages have."""

from __future__ import annotations

import html
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from asserting import some
from paths import DOCS, ROOT

PAGES: Final = sorted(page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md"))
_CODE: Final = re.compile(r"<pre><code[^>]*>(.*?)</code></pre>", re.DOTALL)
_FENCE: Final = re.compile(r"^```[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mkdocs is strict here: a link or an anchor that leads nowhere is an error."""
    directory = tmp_path_factory.mktemp("manual") / "site"
    command = [ROOT / "contrib" / "manual" / "build", directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{directory}/index.html\n"
    return directory


def test_every_page_is_in_the_navigation(site: Path) -> None:
    menu = (site / "index.html").read_text().split('role="main"')[0]
    linked = set(re.findall(r'href="([^"#]+)"', menu))
    assert [str(page) for page in PAGES if str(page) not in linked] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in some(PAGES):
        text = (site / page).read_text()
        loaded = re.findall(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="([^"]*)"', text)
        assert loaded
        assert [address for address in loaded if "//" in address] == []


def test_code_is_shown_as_code(site: Path) -> None:
    """Commands in lists, too: renderers of Markdown differ in what belongs to an item."""
    commands = 0
    for page in PAGES:
        source = (DOCS / page.with_suffix(".md")).read_text()
        shown = [html.unescape(block) for block in _CODE.findall((site / page).read_text())]
        assert [block for block in _FENCE.findall(source) if block not in shown] == [], page
        lines = {line for block in shown for line in block.splitlines()}
        indented = re.findall(r"^ {3,}((?:gnt-|systemctl |cp ).*)$", _FENCE.sub("", source), re.M)
        assert [line for line in indented if line not in lines] == [], page
        commands += len(indented)
    assert commands > 100
