"""The manual as a site: one command builds it, and it has all that the pages have."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from asserting import some
from chromium import browser
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


def test_the_search_makes_no_request(site: Path) -> None:
    """A page of a disk may start no worker, and read nothing but scripts."""
    search = site / "search"
    assert {file.name for file in search.iterdir()} == {"index.js", "lunr.js", "main.js"}
    assert not re.search(r"\bWorker\b|\bfetch\(|XMLHttpRequest", (search / "main.js").read_text())
    index = json.loads(
        (search / "index.js").read_text().removeprefix("const manual_index = ").rstrip(";\n")
    )
    indexed = {one["location"].partition("#")[0] for one in index["docs"]}
    assert {str(page) for page in PAGES} <= indexed


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_search_works_from_a_disk_and_stays_in_view(
    site: Path, scheme: str, tmp_path: Path
) -> None:
    with browser(tmp_path / "profile") as page:
        page.size(1280, 900)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.call("Emulation.setEmulatedMedia", features=features)
        page.open(f"{(site / 'search.html').as_uri()}?q=drained%20node")
        page.until("document.querySelectorAll('#mkdocs-search-results article a').length > 3")
        links = page.run("[...document.querySelectorAll('article a')].map(one => one.href)")
        assert all(Path(link.partition("#")[0].removeprefix("file://")).is_file() for link in links)
        page.run("document.querySelector('.wy-side-scroll').scrollTop = 600")
        top = "document.querySelector('.wy-side-nav-search').getBoundingClientRect().top"
        assert page.run(top) == 0
        background = page.run(
            "getComputedStyle(document.querySelector('.wy-nav-content')).backgroundColor"
        )
        assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 150) == (scheme == "dark")
