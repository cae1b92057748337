"""``gnt-steward incident adopt``: signs records that the daemon ignores."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from ganeti_steward.core.commands.cluster_options import add_source_options
from ganeti_steward.core.commands.manual import describe
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.plugins.maintenance.cli.cluster import (
    IGNORED,
    Found,
    Recorded,
    live_client,
    own_key,
    read_incidents,
    record_named,
)
from ganeti_steward.plugins.maintenance.edges.signed_record import adopted
from ganeti_steward.plugins.maintenance.edges.store import Store


def add_adopt_arguments(parser: argparse.ArgumentParser) -> None:
    """Which records."""
    describe(
        parser,
        {
            "gnt-steward incident adopt 5b0c9f7e": "the uuid may be cut",
            "gnt-steward incident adopt --all": "after the key was renewed without the daemon",
        },
    )
    parser.add_argument("uuid", nargs="*", help="its uuid, or how it begins")
    parser.add_argument("--all", action="store_true", help="every record that is ignored")
    parser.set_defaults(act=adopt)
    add_source_options(parser, positional=False)


def adopt(options: argparse.Namespace) -> int:
    """Sign them; returns the exit status.  Raises StewardError."""
    if bool(options.uuid) == options.all:
        raise StewardError("name incidents, or use --all")
    client = live_client(options)
    if not isinstance(client, Luxi):
        raise StewardError("records are signed on the master only, where the cluster's key is")
    key = own_key()
    found = read_incidents(client)
    store = Store(client, lambda: key.key, counters=key.counters)
    store.read_all()
    faults = []
    wanted = list(_wanted(found, options.uuid))
    for one in wanted:
        uuid = one.incident.uuid
        if one.signature != IGNORED:
            print(f"Nothing to do: the record of incident {uuid} is signed.")
            continue
        try:
            store.write(_adopted(one))
        except (StewardError, ValueError) as err:
            faults.append(f"incident {uuid} is not adopted: {err}")
        else:
            print(f"Signed the record of incident {uuid} of {one.incident.node_name}.")
    if not wanted:
        print("Nothing to do: no record is ignored.")
    print_notes(faults)
    return EXIT_FAILURE if faults else EXIT_OK


def _wanted(found: Found, words: list[str]) -> Iterator[Recorded]:
    if words:
        yield from (record_named(found, word) for word in words)
    else:
        yield from (one for one in found.records if one.signature == IGNORED)


def _adopted(one: Recorded) -> Incident:
    """Raises ValueError where a part of it contradicts another one, or its rule."""
    if one.claimed != one.incident.uuid:
        raise ValueError(f"its rule has a copy of the record of incident {one.claimed}")
    return adopted(one.incident, time.time_ns())
