"""Options of several commands: what is passed to the allocators, suggestions, the picture."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, Final

from ganeti_steward.allocators.advice.case import USUAL_LIMIT
from ganeti_steward.allocators.balancing.planning.plan_balance import BalanceOptions
from ganeti_steward.allocators.state.names import meant_nodes
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import MIN_GAIN_PER_GIB, Balance

_DEFAULT: Final = Balance()

#: The units of the options that shape a plan, and of what plans print.
UNITS: Final = "Copied data is in GiB, gains are differences of the cluster score."


def option(
    parser: argparse._ActionsContainer, names: str, text: str, *, several: bool = False, **more: Any
) -> None:
    """Declare an option with its names and its value as help prints them: ``-G, --group GROUP``.

    One without a value is a flag.  ``several``: it may be given several times; ``more``: other
    arguments of ``add_argument``.
    """
    *others, last = names.split(", ")
    last, _, value = last.partition(" ")
    if several:
        more |= {"action": "append", "default": []}
    if value:
        more["metavar"] = value
    else:
        more.setdefault("action", "store_true")
    parser.add_argument(*others, last, help=text, **more)


def add_passed_options(
    parser: argparse.ArgumentParser, *, example: str = "--no-capacity-checks"
) -> None:
    """``example``: an option that makes sense with the command."""
    text = "an option as Ganeti would pass it to an allocator; may be given several times, "
    option(parser, "--option OPTION", f"{text}e.g. --option={example}", several=True)


def add_advice_options(parser: argparse.ArgumentParser) -> None:
    """What is to be found out about a refusal."""
    text = "the first thing that keeps the instance from this node, and what would remove it"
    option(parser, "--why-not NODE", text)
    text = "seconds of CPU to look for changes that would help (default: %(default)g; 0: none)"
    option(parser, "--effort SECONDS", text, type=_seconds, default=USUAL_LIMIT)


def add_plot_option(parser: argparse.ArgumentParser, what: str) -> None:
    """``what``: the moment, in addition to now, that the picture shows."""
    text = f"draw memory, disk, CPU and N+1 reserve of each node now and {what}, as SVG"
    option(parser, "--plot FILE.svg", text)


def add_offline_option(parser: argparse.ArgumentParser) -> None:
    """What is as if nodes had failed; see `meant_nodes`."""
    text = (
        "take this node as offline, or all nodes of a node group, or all with a tag such as "
        "power:a; may be given several times"
    )
    option(parser, "-O, --offline NODE", text, several=True)


def add_balance_options(parser: argparse.ArgumentParser) -> None:
    """hbal's options that shape a plan; most are named after the field of `Balance`."""
    text = "at most so many moves in all; default: no limit"
    option(parser, "-l, --max-length N", text, type=_whole, dest="max_moves")
    add_offline_option(parser)
    text = "only this node group, by name or uuid; may be given several times"
    option(parser, "-G, --group GROUP", text, several=True)
    text = "move only instances that have an unusable node"
    option(parser, "-E, --evac-mode", text, dest="evacuate")
    text = "only moves that end what check names, none that just even out"
    option(parser, "--only-repairs", text)
    text = "copy no disks: migrations only"
    option(parser, "--no-disk-moves", text, dest="disk_moves", action="store_false")
    text = "leave primaries: replace disks only"
    option(parser, "--no-instance-moves", text, dest="instance_moves", action="store_false")
    option(parser, "--restricted-migration", "migrate only off drained nodes")
    option(parser, "--select-instances NAME,...", "move only these instances", action="append")
    option(parser, "--exclude-instances NAME,...", "do not move these instances", several=True)
    text = (
        "what a move must lower the score by where that is at or below --min-gain-limit, and "
        "always where it goes beyond hbal's moves; default: %(default)s"
    )
    option(parser, "-g, --min-gain DELTA", text, type=_number(0), default=_DEFAULT.min_gain)
    text = "above this score any gain will do for hbal's moves; default: %(default)s"
    least = _DEFAULT.min_gain_limit
    option(parser, "--min-gain-limit SCORE", text, type=_number(0), default=least)
    text = (
        "what copying must lower the score by for each GiB; "
        f"default: {MIN_GAIN_PER_GIB:g} for what goes beyond hbal's moves"
    )
    option(parser, "--min-gain-per-gib DELTA", text, type=_number(0))
    text = "copy at most so much in all; default: no limit"
    option(parser, "--max-copy GIB", text, type=_number(0))
    text = "how many times more a step that copies disks must gain; default: %(default)s"
    factor = _DEFAULT.disk_factor
    names = "--avoid-disk-moves FACTOR"
    option(parser, names, text, type=_number(1), default=factor, dest="disk_factor")
    text = "htools' utilisation file: in each line an instance and its CPU, memory, disk and "
    option(parser, "-U, --dynu-file FILE", f"{text}network load; default: 1 each")
    text = "use the CPU load that node agents report, as the maintenance daemon keeps it; on the "
    option(parser, "--load", f"{text}master")
    add_passed_options(parser, example="--mond")


def balance_options(options: argparse.Namespace, cluster: Cluster) -> BalanceOptions:
    """The parsed options as a value; only the groups and tags of ``-O`` are resolved yet."""
    given = {name: value for name, value in vars(options).items() if name in Balance._fields}
    select = options.select_instances
    return BalanceOptions(
        Balance(**given),
        offline=tuple(meant_nodes(options.offline, cluster)),
        groups=tuple(options.group),
        select=None if select is None else tuple(select),
        exclude=tuple(options.exclude_instances),
    )


def with_loads(cluster: Cluster, options: argparse.Namespace, passed: Options) -> Cluster:
    """The cluster with the loads of ``-U`` and ``--load``; raises StewardError."""
    if passed.ignore_dynu:
        return cluster
    notes = []
    # Most calls have neither.
    if options.dynu_file is not None:
        from ganeti_steward.allocators.loads.utilisation import read_utilisation, with_utilisation

        cluster, note = with_utilisation(cluster, read_utilisation(options.dynu_file))
        notes += [note] if note else []
    if options.load:
        from ganeti_steward.allocators.loads.agent_loads import with_kept_loads
        from ganeti_steward.allocators.loads.load_reports import NoLoads

        try:
            cluster = with_kept_loads(cluster)
        except NoLoads as err:
            notes.append(f"CPU load not used: {err}")
    print_notes(notes)
    return cluster


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"a number of seconds is expected, found {quoted(text)}")
    return seconds


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
