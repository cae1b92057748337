"""The man pages: complete, and without a fault that mandoc finds."""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import man_pages
import pytest
from asserting import some
from installed import need

from ganeti_steward.core.commands.config_texts import sections
from ganeti_steward.core.commands.main import parser
from ganeti_steward.core.commands.registry import built_in_commands
from ganeti_steward.core.iallocator.main import USAGE

DATE = "2026-01-31"


@cache
def pages() -> dict[str, str]:
    return {page.file: page.text for page in man_pages.pages(DATE)}


def plain(text: str) -> str:
    """A page without markup, in one line."""
    words = re.sub(r"\\f[BIR]|\\&", "", text).replace(r"\-", "-").replace(r"\(aq", "'")
    return " ".join(words.replace(r"\(ha", "^").replace(r"\e", "\\").split())


def all_parsers(one: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield one
    for sub in man_pages.sub_parsers(one).values():
        yield from all_parsers(sub)


def test_which_pages_there_are() -> None:
    own = {f"gnt-steward-{name}.8" for name in built_in_commands()}
    assert set(pages()) == own | {"gnt-steward.8", "steward.toml.5", "steward-iallocator.7"}


def test_every_option_and_argument_is_in_the_page_of_its_command() -> None:
    for name, one in some(man_pages.sub_parsers(parser()).items()):
        text = plain(pages()[f"gnt-steward-{name}.8"])
        for sub in all_parsers(one):
            for action in sub._actions:
                if not isinstance(action, argparse._SubParsersAction):
                    words = action.option_strings or [action.metavar or action.dest]
                    assert all(str(word) in text for word in words), (sub.prog, words)
        assert "EXAMPLES" in text.upper()
        assert "EXIT STATUS" in text.upper()


def test_a_page_names_the_package_that_need_not_be_installed() -> None:
    commands = built_in_commands()
    named = [
        name
        for name in commands
        if "in the Debian package ganeti-steward-simulation."
        in plain(pages()[f"gnt-steward-{name}.8"])
    ]
    assert named == [name for name in commands if commands[name].command.package]
    assert sorted(named) == ["demo", "simulate"]


def test_every_key_is_in_the_page_of_the_file() -> None:
    text = plain(pages()["steward.toml.5"])
    for section in some(sections()):
        _, found, after = text.partition(f'.SH "{section.title.upper()}"')
        assert found
        for alike in section.rows:
            assert ", ".join(key.name for key in alike) in after
            assert " ".join(alike[0].text.replace("`", "").split()) in after


def test_every_option_of_the_allocator_is_in_its_page() -> None:
    text = plain(pages()["steward-iallocator.7"])
    for option in some(re.findall(r"^  (-\S+)", USAGE, re.MULTILINE)):
        assert option in text


@pytest.mark.parametrize("name", ["gnt-steward.8", "gnt-steward-filter.8", "steward.toml.5"])
def test_the_first_line_names_page_version_and_date(name: str) -> None:
    first = plain(pages()[name].partition("\n")[0])
    stem, _, section = name.rpartition(".")
    assert first.startswith(f'.TH "{stem.upper()}" {section} "{DATE}" "ganeti-steward 0.')


@pytest.mark.full
def test_mandoc_finds_no_fault(tmp_path: Path) -> None:
    mandoc = need("mandoc", "mandoc")
    for name, text in pages().items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in pages()]
    # Other pages need not be installed where this runs.
    done = subprocess.run(
        [mandoc, "-Tlint", "-Wstyle", *files],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.full
def test_no_line_is_wider_than_a_terminal() -> None:
    """Examples are not wrapped, so they have to fit."""
    mandoc = need("mandoc", "mandoc")
    for name, text in some(pages().items()):
        shown = subprocess.run(
            [mandoc, "-Tascii", "-Owidth=80"],
            capture_output=True,
            check=True,
            input=text,
            text=True,
            timeout=300,
        ).stdout
        lines = re.sub(".\b", "", shown).splitlines()
        assert len(lines) > 20
        assert [line for line in lines if len(line) > 80] == [], name
