"""``--plot``: the nodes as a picture in a file."""

from __future__ import annotations

import argparse

from ganeti_steward.core.drawing.amounts import Overview
from ganeti_steward.core.drawing.picture import svg
from ganeti_steward.core.errors import StewardError, reason_of


def add_plot_option(parser: argparse.ArgumentParser, what: str) -> None:
    """``what``: the moment, in addition to now, that the picture shows."""
    parser.add_argument(
        "--plot",
        metavar="FILE.svg",
        help=f"draw memory, disk, CPU and N+1 reserve of each node now and {what}, as SVG",
    )


def write_plot(path: str, overview: Overview, title: str, note: str) -> None:
    """Write the picture to a file; ``note``: the line below its title.  Raises StewardError."""
    write_text(path, svg(overview, title, note))


def write_text(path: str, text: str) -> None:
    """Write a file that the user has named; raises StewardError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as err:
        raise StewardError(f"{path}: {reason_of(err)}") from None
