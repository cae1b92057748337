"""All pages together: links lead somewhere, and the index and the commands are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from asserting import some

from ganeti_steward.core.commands.registry import built_in_commands

COMMANDS: Final = tuple(built_in_commands())

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted(ROOT.glob("contrib/*/*.md")),
]

_LINK: Final = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
_CODE: Final = re.compile(r"^```.*?^```$|^    .*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[tuple[str, str]]:
    """Target and anchor of each link that is no address on the web."""
    found = _LINK.findall(_CODE.sub("", page.read_text()))
    return [(target, anchor) for target, anchor in found if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Markdown renderers make them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if links(page)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in some(links(page)):
        file = page.parent / target if target else page
        assert file.exists(), f"{page.relative_to(ROOT)} links to {target}, which does not exist"
        assert not anchor or anchor in anchors(file), f"{target or page.name} has no #{anchor}"


def test_links_of_the_manual_stay_in_it() -> None:
    """The site of the manual has its pages only; files of the source are named as code."""
    targets = [(page, target) for page in DOCS.rglob("*.md") for target, _ in links(page)]
    for page, target in some(targets):
        assert DOCS in (page.parent / target).resolve().parents, f"{page.name}: {target}"


def test_files_of_the_source_exist() -> None:
    pattern = r"`((?:core|allocators|plugins|diagnose|contrib|tests)/[\w./-]+)`"
    named = {path for page in PAGES for path in re.findall(pattern, page.read_text())}
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_command_has_a_page() -> None:
    pages = {page.stem for page in (DOCS / "reference" / "commands").glob("*.md")}
    assert pages == {"index", *COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_a_command_has_its_name(command: str) -> None:
    text = (DOCS / "reference" / "commands" / f"{command}.md").read_text()
    assert text.startswith(f"# gnt-steward {command}\n")


def test_every_page_can_be_reached_from_the_index() -> None:
    found, todo = set[Path](), [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        if page in found or page.suffix != ".md" or DOCS not in page.parents:
            continue
        found.add(page)
        todo += [(page.parent / target).resolve() for target, _ in links(page) if target]
    assert set(DOCS.rglob("*.md")) - found == set()


def test_the_glossary_has_each_term_once_in_one_sentence() -> None:
    """In the order of the alphabet; a reader must be able to look through it."""
    lines = re.findall(r"^- (.*)$", (DOCS / "reference" / "glossary.md").read_text(), re.MULTILINE)
    terms = [re.findall(r"\*\*(.*?)\*\*", line)[0].lower() for line in lines]
    assert 30 < len(terms) <= 60
    assert terms == sorted(set(terms))
    texts = [re.sub(r"\([^)]*\)|`[^`]*`", "", line) for line in lines]
    assert [text for text in texts if not re.fullmatch(r"[^.]+\.", text)] == []
