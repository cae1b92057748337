"""Options of several commands: what is passed to the allocators, suggestions, the picture."""

from __future__ import annotations

import argparse
import math

from ganeti_steward.allocators.advice.suggestion import USUAL_LIMIT
from ganeti_steward.core.json_reader import quoted


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


def add_advice_options(parser: argparse.ArgumentParser) -> None:
    """What is to be found out about a refusal."""
    parser.add_argument(
        "--why-not",
        metavar="NODE",
        help="the first thing that keeps the instance from this node, and what would remove it",
    )
    parser.add_argument(
        "--effort",
        metavar="SECONDS",
        type=_seconds,
        default=USUAL_LIMIT,
        help="seconds of CPU to look for changes that would help (default: %(default)g; 0: none)",
    )


def add_plot_option(parser: argparse.ArgumentParser, what: str) -> None:
    """``what``: the moment, in addition to now, that the picture shows."""
    parser.add_argument(
        "--plot",
        metavar="FILE.svg",
        help=f"draw memory, disk, CPU and N+1 reserve of each node now and {what}, as SVG",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"a number of seconds is expected, found {quoted(text)}")
    return seconds
