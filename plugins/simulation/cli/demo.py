"""``gnt-steward demo``: a cluster with failing hardware, played on this machine."""

from __future__ import annotations

import argparse
from typing import Final

from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError

#: Bounds of --speed.
_SLOWEST: Final = 0.1
_FASTEST: Final = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the page is, and how long everything lasts."""
    describe(
        parser,
        {
            "gnt-steward demo": "about a minute; open the page whose address it prints",
            "gnt-steward demo --roll": "all nodes are rebooted, and meanwhile the fans of one fail",
            "gnt-steward demo --keep": "the page stays until Ctrl-C",
            "gnt-steward demo --port 8816": "the page at this port of 127.0.0.1",
        },
        statuses={
            EXIT_OK: "the story has ended as it should; with --keep: a signal has ended it then",
            EXIT_FAILURE: "it cannot be played, for example because the port is taken; or a "
            "signal has ended it before its end",
        },
    )
    add = parser.add_argument
    add("--roll", action="store_true", help="play planned maintenance of all nodes")
    add("--keep", action="store_true", help="keep page and cluster until Ctrl-C")
    add("-p", "--port", type=int, default=0, help="TCP port of the page; default: a free one")
    add(
        "--speed",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help=f"shorten pauses and jobs, {_SLOWEST:g} to {_FASTEST:g}; default: %(default)g",
    )


def run(options: argparse.Namespace) -> int:
    """Play it; raises StewardError when that is impossible."""
    from ganeti_steward.plugins.simulation.demo.run import run_demo

    if not _SLOWEST <= options.speed <= _FASTEST:
        bounds = f"{_SLOWEST:g} to {_FASTEST:g}"
        raise StewardError(f"--speed {options.speed:g}: a number from {bounds} is expected")
    return run_demo(options.port, options.speed, roll=options.roll, keep=options.keep)
