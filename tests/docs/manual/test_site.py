"""The manual as a site: one command builds it, and it has all that the pages have."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from asserting import some
from chromium import Browser, browser
from paths import DOCS, ROOT

pytestmark = pytest.mark.full

PAGES: Final = sorted(page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md"))
#: Start, tasks, wide tables, commands, a hook, long code, long names of tests; the search.
LOOKED_AT: Final = (
    "index.html",
    "how-to/common-tasks.html",
    "how-to/operate.html",
    "reference/values.html",
    "reference/configuration.html",
    "reference/commands/balance.html",
    "reference/hooks/steward_plan.html",
    "explanation/security.html",
    "search.html?q=drained",
)
#: What a reader types into the search -> the page that must come first.
SOUGHT: Final = {
    "fencing": "explanation/dead-nodes.html",
    "slack": "reference/glossary.html",
    "quota": "reference/glossary.html",
    "rack": "how-to/common-tasks.html",
    "volume group": "reference/commands/volume-groups.html",
}
_CODE: Final = re.compile(r"<pre><code[^>]*>(.*?)</code></pre>", re.DOTALL)
_FENCE: Final = re.compile(r"^```[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mkdocs is strict here: a link or an anchor that leads nowhere is an error."""
    directory = tmp_path_factory.mktemp("manual") / "site"
    if find_spec("mkdocs") is None:
        subprocess.run([ROOT / "contrib" / "setup", "docs"], capture_output=True, check=True)
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


def test_every_column_has_a_title_and_every_table_its_box(site: Path) -> None:
    tables = 0
    for page in PAGES:
        text = (site / page).read_text()
        assert re.findall(r"<th[^>]*></th>", text) == [], page
        assert text.count("<table>") == text.count('<div class="table"><table>'), page
        tables += text.count("<table>")
    assert tables > 100


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


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path / "profile") as found:
        yield found


def show(page: Browser, address: str, width: int, scheme: str) -> None:
    page.size(width, 900)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.call("Emulation.setEmulatedMedia", features=features)
    page.open(address)


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_and_nothing_is_beside_the_window(
    site: Path, chromium: Browser, width: int, scheme: str
) -> None:
    """Code and tables that are too wide scroll by themselves, with the keyboard, too."""
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    scrolled = dict[str, int]()
    for page in LOOKED_AT:
        show(chromium, f"{site.as_uri()}/{page}", width, scheme)
        if "?" in page:
            chromium.until("document.querySelectorAll('article').length > 3")
        assert (page, chromium.faults(), chromium.run(wide)) == (page, [], 0)
        boxes = "[...document.querySelectorAll('pre > code, div.table')]"
        wider = f"{boxes}.filter(one => one.scrollWidth > one.clientWidth)"
        scrolled[page] = chromium.run(f"{wider}.length")
        assert chromium.run(f"{wider}.every(one => one.tabIndex === 0)")
    assert scrolled["reference/values.html"] if width == 390 else any(scrolled.values())


@pytest.mark.thorough
def test_names_in_tables_stay_whole(site: Path, chromium: Browser) -> None:
    """On a telephone, too: a name of 16 characters is in one line."""
    show(chromium, (site / "reference/values.html").as_uri(), 390, "light")
    names = "[...document.querySelectorAll('td:first-child code')]"
    broken = f"{names}.filter(one => one.getClientRects().length > 1).map(one => one.textContent)"
    assert chromium.run(f"{names}.length") > 50
    assert [name for name in chromium.run(broken) if len(name) <= 16] == []


@pytest.mark.thorough
def test_the_menu_opens_with_the_keyboard(site: Path, chromium: Browser) -> None:
    show(chromium, (site / "index.html").as_uri(), 390, "light")
    opened = "document.querySelector('.wy-nav-side').classList.contains('shift')"
    chromium.until("document.querySelector('button[data-toggle=wy-nav-top]')")
    for key in [("Enter", 13), (" ", 32)]:
        before = chromium.run(opened)
        chromium.run("document.querySelector('button[data-toggle=wy-nav-top]').focus()")
        chromium.press(*key)
        assert chromium.run(opened) is not before


@pytest.mark.thorough
def test_the_entry_of_the_page_is_in_view(site: Path, chromium: Browser) -> None:
    """The search above the menu does not cover it."""
    for page in ("index.html", "reference/values.html"):
        show(chromium, (site / page).as_uri(), 1280, "light")
        entry = chromium.run("document.querySelector('li.current > a').getBoundingClientRect().top")
        end = "document.querySelector('.wy-side-nav-search').getBoundingClientRect().bottom"
        assert entry >= chromium.run(end), page


@pytest.mark.thorough
def test_results_of_the_search_have_the_words_and_no_page_twice(
    site: Path, chromium: Browser
) -> None:
    show(chromium, f"{(site / 'search.html').as_uri()}?q=drained", 1280, "light")
    chromium.until("document.querySelectorAll('#mkdocs-search-results article').length > 3")
    texts = "[...document.querySelectorAll('article')].map(one => one.innerText)"
    results = [text.split("\n\n") for text in chromium.run(texts)]
    titles = [title for title, *_ in results]
    assert titles.count("Drain the job queue") == 1
    first = dict[str, str](result for result in results if len(result) == 2)
    assert "drain" in first["Drain the job queue"].lower()


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


@pytest.mark.thorough
def test_the_search_finds_the_right_page_first(site: Path, chromium: Browser) -> None:
    """Words of the glossary lead to the page that explains them."""
    for words, page in some(SOUGHT.items()):
        show(chromium, f"{(site / 'search.html').as_uri()}?q={quote(words)}", 1280, "light")
        chromium.until("document.querySelector('#mkdocs-search-results article a')")
        first = chromium.run("document.querySelector('#mkdocs-search-results article a').href")
        assert first.removeprefix(f"{site.as_uri()}/").partition("#")[0] == page, words
