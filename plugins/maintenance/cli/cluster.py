"""What the commands do with a live cluster: read the records of incidents, change tags."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.core.commands.cluster_options import source_options
from ganeti_steward.core.commands.interrupts import interrupt_printer
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError
from ganeti_steward.core.ganeti.filter_rules import read_rules
from ganeti_steward.core.ganeti.run_jobs import Interrupts, run_job_sets
from ganeti_steward.core.ganeti.sources import open_client
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.plugins.maintenance.edges.store import incident_of

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.luxi import Luxi
    from ganeti_steward.core.ganeti.rapi import Rapi
    from ganeti_steward.core.model.opcodes import Operation

#: How many matching incidents a message names.
_NAMED = 5


class Found(NamedTuple):
    """The records of a cluster."""

    incidents: tuple[Incident, ...]
    """oldest first"""
    faults: tuple[str, ...]
    """records that cannot be read, a sentence each"""


def live_client(options: argparse.Namespace) -> Luxi | Rapi:
    """The client of the cluster that the options name; raises StewardError."""
    return open_client(source_options(options))


def read_incidents(client: Luxi | Rapi) -> Found:
    """All incidents that are recorded; raises StewardError."""
    incidents, faults = [], []
    for rule in read_rules(client).rules:
        try:
            incident = incident_of(rule)
        except ValueError as err:
            faults.append(f"filter rule {rule.uuid} is not the record of an incident: {err}")
            continue
        if incident is not None:
            incidents.append(incident)
    return Found(
        tuple(sorted(incidents, key=lambda one: (one.first_seen, one.uuid))), tuple(faults)
    )


def incident_named(found: Found, word: str) -> Incident:
    """The incident with this uuid, or the only one whose uuid begins so; raises StewardError."""
    matching = [one for one in found.incidents if word and one.uuid.startswith(word.lower())]
    if not matching:
        known = len(found.incidents)
        raise StewardError(f"no incident has the uuid {word!a} (incidents recorded: {known})")
    if len(matching) > 1:
        names = ", ".join(one.uuid for one in matching[:_NAMED])
        more = len(matching) - _NAMED
        raise StewardError(
            f"{len(matching)} incidents begin with {word!a}: {names}"
            + (f" and {more} more" if more > 0 else "")
        )
    return matching[0]


def run_tag_job(
    client: Luxi | Rapi, operation: Operation, reason: str, done: str, *, submit: bool
) -> int:
    """Run one tag operation as a job; prints ``done`` afterwards.  Raises StewardError.

    ``submit``: only print the job's number.  Returns the exit status.
    """
    if submit:
        (taken,) = client.submit([[operation]], reason)
        if taken.error:
            raise StewardError(taken.error)
        print(*taken.numbers)
        return EXIT_OK
    with Interrupts(interrupt_printer("the job")) as interrupts:
        result = run_job_sets(client, [[[operation]]], reason=reason, interrupts=interrupts)
    (run,) = result.runs
    if result.complete:
        print(done)
        return EXIT_OK
    if run.over:
        raise StewardError(f"the job failed: {run.error or run.status}")
    numbers = ", ".join(map(str, run.numbers))
    print(f"Job {numbers} is not waited for: {result.trouble or 'interrupted'}.")
    return EXIT_FAILURE
