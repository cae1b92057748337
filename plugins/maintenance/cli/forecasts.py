"""Forecasts for people: who makes them, the list of steps, and how it ends."""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.allocators.rolling.pace import Pace
from ganeti_steward.core.builtins import MAINTENANCE, module
from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import source_options
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.terminal import progress
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.sources import open_luxid
from ganeti_steward.core.json_reader import counted
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.forecast.rates import FIELDS as JOB_FIELDS
from ganeti_steward.plugins.maintenance.forecast.rates import Learned, learned
from ganeti_steward.plugins.maintenance.forecast.steps import Forecast, Step
from ganeti_steward.plugins.model.world import World
from ganeti_steward.plugins.texts import local_time

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.plugins.model.incident import Incident

#: Fields of the list of steps -> headings.
FIELDS: Final = {
    "begin": "Begin",
    "end": "End",
    "minutes": "Minutes",
    "node": "Node",
    "step": "Step",
    "copied": "GiB",
    "moves": "Moves",
    "reason": "Reason",
}
USUAL: Final = ("begin", "minutes", "node", "step", "copied", "moves")

#: Fields of `Pace` that are options -> what they are.
_PACES: Final = {
    "copied_per_second": "MiB of disks that are copied per second",
    "migrated_per_second": "MiB of memory that a migration copies per second",
    "failover_seconds": "seconds of a failover, or of a shutdown and a start",
}
_MINUTES: Final = 10
#: What plays the daemon's rounds; of a package that need not be installed.
_ENGINE: Final = "ganeti_steward.plugins.simulation.forecast"
#: A list without options.
_PLAIN: Final = {"output": None, "json": False, "separator": None, "no_headers": False}


def add_times(parser: argparse.ArgumentParser) -> None:
    """How long the work on a node takes, and how fast instances move, see `rates_of`."""
    text = "minutes that the work on a node takes, or its reboot; default: 10"
    parser.add_argument(
        "--reboot-minutes", type=_positive, metavar="N", default=_MINUTES, help=text
    )
    for field, text in _PACES.items():
        usual = Pace._field_defaults[field]
        shown = f"{text}; default: as the jobs in Ganeti's queue show, otherwise {usual:g}"
        option = f"--{field.replace('_', '-')}"
        parser.add_argument(option, type=_positive, metavar="NUMBER", help=shown)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("it must be above 0")
    return value


def luxid_of(options: argparse.Namespace) -> Luxi | None:
    """The client of luxid, where the cluster is read from it; raises StewardError."""
    source = source_options(options)
    if source.message_file or source.text_file or source.rapi:
        return None
    return open_luxid(source)


def rates_of(options: argparse.Namespace, cluster: Cluster, luxid: Luxi | None) -> Learned:
    """As the options have them, or as the job queue shows; raises StewardError."""
    moves = configuration(("maintd",)).section(Maintd).moves_at_once
    rows = luxid.rows("job", JOB_FIELDS) if luxid else ()
    found = learned(rows, cluster, Pace(at_once=moves))
    given = {field: getattr(options, field, None) for field in _PACES}
    chosen = {field: value for field, value in given.items() if value is not None}
    return found._replace(pace=found.pace._replace(**chosen), given=tuple(chosen))


def _engine() -> Any:
    try:
        return module(_ENGINE)
    except ModuleNotFoundError:
        raise StewardError(
            "a forecast needs the package ganeti-steward-simulation, which is not installed"
        ) from None


def forecast_of(
    options: argparse.Namespace, world: World, incidents: Iterable[Incident], rates: Learned
) -> Forecast:
    """What the daemon is going to do; raises StewardError."""
    engine, pace = _engine(), rates.pace
    assumed = engine.CALM._replace(
        reboot_minutes=options.reboot_minutes,
        copied_per_second=pace.copied_per_second,
        migrated_per_second=pace.migrated_per_second,
        failover_seconds=pace.failover_seconds,
        set_up_seconds=pace.set_up_seconds,
        short_seconds=pace.short_seconds,
    )
    with progress("playing the daemon's rounds"):
        found: Forecast = engine.forecast(world, configuration(MAINTENANCE), assumed, incidents)
    return found


def world_now(cluster: Cluster, luxid: Luxi | None) -> World:
    """A cluster without any report; raises StewardError."""
    world: World = _engine().start(cluster, time.time_ns())
    if luxid is None:
        return world
    return world._replace(candidate_pool_size=luxid.info()["candidate_pool_size"])


def print_forecast(found: Forecast, rates: Learned, options: argparse.Namespace) -> None:
    """The steps, how each incident ends, and what the times are from.

    ``options``: those of `add_times`, and of `tables.add_field_options` if there are any.
    """
    rows = [_row(one) for one in found.steps]
    if "output" not in options:
        options = argparse.Namespace(**{**_PLAIN, **vars(options)})
    tables.print_fields(options, FIELDS, USUAL, rows)
    if options.json or options.no_headers or options.separator is not None:
        return
    minutes = options.reboot_minutes
    tables.print_lines(_ends(found))
    tables.print_lines([f"assumed: {minutes:g} min for the work on a node, {rates.sentence}"])


def _row(one: Step) -> Mapping[str, tables.Value]:
    copied = sum(move.copied for move in one.moves)
    return {
        "begin": local_time(one.begun),
        "end": local_time(one.ended),
        "minutes": f"{(one.ended - one.begun) / 60e9:.1f}" if one.ended else "-",
        "node": one.node,
        "step": one.step,
        "copied": f"{copied / 1024:.1f}",
        "moves": [move.words for move in one.moves],
        "reason": one.reason,
    }


def _ends(found: Forecast) -> Iterator[str]:
    """Those that do not end well one by one, the others as a number."""
    for one in found.outcomes:
        if one.at and not one.well:
            yield f"{one.node} ends {one.state} at {local_time(one.at)}: {one.reason}"
        elif not one.at:
            yield f"{one.node} does not end: {one.reason}"
    states = Counter(one.state if one.at else "without an end" for one in found.outcomes)
    counts = ", ".join(f"{number} {state}" for state, number in states.items())
    yield f"{counted(len(found.outcomes), 'node')}: {counts or 'nothing is done'}"
    if found.end:
        took = (found.end - found.begun) / 60e9
        yield f"the end is at {local_time(found.end)}, {took:.1f} minutes from now"
