"""``gnt-steward maintenance wait``: for scripts, until the maintenance of a node is so far."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Final

from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import EXIT_OK, StewardError
from ganeti_steward.plugins.maintenance.cli.cluster import daemon_waits, live_client
from ganeti_steward.plugins.maintenance.cli.planned import requests

#: The states in their order; what has passed one of them has reached it.
_ORDER: Final = ("requested", "emptying", "ready", "working", "returning", "home", "done")
_READY: Final = "ready"
_AFTER: Final = _ORDER[_ORDER.index(_READY) + 1 :]
#: Those that can be waited for.
REACHABLE: Final = (_READY, "home", "done")
_ENDS: Final = ("done", "failed", "canceled")

#: Exit statuses of its own.
EXIT_TIMEOUT: Final = 3
EXIT_OTHER_END: Final = 4
EXIT_LATE: Final = 5

#: Seconds between two looks: each costs luxid a few queries.
_BETWEEN: Final = 5.0

#: State of the maintenance, and what it waits for; raises StewardError.
_Look = Callable[[], tuple[str, str]]


def wait_options(one: argparse.ArgumentParser) -> None:
    """The options of the sub-command ``wait``."""
    describe(
        one,
        {
            "gnt-steward maintenance wait node3": "until node3 is empty and can be rebooted",
            "gnt-steward maintenance wait node3 --for done --timeout 7200": "until all is over",
        },
        statuses={
            EXIT_TIMEOUT: "the timeout has passed",
            EXIT_OTHER_END: "the maintenance has ended in another way or was ready before, or its "
            "record is gone",
            EXIT_LATE: "the maintenance does not begin, because it would end after its deadline",
        },
    )
    one.add_argument("node", help="a node, or the uuid of its maintenance")
    text = "the state to wait for: ready (the default), or home or done, or what comes after it"
    one.add_argument("--for", dest="state", choices=REACHABLE, default="ready", help=text)
    text = "seconds after which the command gives up; default: never"
    one.add_argument("--timeout", type=_seconds, metavar="SECONDS", help=text)
    add_source_options(one, positional=False, files=False)
    one.set_defaults(act=_wait)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!a} is not a number of seconds")
    return found


def _wait(options: argparse.Namespace) -> int:
    known = requests.requests_of(live_client(options))
    uuid = requests.named(known, read_source(options).cluster, options.node).incident.uuid

    def look() -> tuple[str, str]:
        cluster = read_source(options).cluster
        for one in requests.requests_of(live_client(options)):
            if one.incident.uuid == uuid:
                waits = daemon_waits().get(uuid, ()) if one.incident.active else ()
                row = requests.row_of(one, cluster, time.time_ns(), waits)
                return str(row["state"]), str(row["waits"])
        return "", "its record is gone"

    limit = float("inf") if options.timeout is None else options.timeout
    return follow(options.node, options.state, limit, look, clock=time.monotonic, sleep=time.sleep)


def follow(
    node: str,
    wanted: str,
    limit: float,
    look: _Look,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> int:
    """Print each news of a maintenance until it is so far; the exit status.

    ``wanted``: one of `REACHABLE`; ``limit``: seconds; ``clock``: seconds, as ``time.monotonic``.
    The first look must succeed; a later one that fails is tried again, as luxid may be started
    again meanwhile.  Raises StewardError.
    """
    end, printed = clock() + limit, ""
    state, why = look()
    while True:
        if (line := f"{node}: {_in_words(state, why)}") != printed:
            print(line, flush=True)
            printed = line
        if _reached(state, wanted):
            return EXIT_OK
        if state in ("", *_ENDS) or (wanted == _READY and state in _AFTER):
            return EXIT_OTHER_END
        if state == requests.LATE:
            return EXIT_LATE
        if clock() >= end:
            print_notes([f"{node} is not {wanted} within {limit:g} s"])
            return EXIT_TIMEOUT
        sleep(min(_BETWEEN, max(0.0, end - clock())))
        try:
            state, why = look()
        except StewardError as err:
            print_notes([f"{node}: {err}; it is tried again"])


def _in_words(state: str, why: str) -> str:
    return ": ".join(filter(None, [state, why]))


def _reached(state: str, wanted: str) -> bool:
    if wanted == _READY:
        # After that, instances may run there again: a script must not reboot the node.
        return state == _READY
    return state in _ORDER and _ORDER.index(state) >= _ORDER.index(wanted)
