"""What the commands do with a live cluster: read the records of incidents, change tags."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.allocators.jobs.run_jobs import Interrupts, interrupt_printer, run_job_sets
from ganeti_steward.core.commands.cluster_options import source_options
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import EXIT_FAILURE, EXIT_OK, StewardError, few
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.sources import open_client
from ganeti_steward.core.ganeti.this_node import DATA, master_name, own_address, this_node
from ganeti_steward.plugins.filters.filter_rules import FilterRule, read_rules
from ganeti_steward.plugins.filters.rule_notes import record_in
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.judge import judge
from ganeti_steward.plugins.maintenance.edges.record import read_record
from ganeti_steward.plugins.maintenance.edges.served_status import fetch_status, waits_of
from ganeti_steward.plugins.model.incident import Incident

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ganeti_steward.core.ganeti.rapi import Rapi
    from ganeti_steward.core.model.opcodes import Operation

#: How many matching incidents a message names.
_NAMED = 5


#: What is known of the signature of a record; `VALID` ones are the daemon's.
VALID: Final = "valid"
NOT_CHECKED: Final = "not checked"
#: It is in the audit log of this machine only.
NO_RECORD: Final = "no record"
#: The daemon ignores it.
IGNORED: Final = "ignored"
#: The daemon ignores it until root confirms that it is the latest record.
UNCONFIRMED: Final = "unconfirmed"


class Recorded(NamedTuple):
    """An incident as a filter rule has it."""

    incident: Incident
    signature: str
    """`VALID`, `NOT_CHECKED`, `NO_RECORD`, `IGNORED` or `UNCONFIRMED`"""

    @property
    def ignored(self) -> str:
        """Why nothing may be changed about it, in a sentence; empty: it may."""
        if self.signature not in (IGNORED, UNCONFIRMED):
            return ""
        return (
            f"the daemon ignores incident {self.incident.uuid}: its record is {self.signature}, "
            "see gnt-steward incident list"
        )


class ClusterRecords(NamedTuple):
    """The records of a cluster."""

    records: tuple[Recorded, ...]
    """oldest first"""
    faults: tuple[str, ...]
    """what is wrong with records, a sentence each"""
    unchecked: str = ""
    """why no signature was checked; empty when they were"""


def live_client(options: argparse.Namespace) -> Luxi | Rapi:
    """The client of the cluster that the options name; raises StewardError."""
    return open_client(source_options(options))


def daemon_address(settings: Maintd, data: str) -> str:
    """Where the daemon serves its status; raises StewardError.  ``data``: Ganeti's directory."""
    if settings.address:
        return settings.address
    name = master_name(data)
    if not name:
        raise StewardError("the master is not known on this machine; name its address (--bind)")
    return own_address(this_node(data, name))


def running_daemon() -> dict[str, Any]:
    """What the running daemon serves, see `fetch_status`; raises StewardError."""
    settings = configuration(("maintd",)).section(Maintd)
    return fetch_status(daemon_address(settings, DATA), settings.port)


def daemon_waits() -> Mapping[str, list[str]]:
    """Subject -> what the running daemon lets it wait for, a line each.

    Empty where the daemon is not known here; a note says why it does not answer.
    """
    settings = configuration(("maintd",)).section(Maintd)
    if not (settings.address or master_name(DATA)):
        return {}
    try:
        return waits_of(running_daemon())
    except StewardError as err:
        print_notes([f"what holds incidents back is not known: {err}"])
    except (AttributeError, LookupError, TypeError) as err:
        print_notes([f"what holds incidents back is not known: {type(err).__name__}"])
    return {}


def own_key() -> bytes:
    """The key with which the daemon of this machine checks signatures; raises StewardError."""
    return KeyFile(configuration(("maintd",)).section(Maintd).key_file).key()


def read_incidents(client: Luxi | Rapi) -> ClusterRecords:
    """All incidents that are recorded; raises StewardError.

    Signatures are checked with the key of this machine, which is that of the cluster whose luxid
    is here.
    """
    rules = read_rules(client).rules
    claimed = {rule.uuid: rule for rule in rules if record_in(rule) is not None}
    try:
        if not isinstance(client, Luxi):
            raise StewardError("the cluster is reached by RAPI")
        key = own_key()
    except StewardError as err:
        return _found(claimed, {}, NOT_CHECKED, {})._replace(unchecked=str(err))
    judged = judge(claimed, key)
    faults = {one.uuid: one.text for one in (*judged.faults, *judged.ignored)}
    signatures = dict.fromkeys(judged.signed, VALID)
    signatures |= dict.fromkeys(judged.unconfirmed, UNCONFIRMED)
    return _found(claimed, signatures, IGNORED, faults)


def _found(
    claimed: Mapping[str, FilterRule],
    signatures: Mapping[str, str],
    other: str,
    faults: dict[str, str],
) -> ClusterRecords:
    """The records, given by the uuid of their rule, as are the sentences of ``faults``.

    ``other``: what is known of a signature where ``signatures`` has nothing.
    """
    records = []
    for uuid, rule in claimed.items():
        try:
            incident = read_record(record_in(rule) or "")
        except ValueError as err:
            faults.setdefault(uuid, f"filter rule {uuid} is not the record of an incident: {err}")
            continue
        signature = signatures.get(uuid, other)
        records.append(Recorded(incident._replace(uuid=uuid), signature))
    records.sort(key=lambda one: (one.incident.first_seen, one.incident.uuid))
    return ClusterRecords(tuple(records), tuple(faults.values()))


def record_named(found: ClusterRecords, word: str) -> Recorded:
    """The only incident whose uuid begins so, or that of a node; raises StewardError.

    Of several of a node it is the only one that is not acknowledged.
    """
    matching = [one for one in found.records if word and one.incident.uuid.startswith(word.lower())]
    if not matching:
        return _record_of_node(found, word)
    return _only(matching, f"begin with {word!a}")


def _record_of_node(found: ClusterRecords, word: str) -> Recorded:
    names = {one.incident.node_name for one in found.records}
    named = [name for name in names if word and name.startswith(f"{word}.")]
    node = word if word in names or len(named) != 1 else named[0]
    matching = [one for one in found.records if one.incident.node_name == node]
    if not matching:
        known = len(found.records)
        raise StewardError(
            f"no incident has the uuid or the node {word!a} (incidents recorded: {known})"
        )
    pending = [one for one in matching if not one.incident.acknowledged]
    return _only(pending or matching, f"are of node {node}")


def _only(matching: Sequence[Recorded], what: str) -> Recorded:
    """The only one; raises StewardError."""
    if len(matching) > 1:
        names = few([one.incident.uuid for one in matching], _NAMED)
        raise StewardError(f"{len(matching)} incidents {what}: {names}")
    return matching[0]


def add_submit_option(parser: argparse.ArgumentParser) -> None:
    """``--submit``, of the commands that run a job."""
    text = "print the job's number and do not wait for it"
    parser.add_argument("--submit", action="store_true", help=text)


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
