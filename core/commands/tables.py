"""Tables the way gnt-* commands print them: aligned columns, or a separator for scripts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence


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
) -> str:
    """The rows as text, one line each; the last column is not padded."""
    lines = [*([] if no_headers else [headings]), *rows]
    if separator is not None:
        return "".join(separator.join(line) + "\n" for line in lines)
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(headings))]
    text = []
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        text.append(" ".join(cells).rstrip() + "\n")
    return "".join(text)


def print_notes(notes: Iterable[str]) -> None:
    """What the user should read in addition to the result."""
    for note in notes:
        print(f"Note: {note}", file=sys.stderr)
