"""The option that passes others on to the allocators, as Ganeti passes its parameters."""

from __future__ import annotations

import argparse


def add_passed_options(
    parser: argparse.ArgumentParser, *, example: str = "--no-capacity-checks"
) -> None:
    """``example``: an option that makes sense with the command."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="OPTION",
        help="an option as Ganeti would pass it to an allocator; may be given several times, "
        f"e.g. --option={example}",
    )
