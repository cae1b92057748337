"""``gnt-steward simulate``: what a configuration of the daemon would have done."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.overview.picture import write_text
from ganeti_steward.core.builtins import MAINTENANCE
from ganeti_steward.core.commands.cluster_options import add_source_options, source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import add_json_option, print_json, print_notes, table
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.config.load import config_path, load_config
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.core.ganeti.sources import SourceOptions, open_source
from ganeti_steward.core.ganeti.this_node import SOCKET
from ganeti_steward.plugins.maintenance.config import ACT, NO_LOAD, Maintd, Rebalance
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN
from ganeti_steward.plugins.model.world import World
from ganeti_steward.plugins.simulation.assumptions import HOUR, Assumptions
from ganeti_steward.plugins.simulation.results import Results

if TYPE_CHECKING:
    from ganeti_steward.plugins.simulation.timeline import Side

#: States that are listed -> the words for them.
_ENDS: Final = {
    "completed": "completed",
    "failed": "failed",
    "canceled": "canceled",
    f"{FORGOTTEN} while noted": "over before anything was done",
}


def lines(found: Results, mode: str) -> Iterator[str]:
    """Everything that is counted; the brakes as a table."""
    yield (
        f"{found.assumed.days:g} days of {found.nodes} nodes and {found.instances} instances, "
        f"seed {found.assumed.seed}, mode {mode}"
    )
    yield from _aligned(dict(_figures(found)))
    yield from (f"a round failed: {fault}" for fault in dict.fromkeys(found.faults))
    if found.brakes:
        rows = [
            (name, str(one.subjects), f"{one.held / HOUR:.1f}")
            for name, one in found.brakes.items()
        ]
        yield ""
        yield table(("Brake", "Held back", "Hours"), rows).rstrip("\n")


def _figures(found: Results) -> Iterator[tuple[str, str]]:
    down = sum(found.downtime.values())
    yield "availability", f"{100 * found.availability:.4f} %, instances were down for {down:.1f} h"
    for cause, hours in found.downtime.items():
        yield f"  {cause}", f"{hours:.1f} h"
    yield "nodes that died", f"{found.deaths}, {found.deaths_in_use} of them with instances"
    yield "nodes cut off", str(found.cut_offs)
    only = f", {found.switched_off_running} of them were only cut off"
    yield "nodes switched off", f"{found.switched_off}{only if found.switched_off else ''}"
    yield "instances run twice", ", ".join(found.run_twice) or "none"
    yield "moves", f"{_listed(found.moves)}; {found.copied:.0f} GiB copied"
    yield "jobs that failed", str(found.failed_jobs)
    yield "nodes under repair", f"at most {found.most_under_repair} at once"
    ends = {word: found.states.get(state, 0) for state, word in _ENDS.items()}
    yield "incidents", f"{found.incidents}: {_listed(ends)}"
    yield "incidents left", _listed(found.left)
    yield "incidents stuck", str(found.stuck)
    yield from _rolls(found)
    yield "rounds", f"{found.rounds} that could decide something new"


def _rolls(found: Results) -> Iterator[tuple[str, str]]:
    rolls = found.rolls
    if not found.assumed.roll_days:
        return
    skipped = f", {rolls.skipped} left out as the one before went on" if rolls.skipped else ""
    yield "rolls", f"{rolls.rolls}{skipped}; the longest took {rolls.longest:.1f} h"
    ends = {"done": rolls.done, "failed": rolls.failed, "canceled": rolls.canceled}
    ends |= {"open at the end": rolls.open, "left out": rolls.left_out}
    yield "nodes of rolls", f"{_listed(ends)}; {rolls.reboots} reboots"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none"


def _aligned(rows: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, rows))
    return (f"{name.ljust(width)}  {text}" for name, text in rows.items())


_NODES: Final = 20
#: Instances of a made cluster for each of its nodes.
_INSTANCES: Final = 10

#: Option -> what it means; each is a field of `Assumptions`.
_OPTIONS: Final = {
    "days": "simulated days",
    "deaths": "sudden deaths per node and year",
    "ailments": "faults per node and year that are reported before the node dies of them",
    "ailing_hours": "hours from that report to the death, on average",
    "repairable": "faults per node and year that a repair command can repair",
    "repaired": "share of the repair commands that succeed",
    "flaps": "times per node and year that a report comes and goes for no reason",
    "storms": "times per year that many nodes report a fault at once",
    "storm_nodes": "share of the nodes that do so",
    "cut_offs": "times per node and year that a node loses its network and runs on",
    "cut_off_hours": "hours until its network is back, on average",
    "oob_fails": "share of the calls of out-of-band programs that fail",
    "operator_hours": "hours until an operator attends to a dead node or a result, on average",
    "repair_hours": "hours until that node is back, on average",
    "job_failures": "share of the jobs that fail for no reason",
    "copied_per_second": "MiB of disks that a job copies per second",
    "migrated_per_second": "MiB of memory that a migration copies per second",
    "failover_seconds": "seconds that an instance is down in a failover",
    "roll_days": "days from one planned reboot of all nodes to the next; 0: none",
    "reboot_minutes": "minutes for which a node is away in such a reboot",
}
#: Those of them that are shares, and those that must not be 0.
_SHARES: Final = ("repaired", "storm_nodes", "job_failures", "oob_fails")
_POSITIVE: Final = (
    "days", "ailing_hours", "cut_off_hours", "operator_hours", "repair_hours",
    "copied_per_second", "migrated_per_second", "reboot_minutes",
)  # fmt: skip
_DEFAULTS: Final = Assumptions()

_EXAMPLES: Final = {
    "gnt-steward simulate --act --nodes 20": "a month of a made cluster of 20 nodes",
    "gnt-steward simulate --nodes 200 --days 365 --config FILE": "a year under another file",
    "gnt-steward simulate --act --days 365 --roll-days 30": "a reboot of all nodes each month",
    "gnt-steward simulate --act --compare FILE --plot FILE.svg": "two configurations side by side",
    "gnt-steward simulate --act --plot FILE.svg": "on the master: its cluster as it is now",
}
_UNITS: Final = "Rates are means; the times of failures and people are drawn around them."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration, the cluster and what is assumed of it."""
    add = parser.add_argument
    add("--config", metavar="FILE", help="the configuration; default: the one in use")
    text = "simulate this configuration as well, with the same failures, and show both"
    add("--compare", metavar="FILE", help=text)
    add("--act", action="store_true", help='simulate mode = "act", whatever is configured')
    add("--nodes", type=int, help=f"make a cluster of so many nodes; default: {_NODES}")
    add("--instances", type=int, help=f"its DRBD instances; default: {_INSTANCES} per node")
    add(
        "--seed",
        type=int,
        default=_DEFAULTS.seed,
        help="another number gives other failures; default: %(default)s",
    )
    for field, text in _OPTIONS.items():
        add(
            f"--{field.replace('_', '-')}",
            type=float,
            metavar="NUMBER",
            default=getattr(_DEFAULTS, field),
            help=f"{text}; default: %(default)s",
        )
    add("--plot", metavar="FILE.svg", help="draw the time line, as SVG")
    add_json_option(parser, "the same as data")
    describe(parser, _EXAMPLES, units=_UNITS)
    default = "luxid, on the master; elsewhere a made cluster"
    add_source_options(parser, positional=False, default=default)


