"""The parsers of all commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ganeti_steward.core.commands.main import parser


def parsers(
    one: argparse.ArgumentParser | None = None, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """The front parser, and those of all commands and sub-commands, each with its words."""
    one = one or parser()
    yield words, one
    for action in one._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from parsers(inner, (*words, name))
