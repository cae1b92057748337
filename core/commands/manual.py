"""Parsers of commands, and what their help has after the options: examples, units, statuses.

A command declares that once, with `describe`; ``--help`` and the man pages print it.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn

from ganeti_steward.core.commands.tables import WIDTH, table
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, EXIT_USAGE

#: The exit statuses of a command that declares no others.
STATUSES: Final[Mapping[int, str]] = {
    EXIT_OK: "done",
    EXIT_FAILURE: "the input, the configuration or the environment cannot be used",
    EXIT_USAGE: "the command line cannot be used",
}
#: The unit of options that take a size.
SIZES: Final = "Sizes are in MiB; with a suffix as in 512m, 4g or 1.5t in MiB, GiB or TiB."

#: Where the parser of a command has its manual.
_ATTRIBUTE: Final = "manual"


class Manual(NamedTuple):
    """What a command declares for its help and its man page."""

    examples: Mapping[str, str]
    """command line -> what it does"""
    statuses: Mapping[int, str]
    """exit status -> meaning"""
    units: str = ""
    """sentences; empty where no option and no output has a unit"""
    lists: Mapping[str, Mapping[str, str]] = {}
    """title -> word -> meaning: words that an argument takes"""


def describe(
    parser: argparse.ArgumentParser,
    examples: Mapping[str, str],
    *,
    statuses: Mapping[int, str] | None = None,
    units: str = "",
    lists: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Declare what the help of a command has after its options; see `Manual`.

    ``statuses``: those that differ from `STATUSES`, and further ones.
    """
    manual = Manual(examples, {**STATUSES, **(statuses or {})}, units, lists or {})
    vars(parser)[_ATTRIBUTE] = manual
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = textwrap.fill(parser.description or "", WIDTH)
    parser.epilog = "\n\n".join(_parts(manual))


def manual_of(parser: argparse.ArgumentParser) -> Manual | None:
    """What was declared for a command; None where nothing was."""
    found: Manual | None = vars(parser).get(_ATTRIBUTE)
    return found


#: Letters that hbal has and a command here may not, for its error; see the table of letters.
_INSTEAD: Final = {
    "-t": "-t is the disk template in all commands; --text-data reads htools' text format",
    "-O": "-O names an offline node in all commands; --option passes an option to the allocators",
    "-p": "-p is a port in all commands; --print-nodes prints the nodes",
}


class Parser(argparse.ArgumentParser):
    """A parser that gets its options when it has to parse: only the called command's are made."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None
    """adds the options; None: it has them"""

    def filled(self) -> None:
        """Add the options unless that was done."""
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)

    def parse_known_args(self, *args: Any, **more: Any) -> Any:
        """As in argparse, which also prints the help in here.

        What a command does not know is its own error: its usage is printed, not that of all.
        """
        self.filled()
        found, unknown = super().parse_known_args(*args, **more)
        if unknown and not self._subparsers:
            message = f"unrecognized arguments: {' '.join(unknown)}"
            self.error(message)
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Print usage and message, and exit with status 2.

        For a letter that means something else in hbal the message names the option here.
        """
        unknown = message.removeprefix("unrecognized arguments: ").split(None, 1)[0][:2]
        hint = _INSTEAD.get(unknown, "") if message.startswith("unrecognized") else ""
        super().error(f"{message} ({hint})" if hint else message)


def fill_all(parser: argparse.ArgumentParser) -> None:
    """Add the options of a parser and of all sub-commands below it."""
    if isinstance(parser, Parser):
        parser.filled()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                fill_all(sub)


def add_subcommand(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    fill: Callable[[argparse.ArgumentParser], None] | None = None,
) -> argparse.ArgumentParser:
    """A parser with one line, without a full stop, for the list and for its own help.

    ``fill``: adds its options once the sub-command is called; None: the caller adds them.
    """
    sub = subparsers.add_parser(name, help=text.replace("%", "%%"), description=sentence(text))
    if isinstance(sub, Parser):
        sub.fill = fill
    elif fill is not None:
        fill(sub)
    return sub


def add_subcommands(
    parser: argparse.ArgumentParser, what: str, dest: str = "what"
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Where the sub-commands of a command go, of which one is required; ``what``: as in usage."""
    parser.epilog = f"{parser.prog} {what} --help prints options, examples and exit statuses."
    return parser.add_subparsers(dest=dest, metavar=what, required=True)


def sentence(text: str) -> str:
    """A line as a sentence: with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def _parts(manual: Manual) -> Iterator[str]:
    for title, words in manual.lists.items():
        yield f"{title}:\n{_rows(words)}"
    if manual.units:
        yield "units:\n" + textwrap.fill(
            manual.units, WIDTH, initial_indent="  ", subsequent_indent="  "
        )
    yield "examples:\n" + "\n".join(_examples(manual.examples))
    yield "exit status:\n" + _rows({str(n): text for n, text in sorted(manual.statuses.items())})


def _examples(examples: Mapping[str, str]) -> Iterator[str]:
    for line, text in examples.items():
        yield f"  {line}"
        yield textwrap.fill(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _rows(rows: Mapping[str, str]) -> str:
    """Words and their meanings in two columns."""
    text = table(["", ""], [(f"  {a} ", b) for a, b in rows.items()], no_headers=True, width=WIDTH)
    return text.rstrip("\n")
