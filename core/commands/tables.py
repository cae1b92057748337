"""Tables the way gnt-* commands print them: aligned columns, or a separator for scripts."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from ganeti_steward.core.json_reader import printable
from ganeti_steward.core.units import UNITS

#: Columns of a terminal that texts and tables fit.
WIDTH: Final = 80
#: Columns that a wrapped cell has at least.
_NARROWEST: Final = 24


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Ganeti's two options for lists."""
    parser.add_argument("--no-headers", action="store_true", help="leave out the headings")
    parser.add_argument("--separator", metavar="SEP", help="put SEP between the fields")


def add_units_option(parser: argparse.ArgumentParser) -> None:
    """Ganeti's option for the sizes in a table."""
    parser.add_argument(
        "--units",
        choices=UNITS,
        help="the unit of memory and disk: h (scaled, with a suffix), m, g or t; default: h, "
        "with --separator m",
    )


def units_of(options: argparse.Namespace) -> str:
    """The unit chosen, or that of Ganeti's commands."""
    default = "h" if options.separator is None else "m"
    return str(options.units or default)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    separator: str | None = None,
    no_headers: bool = False,
    width: int | None = None,
) -> str:
    """The rows as text, one line each; the last column is not padded.

    ``width``: columns of the whole; the last cell is wrapped to fit.  Texts of others, such as
    those of records and reports, cannot change the terminal.
    """
    shown = [*([] if no_headers else [headings]), *rows]
    lines = [[printable(cell) for cell in line] for line in shown]
    if separator is not None:
        return "".join(separator.join(line) + "\n" for line in lines)
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(headings))]
    text = []
    for line in lines:
        cells = [cell.ljust(size) for cell, size in zip(line, widths, strict=True)]
        before = " ".join([*cells[:-1], ""])
        text.append((before + line[-1]).rstrip() + "\n")
        if width is not None and len(text[-1]) > width:
            room = max(width - len(before), _NARROWEST)
            text[-1] = _hanging(line[-1], before, " " * len(before), len(before) + room)
    return "".join(text)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines with texts of others in them, which cannot change the terminal."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


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


def for_terminal(text: str) -> str:
    """A sentence wrapped where it is printed on a terminal, otherwise in one line, for grep."""
    if not sys.stdout.isatty():
        return f"{text}\n"
    return wrapped(text, shutil.get_terminal_size().columns)


def print_notes(notes: Iterable[str]) -> None:
    """What the user should read in addition to the result."""
    for note in notes:
        print(f"Note: {note}", file=sys.stderr)