def run(options: argparse.Namespace) -> int:
    """Simulate, and print the figures."""
    from ganeti_steward.plugins.simulation.timeline import Side, svg

    assumed, configs, start = _assumptions(options), _configs(options), _start(options)
    found = _simulated(start, configs, assumed)
    names = _names(options)
    sides = [
        Side(name, config.section(Maintd).mode, one)
        for name, config, one in zip(names, configs, found, strict=True)
    ]
    if options.plot is not None:
        write_text(options.plot, svg(sides, start.cluster.name, f"{datetime.now(UTC):%Y-%m-%d}"))
    if options.json and len(sides) == 1:
        print_json(sides[0].results.json())
    elif options.json:
        print_json([{"config": one.name, "mode": one.mode, **one.results.json()} for one in sides])
    else:
        sys.stdout.write("\n".join([*map(_printed, sides), *_saved(sides)]))
    return EXIT_OK


def _printed(side: Side) -> str:
    heading = [f"{side.name}:"] if side.name else []
    return "".join(f"{line}\n" for line in [*heading, *lines(side.results, side.mode)])


def _saved(sides: Sequence[Side]) -> Iterator[str]:
    """How much less the instances are down under the second configuration."""
    first, *others = [sum(one.results.downtime.values()) for one in sides]
    for side, down in zip(sides[1:], others, strict=True):
        change = f"{abs(first - down):.1f} h {'more' if down > first else 'less'}"
        yield f"{side.name} instead of {sides[0].name}: instances were down for {change}\n"


