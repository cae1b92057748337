"""What the audit logs and the notifications had of the records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from ganeti_steward.plugins.maintenance.edges.audit import read_audit
from ganeti_steward.plugins.maintenance.edges.history import CHANGE, AuditEntry
from ganeti_steward.plugins.maintenance.engine.transitions import FORGOTTEN

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World
    from ganeti_steward.plugins.maintenance.daemon.parts import Round
    from ganeti_steward.plugins.maintenance.engine.decision import Change

Require = Callable[[str, bool, str], None]


class Reports:
    """Compares what was written to records with what was reported."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self._written: dict[Daemon, list[tuple[str, str]]] = {}
        """what a daemon wrote in the round that has not ended: uuid, state"""
        self._late: dict[Daemon, list[tuple[str, str]]] = {}
        """what was not reported in the round that wrote it"""
        self._entries: dict[str, list[AuditEntry]] = {}
        """node -> changes that its daemons have put into the audit log"""

    def wrote(self, daemon: Daemon, uuid: str, state: str) -> None:
        """A daemon has written another state to a record, or deleted it."""
        self._written.setdefault(daemon, []).append((uuid, state))

    def entries(self, node: str, entries: Iterable[AuditEntry]) -> None:
        """A daemon has these put into the audit log of its node."""
        own = self._entries.setdefault(node, [])
        own += [one for one in entries if one.kind == CHANGE]

    def notified(self, daemon: Daemon, outcome: Round, changes: Iterable[Change]) -> None:
        """A daemon's round has ended, and plugins are notified of these changes."""
        reported = [
            (one.uuid, after.state_name if after else FORGOTTEN)
            for before, after, *_ in changes
            for one in [after or before]
            if one is not None
        ]
        written = self._written.setdefault(daemon, [])
        late = self._late.get(daemon, [])
        for uuid, state in reported:
            text = f"{uuid} is reported to be {state} {reported.count((uuid, state))} times"
            self._require("reported-once", reported.count((uuid, state)) == 1, text)
        if outcome.decision is None or outcome.world is None or outcome.undecided:
            return
        # A write without an answer is known to the next round.
        known = self._world.checks.deleted.union(uuid for uuid, _ in (*reported, *written))
        missed = [one for one in late if one[0] not in known]
        # Of what an earlier daemon has reported nothing is known before the log can be read; what
        # seems to have changed long ago is in the log only.
        waits = self._world.disks[daemon.node].was_full or self._world.jumped > 0
        text = f"nothing is reported of {[uuid for uuid, _ in missed]}"
        self._require("reported-once", waits or not missed, text)
        self._late[daemon] = [*missed, *(one for one in written if one not in reported)]
        self._written[daemon] = []

    def end(self, states: Mapping[str, str], deleted: Collection[str]) -> None:
        """The audit logs have everything once; ``states``: uuid -> state of each record.

        ``deleted``: uuids of records that people deleted or edited.
        """
        if self._world.jumped:
            # Entries have the times of a clock that was set back.
            return
        for node, entries in self._entries.items():
            if self._world.disks[node].was_full:
                # What could not be written was lost with the daemon.
                continue
            there = self._there(node)
            self._chain(node, [one for one in entries if one in there])
        self._latest(states, deleted)

    def _there(self, node: str) -> set[AuditEntry]:
        """The changes that the audit log of a node has."""
        return {one for one in read_audit(self._world.disks[node].audit) if one.kind == CHANGE}

    def _chain(self, node: str, entries: Iterable[AuditEntry]) -> None:
        """Each change begins where the one before has ended: none is missing, none is twice."""
        last: dict[str, str] = {}
        for one in entries:
            # A record that a person wrote is not new to the daemon that begins it.
            first = one.before if one.incident in self._world.checks.requested else "new"
            before = last.get(one.incident, first)
            text = f"{one.incident} in the log of {node}: {before}, then {one.before}-{one.after}"
            self._require("reported-once", before in (one.before, FORGOTTEN), text)
            last[one.incident] = one.after

    def _latest(self, states: Mapping[str, str], deleted: Collection[str]) -> None:
        """The log of the master has caught up."""
        master = self._world.ganeti.master
        if not any(one.node == master and one.rounds > 1 for one in self._world.daemons):
            return
        there = self._there(master)
        entries = (one for one in self._entries.get(master, ()) if one in there)
        last = {one.incident: one.after for one in entries}
        for uuid in sorted({*last, *states}.difference(deleted)):
            text = f"the log of {master} has {uuid} as {last.get(uuid)}, not {states.get(uuid)}"
            now = states.get(uuid, FORGOTTEN)
            self._require("reported-once", last.get(uuid, FORGOTTEN) == now, text)
