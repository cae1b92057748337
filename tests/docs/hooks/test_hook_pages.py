"""Every hook has a page of the usual form, an example with a test, and a test of plugins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hook_pages import HOOKS, PAGES, fences
from paths import ROOT

from ganeti_steward.core.builtins import HOOKSPECS, module


def test_every_hook_has_a_page() -> None:
    assert HOOKS
    assert sorted(page.stem for page in PAGES.iterdir()) == HOOKS


def test_the_page_of_plugins_names_every_hook() -> None:
    text = (ROOT / "docs" / "how-to" / "write-a-plugin.md").read_text()
    assert set(re.findall(r"/hooks/(\w+)\.md\)", text)) == set(HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_page(hook: str) -> None:
    """What each page must hold."""
    text = (PAGES / f"{hook}.md").read_text()
    assert text.startswith(f"# {hook}\n")
    for word in ("**Called**", "**Gets**", "**Returns**", "**Failure.**", "**Configuration.**"):
        assert word in text
    assert len(fences(hook, "python")) == 1
    assert len(fences(hook, "toml")) == 1
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert all((PAGES / target).is_file() for target in targets)


@pytest.mark.parametrize("hook", HOOKS)
def test_signature(hook: str) -> None:
    """The page's first block names the arguments the hook really has."""
    (shown,) = re.findall(rf"^```\n{hook}\((.*?)\) -> ", (PAGES / f"{hook}.md").read_text(), re.M)
    (declared,) = (one for room in HOOKSPECS if (one := getattr(module(room), hook, None)))
    code = declared.__code__
    assert tuple(filter(None, shown.split(", "))) == code.co_varnames[: code.co_argcount]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_example_has_a_test(hook: str) -> None:
    files = Path(__file__).parent.glob("test_hook_examples*.py")
    assert any(f"def test_{hook}(" in file.read_text() for file in files)


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test(hook: str) -> None:
    """Some plugin in the tests of hooks or of plugins implements it."""
    used = [
        file.name
        for folder in ("core/hooks", "plugins")
        for file in (ROOT / "tests" / folder).rglob("*.py")
        if re.search(rf"\b{hook}\b", file.read_text())
    ]
    assert used