def _simulated(start: World, configs: Sequence[Config], assumed: Assumptions) -> list[Results]:
    """One after the other, with the same failures."""
    from ganeti_steward.plugins.simulation.run import Simulation

    share, found = [0.0], list[Results]()

    def advance(done: float) -> None:
        share[0] = (len(found) + done) / len(configs)

    with _silent(), progress(lambda: _bar(share[0])):
        for config in configs:
            found.append(Simulation(start, config, assumed).run(advance))
    return found


def _names(options: argparse.Namespace) -> list[str]:
    """What the sides are called; there is no need where there is one."""
    if options.compare is None:
        return [""]
    return [config_path() if options.config is None else options.config, options.compare]


def _bar(share: float) -> str:
    """``[#####.....] 50 %``"""
    full = int(share * 20)
    return f"[{'#' * full}{'.' * (20 - full)}] {100 * share:.0f} %"


@contextmanager
def _silent() -> Iterator[None]:
    """What the simulated daemon logs is no line of the real one's log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _assumptions(options: argparse.Namespace) -> Assumptions:
    """Raises StewardError with all faults."""
    faults = []
    for field in _OPTIONS:
        value, name = getattr(options, field), f"--{field.replace('_', '-')}"
        if field in _SHARES and not 0 <= value <= 1:
            faults.append(f"{name} {value:g}: a share from 0 to 1 is expected")
        elif not math.isfinite(value) or value < 0 or (field in _POSITIVE and value == 0):
            least = "more than 0" if field in _POSITIVE else "0 or more"
            faults.append(f"{name} {value:g}: {least} is expected")
    if faults:
        raise StewardError("; ".join(faults))
    return Assumptions(options.seed, **{field: getattr(options, field) for field in _OPTIONS})


def _configs(options: argparse.Namespace) -> list[Config]:
    """The configurations to be simulated; raises BadConfig."""
    paths = [config_path() if options.config is None else options.config]
    if options.compare is not None:
        paths.append(options.compare)
    return [_config(path, act=options.act) for path in paths]


def _config(path: str, *, act: bool) -> Config:
    config = load_config(path, MAINTENANCE)
    print_notes(config.warnings)
    settings = config.section(Maintd)
    if act:
        settings = settings._replace(mode=ACT)
    elif settings.mode != ACT:
        print_notes(['the mode is observe, so nothing is done; --act simulates mode = "act"'])
    sections = {**config.sections, "maintd": settings}
    balancing = config.section(Rebalance)
    if balancing.load_data != NO_LOAD:
        print_notes(["simulated nodes have no measured CPU load, so [rebalance] ignores it"])
        sections["rebalance"] = balancing._replace(load_data=NO_LOAD, by_load=False)
    return config._replace(sections=sections)


def _start(options: argparse.Namespace) -> World:
    """The cluster at the start; raises StewardError."""
    from ganeti_steward.plugins.simulation.made_cluster import made_world, world_of

    given = source_options(options)
    sized = options.nodes is not None or options.instances is not None
    if given == SourceOptions() and (sized or not _may_have_luxid()):
        nodes = _NODES if options.nodes is None else options.nodes
        count = _INSTANCES * nodes if options.instances is None else options.instances
        return made_world(nodes, count, options.seed)
    if sized:
        raise StewardError("--nodes and --instances make a cluster; another one is named, too")
    source = open_source(given)
    print_notes([f"the simulation starts with the cluster of {source.where}", *source.notes])
    return world_of(source.cluster)


def _may_have_luxid() -> bool:
    """Whether luxid's socket is on this node; True also where this user may not look."""
    try:
        os.stat(SOCKET)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
