"""Options of several commands: what is passed to the allocators, suggestions, the picture."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Final

from ganeti_steward.allocators.advice.case import USUAL_LIMIT
from ganeti_steward.allocators.balancing.planning.plan_balance import BalanceOptions
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.requests import MIN_GAIN_PER_GIB, Balance


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


_DEFAULT: Final = Balance()

#: The units of these options and of what plans print.
UNITS: Final = "Copied data is in GiB, gains are differences of the cluster score."


def add_balance_options(parser: argparse.ArgumentParser) -> None:
    """hbal's options that shape a plan."""
    _add_scope(parser)
    _add_kinds_of_move(parser)
    _add_instances(parser)
    _add_gains(parser)
    add_passed_options(parser, example="--mond")


def balance_options(options: argparse.Namespace) -> BalanceOptions:
    """The parsed options as a value; names are not resolved yet."""
    select = options.select_instances
    return BalanceOptions(
        Balance(
            max_moves=options.max_length,
            evacuate=options.evac_mode,
            disk_moves=not options.no_disk_moves,
            instance_moves=not options.no_instance_moves,
            restricted_migration=options.restricted_migration,
            min_gain=options.min_gain,
            min_gain_limit=options.min_gain_limit,
            min_gain_per_gib=options.min_gain_per_gib,
            max_copy=options.max_copy,
            disk_factor=options.avoid_disk_moves,
        ),
        offline=tuple(options.offline),
        groups=tuple(options.group),
        select=None if select is None else tuple(select),
        exclude=tuple(options.exclude_instances),
    )


def _add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-l",
        "--max-length",
        type=_whole,
        metavar="N",
        help="at most so many moves in all; default: no limit",
    )
    parser.add_argument(
        "-O",
        "--offline",
        action="append",
        default=[],
        metavar="NODE",
        help="take this node as offline; may be given several times",
    )
    parser.add_argument(
        "-G",
        "--group",
        action="append",
        default=[],
        metavar="GROUP",
        help="only this node group, by name or uuid; may be given several times",
    )
    parser.add_argument(
        "-E",
        "--evac-mode",
        action="store_true",
        help="move only instances that have an unusable node",
    )


def _add_kinds_of_move(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--no-disk-moves", action="store_true", help="copy no disks: migrations only")
    add("--no-instance-moves", action="store_true", help="leave primaries: replace disks only")
    add("--restricted-migration", action="store_true", help="migrate only off drained nodes")


def _add_instances(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--select-instances", action="append", metavar="NAME,...", help="move only these instances")
    add(
        "--exclude-instances",
        action="append",
        default=[],
        metavar="NAME,...",
        help="do not move these instances",
    )


def _add_gains(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-g",
        "--min-gain",
        type=_number(0),
        default=_DEFAULT.min_gain,
        metavar="DELTA",
        help="what a move must lower the score by where that is at or below --min-gain-limit, and "
        "always where it goes beyond hbal's moves; default: %(default)s",
    )
    parser.add_argument(
        "--min-gain-limit",
        type=_number(0),
        default=_DEFAULT.min_gain_limit,
        metavar="SCORE",
        help="above this score any gain will do for hbal's moves; default: %(default)s",
    )
    parser.add_argument(
        "--min-gain-per-gib",
        type=_number(0),
        metavar="DELTA",
        help="what copying must lower the score by for each GiB; "
        f"default: {MIN_GAIN_PER_GIB:g} for what goes beyond hbal's moves",
    )
    parser.add_argument(
        "--max-copy",
        type=_number(0),
        metavar="GIB",
        help="copy at most so much in all; default: no limit",
    )
    parser.add_argument(
        "--avoid-disk-moves",
        type=_number(1),
        default=_DEFAULT.disk_factor,
        metavar="FACTOR",
        help="how many times more a step that copies disks must gain; default: %(default)s",
    )


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"a number is expected, found {text!r}")
    return int(text)


def _number(least: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            raise argparse.ArgumentTypeError(
                f"a number that is not below {least:g} is expected, found {text!r}"
            )
        return value

    return number
