"""Lists with columns the user chooses, as text or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

import orjson

from ganeti_steward.core.commands.tables import add_table_options, table
from ganeti_steward.core.errors import StewardError

#: A field of a list: a word, how many, yes or no, names.
Value = str | int | bool | Sequence[str]


def add_field_options(parser: argparse.ArgumentParser, fields: Mapping[str, str]) -> None:
    """``-o``, ``--json`` and Ganeti's two options for lists; ``fields``: name -> heading."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FIELD,...",
        help="the columns; after a + in addition to the usual ones; known: " + ", ".join(fields),
    )
    add_json_option(parser, "the same as data, without -o with all fields")
    add_table_options(parser)


def add_json_option(parser: argparse.ArgumentParser, text: str) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help=text)


def print_json(data: object) -> None:
    """The data of ``--json``."""
    try:
        raw = orjson.dumps(data, option=orjson.OPT_INDENT_2)
    except orjson.JSONEncodeError:
        # Numbers of more than 64 bits, as others may have written them, or halves of a text.
        raw = json.dumps(data, indent=2).encode()
    sys.stdout.buffer.write(raw + b"\n")


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
    )
    sys.stdout.write(text)


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
