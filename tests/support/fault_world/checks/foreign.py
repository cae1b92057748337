"""Records that others have changed: the daemon that knows them writes them back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fault_world.checks.texts import is_stamped, record_of
from ganeti_steward.plugins.filters.filter_rules import CONTINUE

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Require = Callable[[str, bool, str], None]

#: Rounds after which it has to be written back.
_ROUNDS: Final = 3
#: As many versions of a record are kept.
_KEPT: Final = 8
#: Faults by which it may not be possible.
_LOSING: Final = frozenset(("lost-answers", "records-fail", "slow-calls"))


class _Changed(NamedTuple):
    at: int
    """ns since the epoch"""
    trail: Any
    """what others wrote"""
    rounds: int = 0
    """how many the daemon has had since"""


class Foreign:
    """The records of one world that others have changed."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self.versions: dict[str, list[dict[str, Any]]] = {}
        """uuid -> rules as daemons wrote them, the latest last"""
        self._written: dict[str, int] = {}
        """uuid -> when the latest was written, ns since the epoch"""
        self._changed: dict[str, tuple[Daemon, _Changed]] = {}
        self._acting: dict[str, tuple[int, int]] = {}
        """uuid of a record that holds jobs -> since when, and how many rounds there were since"""
        self._unstamped: dict[str, int] = {}
        """uuid of a record that the next daemon would not use -> for how many rounds"""

    def kept(self, rule: dict[str, Any]) -> None:
        """A rule that any reader of RAPI can keep."""
        known = self.versions.setdefault(rule["uuid"], [])
        known.append(deepcopy(rule))
        del known[:-_KEPT]

    def written(self, rule: dict[str, Any], daemon: Daemon) -> None:
        """A daemon has written a record."""
        known = self.versions.setdefault(rule["uuid"], [])
        owner, one = self._changed.pop(rule["uuid"], (None, None))
        if owner is daemon and one and daemon.read_at > one.at and not self._losing():
            text = f"what others wrote to {rule['uuid']} counts"
            self._require("written-back", _content(rule) == _content(known[-1]), text)
        self.kept(rule)
        self._written[rule["uuid"]] = self._world.clock.now

    def changed(self, uuid: str) -> None:
        """Others have changed a record; the daemon of the master knows what it was, once it has
        read it: the answer to its writing may have been lost."""
        master, at = self._world.ganeti.master, self._written.get(uuid, 0)
        running = [one for one in self._world.daemons if one.node == master and one.rounds > 1]
        known = [one for one in running if one.seen and one.seen.at > at]
        checks = self._world.checks
        # Of one that others have changed before it may know that version.
        own = uuid in self.versions and uuid not in checks.deleted
        if known and own and uuid in checks.incidents:
            trail = deepcopy(self._world.luxid.filters[uuid]["reason_trail"])
            if trail[0] == self.versions[uuid][-1]["reason_trail"][0]:
                return
            self._changed[uuid] = known[0], _Changed(self._world.clock.now, trail)

    def acts(self, uuid: str) -> None:
        """Others have had the rule of a record hold all jobs."""
        self._acting[uuid] = self._world.clock.now, 0

    def round(self, daemon: Daemon) -> None:
        """A daemon has ended a round in which records could be written."""
        self._are_harmless(daemon)
        self._are_stamped(daemon)
        for uuid, (owner, one) in [*self._changed.items()]:
            rule = self._world.luxid.filters.get(uuid)
            if rule is None or rule["reason_trail"] != one.trail or not owner.process.alive:
                del self._changed[uuid]
            elif owner is daemon and daemon.seen and daemon.seen.at > one.at and not self._losing():
                self._changed[uuid] = owner, one._replace(rounds=one.rounds + 1)
                text = f"{uuid} is as others wrote it, after {one.rounds} rounds"
                self._require("written-back", one.rounds < _ROUNDS, text)

    def _are_harmless(self, daemon: Daemon) -> None:
        """No record holds jobs, whether or not the daemon uses it."""
        for uuid, (at, rounds) in [*self._acting.items()]:
            rule = self._world.luxid.filters.get(uuid)
            if rule is None or rule["action"] == CONTINUE or not self.has(rule):
                del self._acting[uuid]
            elif daemon.read_at > at and not self._losing():
                self._acting[uuid] = at, rounds + 1
                text = f"the record {uuid} holds jobs after {rounds} rounds"
                self._require("written-back", rounds < _ROUNDS, text)

    def has(self, rule: dict[str, Any]) -> bool:
        """Whether a rule has the text of a version that was written before."""
        kept = self.versions.get(rule["uuid"], ())
        texts = {one["reason_trail"][0][1] for one in kept}
        return rule["reason_trail"][0][1] in texts

    def _are_stamped(self, daemon: Daemon) -> None:
        """The next daemon would use what this one has written."""
        filters = self._world.luxid.filters
        incidents = self._world.checks.incidents
        late = {uuid for uuid in incidents if uuid in filters and not is_stamped(filters[uuid])}
        if not daemon.read_at or self._losing():
            late = set()
        self._unstamped = {uuid: self._unstamped.get(uuid, 0) + 1 for uuid in late}
        for uuid, rounds in self._unstamped.items():
            text = f"the next daemon would not use {uuid}, after {rounds} rounds"
            self._require("accepted", rounds <= _ROUNDS, text)

    def _losing(self) -> bool:
        return any(one.kind in _LOSING for one in self._world.faults.active)


def _content(rule: dict[str, Any]) -> dict[str, Any]:
    """What a record says, without what signs it."""
    record = record_of(rule) or {}
    return {key: value for key, value in record.items() if key not in ("writes", "job", "hmac")}
