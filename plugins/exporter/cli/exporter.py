"""``gnt-steward exporter``: figures of a cluster for Prometheus, in the foreground."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from typing import Final

from ganeti_steward.core.builtins import EXPORT
from ganeti_steward.core.commands.cluster_options import add_source_options, source_options
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.output import shown
from ganeti_steward.core.config.values import Http
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.ganeti.sources import open_source
from ganeti_steward.core.ganeti.this_node import own_address, own_names, this_node
from ganeti_steward.core.log import set_up_service
from ganeti_steward.core.model.options import parse_options
from ganeti_steward.core.service.console_log import ConsoleLog
from ganeti_steward.core.service.http_server import Server, bind
from ganeti_steward.core.service.sd_notify import notify
from ganeti_steward.plugins.exporter.figures import Figures, figures
from ganeti_steward.plugins.exporter.metrics import LIMITS, MetricsApplication, Readings, rendered

#: The TCP port, next to those of the daemon and of the agent.
PORT: Final = 1818
#: Seconds between two readings.
INTERVAL: Final = 300.0

_log: Final = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it listens, and which cluster it reads how often."""
    describe(
        parser,
        {
            "gnt-steward exporter": "on the master, at its primary address",
            "gnt-steward exporter -b 127.0.0.1 --rapi cluster.example.com": "from anywhere",
            "gnt-steward exporter --once --text-data cluster.data": "print them, and end",
        },
        statuses={
            EXIT_OK: "a signal has ended it; with --once: the metrics were printed",
            EXIT_FAILURE: "it cannot begin; with --once: the cluster cannot be read",
        },
        units="--interval is in seconds.",
    )
    add = parser.add_argument
    add("-b", "--bind", metavar="ADDRESS", help="listen at this IP address; default: the node's")
    add("-p", "--port", type=int, default=PORT, help=f"listen at this TCP port; default: {PORT}")
    add(
        "--interval",
        type=_seconds,
        metavar="SECONDS",
        default=INTERVAL,
        help=f"time between two readings of the cluster; default: {INTERVAL:g}",
    )
    add(
        "--no-capacity-checks",
        action="store_true",
        help="do not look for nodes that could not be emptied, nor keep them evacuable",
    )
    add("--once", action="store_true", help="print the metrics instead, for a textfile collector")
    add_source_options(parser, positional=False)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"a number from 1 to 86400 is expected, found {text!r}")
    return seconds


def run(options: argparse.Namespace) -> int:
    """Serve until a signal ends it, or print once; raises StewardError."""
    config, given = configuration(EXPORT), source_options(options)
    passed = parse_options(["--no-capacity-checks"] if options.no_capacity_checks else [])

    def read() -> Figures:
        return figures(open_source(given), config, passed)

    readings = Readings(read, options.interval)
    if options.once:
        return _print(readings)
    set_up_service(config.log.file, config.log.level, ConsoleLog)
    listener = bind(options.bind or own_address(this_node()), options.port)
    names = (*own_names(), *config.section(Http).names)
    server = Server(MetricsApplication(readings), listener, LIMITS, names)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: server.stop())
    host, port = listener.getsockname()[:2]
    _log.info("exporter begins address=%s port=%s", host, port)
    readings.start()
    notify("READY=1")
    server.run()
    readings.stop()
    server.finish()
    _log.info("exporter ends")
    return EXIT_OK


def _print(readings: Readings) -> int:
    reading = readings.once()
    if reading.fault:
        raise StewardError(reading.fault)
    # A label with a single backslash would not be read.
    text = rendered(reading).decode()
    sys.stdout.writelines(c if c.isprintable() or c == "\n" else f"\\{shown(c)}" for c in text)
    return EXIT_OK
