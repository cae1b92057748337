"""Migrations of a plan for which QEMU or the CPU of the target is not right, by reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ganeti_steward.allocators.rolling.hypervisors import (
    NOT_REPORTED,
    Hypervisors,
    hypervisor_in,
)
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.errors import StewardError, few
from ganeti_steward.core.ganeti.this_node import DATA, master_name
from ganeti_steward.core.json_reader import counted
from ganeti_steward.plugins.maintenance.cli.cluster import daemon_address
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.edges.served_status import fetch_hypervisors

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.roll import Roll
    from ganeti_steward.core.model.cluster import Cluster

#: Names in a note.
_NAMED: Final = 5

_UNKNOWN: Final = "it is not known whether QEMU and the CPU of the target are right"


def reported_now() -> Hypervisors:
    """What the running daemon knows of all nodes; a note says why it does not answer.

    Nothing where the daemon is not known on this machine.
    """
    settings = configuration(("maintd",)).section(Maintd)
    if not (settings.address or master_name(DATA)):
        return NOT_REPORTED
    try:
        served = fetch_hypervisors(daemon_address(settings, DATA), settings.port)
    except StewardError as err:
        print_notes([f"{_UNKNOWN}: {err}"])
        return NOT_REPORTED
    found = {name: hypervisor_in(one) for name, one in served.items()}
    return Hypervisors({name: one for name, one in found.items() if one})


def notes(roll: Roll, cluster: Cluster, hypervisors: Hypervisors) -> Iterator[str]:
    """A sentence for each kind of trouble between two nodes of a round."""
    groups: dict[tuple[int, str, str, str], list[str]] = {}
    for one in roll.in_trouble(hypervisors):
        why, leave = one.trouble.sentence, one.leave
        if one.earlier:
            why += f"; the work on {leave.target} in round {one.earlier} may change that"
        key = (one.round, leave.source, leave.target, why)
        groups.setdefault(key, []).append(leave.instance)
    for (number, source, target, why), names in groups.items():
        yield f"round {number}: {few(names, _NAMED)} from {source} to {target}: {why}"
    yield from _unknown(roll, cluster, hypervisors)


def _unknown(roll: Roll, cluster: Cluster, hypervisors: Hypervisors) -> Iterator[str]:
    leaves = [
        leave
        for one in roll.rounds
        for leave in one.leaves
        if leave.how == "migrate"
        and cluster.instance(leave.instance).hypervisor == "kvm"
        and not hypervisors.knows(leave.instance, leave.target)
    ]
    # Where no node reports anything, a note for each plan would be in the way.
    if hypervisors.nodes and leaves:
        nodes = sorted({node for one in leaves for node in (one.source, one.target)})
        silent = [node for node in nodes if node not in hypervisors.nodes]
        why = f"; nothing is reported by {few(silent, _NAMED)}" if silent else ""
        yield f"of {counted(len(leaves), 'migration')} {_UNKNOWN}{why}"
