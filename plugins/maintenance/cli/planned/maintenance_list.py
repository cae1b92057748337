"""``gnt-steward maintenance list`` and ``show``: how far the maintenance of each node is."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final

from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.terminal import understands_codes
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.plugins.maintenance.cli.cluster import daemon_waits, live_client
from ganeti_steward.plugins.maintenance.cli.incident import incident_lines
from ganeti_steward.plugins.maintenance.cli.planned import requests
from ganeti_steward.plugins.model.progress import Home, emptied, empties
from ganeti_steward.plugins.texts import local_time

#: Seconds between two looks of ``--watch``: each costs luxid a few queries.
_BETWEEN: Final = 10.0
#: Empties the screen.
_CLEAR: Final = "\x1b[H\x1b[2J"


def list_options(one: argparse.ArgumentParser) -> None:
    """The options of the sub-command ``list``."""
    describe(
        one,
        {
            "gnt-steward maintenance list": "how far the maintenance of each node is",
            "gnt-steward maintenance list --watch": "again and again, until all have ended",
            "gnt-steward maintenance list -o node,state --no-headers": "for scripts",
        },
        units="Times are local, with the offset from UTC.",
    )
    text = "print the list each SECONDS (default: 10) until none is active, or only late ones are"
    one.add_argument(
        "--watch", type=_seconds, nargs="?", const=_BETWEEN, metavar="SECONDS", help=text
    )
    tables.add_field_options(one, requests.FIELDS)
    add_source_options(one, positional=False, files=False)
    one.set_defaults(act=_list)


def _seconds(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 3600:
        raise argparse.ArgumentTypeError("it must be from 1 to 3600")
    return value


def show_options(one: argparse.ArgumentParser) -> None:
    """The options of the sub-command ``show``."""
    describe(one, {"gnt-steward maintenance show node3": "all that is recorded of it"})
    one.add_argument("node", help="a node, or the uuid of its maintenance")
    add_source_options(one, positional=False, files=False)
    one.set_defaults(act=_show)


def _list(options: argparse.Namespace) -> int:
    if options.watch is None:
        _print(options)
    else:
        follow(lambda: _print(options), options.watch, time.sleep)
    return EXIT_OK


def follow(look: Callable[[], bool], seconds: float, sleep: Callable[[float], object]) -> None:
    """Look again each ``seconds``, as long as something is expected.

    ``look`` prints the list, and returns whether anything is.  The first look must succeed; a later
    one that fails is tried again.  Raises StewardError.
    """
    goes_on = look()
    while goes_on:
        sys.stdout.flush()
        sleep(seconds)
        sys.stdout.write(_CLEAR if understands_codes(sys.stdout) else "\n")
        try:
            goes_on = look()
        except StewardError as err:
            tables.print_notes([f"{err}; it is tried again"])


def _print(options: argparse.Namespace) -> bool:
    """Print the list, with ``--watch`` also how many are over; whether any is still expected."""
    cluster = read_source(options).cluster
    found = requests.requests_of(live_client(options))
    waits = daemon_waits() if any(one.incident.active for one in found) else {}
    now = time.time_ns()
    rows = [requests.row_of(one, cluster, now, waits.get(one.incident.uuid, ())) for one in found]
    rows += requests.unfinished_rows(found, cluster)
    tables.print_fields(options, requests.FIELDS, requests.USUAL, rows)
    if options.watch is not None and not options.json:
        over = sum(not one.incident.active for one in found)
        print(f"{over} of {len(found)} are over at {local_time(now)}")
    active = {one.incident.uuid for one in found if one.incident.active}
    # What is late waits for a person: it does not begin any more.
    return any(row["uuid"] in active and row["state"] != requests.LATE for row in rows)


def _show(options: argparse.Namespace) -> int:
    cluster = read_source(options).cluster
    one = requests.named(requests.requests_of(live_client(options)), cluster, options.node)
    waits = daemon_waits().get(one.incident.uuid, ())
    row = requests.row_of(one, cluster, time.time_ns(), waits)
    tables.print_lines(f"{requests.FIELDS[name]}: {_text(row[name])}" for name in requests.FIELDS)
    homes = [Home(instance.nodes, instance.up) for instance in cluster.instances]
    far = emptied(one.incident, homes) if empties(one.incident) else None
    tables.print_lines(incident_lines(one.incident, one.incident.original, one.signature, far))
    return EXIT_OK


def _text(value: tables.Value) -> str:
    if isinstance(value, str | int):
        return str(value)
    return ", ".join(value) or "-"
