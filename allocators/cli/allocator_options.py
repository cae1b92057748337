"""The option that passes others on to the allocators, as Ganeti passes its parameters."""

from __future__ import annotations

import argparse


def add_passed_options(
    parser: argparse.ArgumentParser, *, short: bool = True, example: str = "--no-capacity-checks"
) -> None:
    """``short`` False leaves ``-O`` to the command."""
    names = ("-O", "--option") if short else ("--option",)
    parser.add_argument(
        *names,
        action="append",
        default=[],
        metavar="OPTION",
        help="an option as Ganeti would pass it to an allocator; may be given several times, "
        f"e.g. {names[0]}={example}",
    )
