"""Tables the way gnt-* commands print them: aligned columns, or a separator for scripts.

Lists with columns the user chooses are printed as such a table, or as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TextIO

from ganeti_steward.core.commands.output import ours
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.json_reader import printable

#: Columns of a terminal that texts and tables fit.
WIDTH: Final = 80
#: Columns that a wrapped cell has at least.
_NARROWEST: Final = 24

#: A field of a list: a word, how many, yes or no, names.
Value = str | int | bool | Sequence[str]


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Ganeti's two options for lists."""
    parser.add_argument("--no-headers", action="store_true", help="leave out the headings")
    parser.add_argument("--separator", metavar="SEP", help="put SEP between the fields")


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    separator: str | None = None,
    no_headers: bool = False,
    width: int | None = None,
) -> str:
    """The rows as text, one line each; the last column is not padded.

    ``width``: columns of the whole; the last cell is wrapped to fit, or the line where the other
    cells leave no room for it.  Texts of others, such as
    those of records and reports, cannot change the terminal.
    """
    shown = [*([] if no_headers else [headings]), *rows]
    lines = [[printable(cell) for cell in line] for line in shown]
    if separator is not None:
        return "".join(ours(separator).join(line) + "\n" for line in lines)
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(headings))]
    text = []
    for line in lines:
        cells = [cell.ljust(size) for cell, size in zip(line, widths, strict=True)]
        before = " ".join([*cells[:-1], ""])
        text.append((before + line[-1]).rstrip() + "\n")
        if width is not None and len(text[-1]) > width:
            text[-1] = _narrow(line, before, width)
    return "".join(text)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines with texts of others in them, which cannot change the terminal."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def _narrow(line: Sequence[str], before: str, width: int) -> str:
    """A line wrapped to ``width``; ``before``: its cells but the last, padded."""
    if len(before) + _NARROWEST <= width:
        return _hanging(_divided(line[-1]), before, " " * len(before), width)
    return _hanging(" ".join(map(_divided, line)), "", "    ", width)


def _divided(cell: str) -> str:
    """A cell that can be wrapped: a long list of names behind each comma."""
    return cell.replace(",", ", ") if len(cell) > _NARROWEST and " " not in cell else cell


def _hanging(text: str, first: str, others: str, width: int) -> str:
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "".join(f"{line}\n" for line in lines)


def wrapped(text: str, width: int = WIDTH) -> str:
    """A sentence in lines of this many columns, all but the first indented."""
    return _hanging(text, "", "  ", width)


def print_notes(notes: Iterable[str]) -> None:
    """What the user should read in addition to the result."""
    print_messages(f"Note: {note}" for note in notes)


def print_messages(texts: Iterable[str]) -> None:
    """Sentences on standard error: wrapped on a terminal, otherwise each in one line."""
    for text in map(printable, texts):
        width = terminal_width(sys.stderr)
        line = f"{text}\n" if width is None or len(text) <= width else wrapped(text, width)
        sys.stderr.write(line)


# -- lists with fields


def add_field_options(
    parser: argparse.ArgumentParser,
    fields: Mapping[str, str],
    *,
    json: str = "the same as data, without -o with all fields",
) -> None:
    """``-o``, ``--json`` and Ganeti's two options for lists.

    ``fields``: name -> heading; ``json``: what ``--json`` prints.
    """
    parser.add_argument(
        "-o",
        "--output",
        metavar="FIELD,...",
        help="the columns; after a + in addition to the usual ones; known: " + ", ".join(fields),
    )
    add_json_option(parser, json)
    add_table_options(parser)


def is_list(options: argparse.Namespace) -> bool:
    """Whether rows of fields are wanted, not the text that a command prints for people."""
    return options.output is not None or options.separator is not None


def add_json_option(parser: argparse.ArgumentParser, text: str) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help=text)


def print_json(data: object) -> None:
    """The data of ``--json``."""
    import orjson  # few commands print it

    try:
        text = orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONEncodeError:
        # Numbers of more than 64 bits, as others may have written them, or halves of a text.
        text = json.dumps(data, indent=2, default=_members)
    sys.stdout.write(f"{text}\n")


def _members(value: Any) -> dict[str, Any]:
    """Those of a dataclass, as orjson writes it."""
    from dataclasses import fields  # nearly no output needs it

    return {field.name: getattr(value, field.name) for field in fields(value)}


def print_fields(
    options: argparse.Namespace,
    fields: Mapping[str, str],
    usual: Sequence[str],
    rows: Sequence[Mapping[str, Value]],
) -> None:
    """The rows with the chosen fields; raises StewardError."""
    chosen = chosen_fields(options.output, fields, usual)
    if options.json:
        names = chosen if options.output is not None else fields
        print_json([{name: row[name] for name in names} for row in rows])
        return
    text = table(
        [fields[name] for name in chosen],
        [[_cell(row[name]) for name in chosen] for row in rows],
        separator=options.separator,
        no_headers=options.no_headers,
        width=terminal_width(),
    )
    sys.stdout.write(text)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal that a stream is; None: it is none, lines are not wrapped.

    ``stream``: standard output, if none is given.
    """
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return None
    import shutil  # with the archives it reads

    columns = WIDTH
    with suppress(OSError):
        columns = os.get_terminal_size(stream.fileno()).columns or WIDTH
    return shutil.get_terminal_size((columns, 24)).columns


def chosen_fields(
    given: str | None, fields: Mapping[str, str], usual: Sequence[str]
) -> Sequence[str]:
    """The names of the fields; raises StewardError."""
    if given is None:
        return usual
    more = given.removeprefix("+").split(",")
    unknown = [name for name in more if name not in fields]
    if unknown:
        raise StewardError(f"unknown field {unknown[0]!a} (known: {', '.join(fields)})")
    return [*usual, *more] if given.startswith("+") else more


def _cell(value: Value) -> str:
    if isinstance(value, bool):
        return "Y" if value else "N"
    if isinstance(value, str | int):
        return str(value)
    return ",".join(value) or "-"
