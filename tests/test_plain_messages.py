"""The messages and help texts of the programs avoid turns of German grammar in English words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

import pytest
from asserting import some
from command_parsers import parsers
from rooms import ARROWS, ROOT, modules

#: A turn, and what to write in its place: ``there is no ...`` and ``would have to`` are English.
TURNS: Final = {
    r"(?<!\bthere )\b(?:is|are|was|were|be) no\b(?! (?:longer|more)\b)": "is not a ...",
    # A clause with a verb follows; "..., for 5 s" and "..., for scripts" are no reasons.
    r", for (?!example\b|instance\b)(?:[\w'-]+ ){1,4}?"
    r"(?:is|are|was|were|has|have|had|can|could|may|might|must|does|do|did|answered|ended)\b": (
        "because ..."
    ),
    r"^(?:What|One|Who) |[.:] (?:What|One|Who) ": "the noun",
    r"\b(?:is|are|was|were) to be\b|\bhas to\b|(?<!\bwould )\bhave to\b": "must ...",
}


class Text(NamedTuple):
    """A text that a program can print."""

    where: str
    """file and line, or a command"""
    words: str
    """with ``X`` for each value"""


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each string but docstrings; an f-string is one with ``X`` for its values."""
    nodes = list(ast.walk(tree))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    # A string that is a statement of its own is a docstring.
    others = parts | {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            pieces = (one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
            yield node.lineno, "".join(map(str, pieces))
        elif isinstance(node, ast.Constant) and id(node) not in others:
            yield node.lineno, str(node.value)


@cache
def messages() -> tuple[Text, ...]:
    """The string literals of the four rooms that have several words."""
    return tuple(
        Text(f"{file.relative_to(ROOT)}:{line}", text)
        for room in ARROWS
        for file in modules(room)
        for line, text in literals(ast.parse(file.read_text()))
        if " " in text
    )


@cache
def helps() -> tuple[Text, ...]:
    """The descriptions, epilogs and options of all commands."""
    return tuple(
        Text(" ".join(words), text)
        for words, one in parsers()
        for text in (one.description, one.epilog, *(action.help for action in one._actions))
        if text
    )


def faults(texts: Iterable[Text], turn: str) -> list[str]:
    pattern = re.compile(turn, re.MULTILINE)
    return [f"{one.where}: {one.words}" for one in some(texts) if pattern.search(one.words)]


@pytest.mark.parametrize("turn", TURNS)
def test_messages(turn: str) -> None:
    assert faults(messages(), turn) == [], f"write: {TURNS[turn]}"


@pytest.mark.parametrize("turn", TURNS)
def test_help_texts(turn: str) -> None:
    assert faults(helps(), turn) == [], f"write: {TURNS[turn]}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("X is no name of a command", True),
        ("there is no key X", False),
        ("it is no longer open", False),
        ("it is kept, for its data is there", True),
        ("two columns, for a script", False),
        ("it stays, for example because the port is taken", False),
        ("What a node has.", True),
        ("done. One of its nodes fails", True),
        ("it has to be above 0", True),
        ("nodes that are to be moved", True),
        ("X would have to keep 5 MiB", False),
    ],
)
def test_turns(text: str, found: bool) -> None:
    assert any(faults([Text("", text)], turn) for turn in TURNS) == found
