"""Every option is in the manual, and every command line of the manual is one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from asserting import some
from command_parsers import parsers
from paths import DOCS, ROOT

from ganeti_steward.core.commands.main import parser

REFERENCE: Final = DOCS / "reference"
#: Without those of hooks, whose examples add commands.
PAGES: Final = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "hooks"),
]
#: Pages about the options of several commands.
SHARED: Final = "\n".join(
    (REFERENCE / page).read_text() for page in ("cluster-sources.md", "commands/index.md")
).split("## Pictures")[0]
#: Commands with options on a page that theirs refers to.
ELSEWHERE: Final = {"diagnose": "diagnose.md", "check": "commands/balance.md"}

#: What stands for a value on a page -> a value.
_PLACEHOLDERS: Final = {"PORT": "1817", "JOB": "12", "RECIPE": "drain"}
_BLOCK: Final = re.compile(r"^(?: {4,}|\$ )(?:\S*/)?gnt-steward (.*)$", re.MULTILINE)
_SPAN: Final = re.compile(r"`gnt-steward ([a-z][^`]*)`")


def page_of(command: str) -> str:
    text = (REFERENCE / "commands" / f"{command}.md").read_text() + SHARED
    return text + (REFERENCE / ELSEWHERE[command]).read_text() if command in ELSEWHERE else text


FRONT: Final = parser()
COMMANDS: Final = {words: one for words, one in parsers(FRONT) if words}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_is_on_the_page_of_its_command(words: tuple[str, ...]) -> None:
    page = page_of(words[0])
    for action in some(COMMANDS[words]._actions):
        names = action.option_strings
        found = [name for name in names if re.search(rf"(?<![\w-]){name}(?![\w-])", page)]
        assert found or not names, f"{' or '.join(names)} is not on the page of {words[0]}"


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words after ``gnt-steward``; what a shell would do with them is cut off."""
    text = page.read_text()
    for found in _BLOCK.findall(text) + _SPAN.findall(text):
        # An explanation follows after two blanks, or as a comment.
        line = re.sub(r"\s{2,}.*| #.*|[\[\]]|\.\.\.|\bOPTION\b", "", found)
        words = shlex.split(line)
        end = next((i for i, word in enumerate(words) if word in {"|", ">", ";"}), len(words))
        yield [_PLACEHOLDERS.get(word, word) for word in words[:end]]


def fault_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the program prints about a command line that it cannot use."""
    try:
        FRONT.parse_args(words)
    except SystemExit as end:
        return capsys.readouterr().err if end.code else ""
    return ""


def test_every_command_line_of_the_manual_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    # The name of a group of commands is no whole line.
    lines = [
        (page, words)
        for page in PAGES
        for words in command_lines(page)
        if tuple(words) not in COMMANDS
    ]
    assert len(lines) > 100
    for page, words in lines:
        assert fault_of(words, capsys) == "", page
