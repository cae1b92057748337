"""Records that others have changed: the daemon that knows them writes them back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fault_world.checks.texts import record_of

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

    def written(self, rule: dict[str, Any], daemon: Daemon) -> None:
        """A daemon has written a record."""
        known = self.versions.setdefault(rule["uuid"], [])
        owner, one = self._changed.pop(rule["uuid"], (None, None))
        if owner is daemon and one and daemon.read_at > one.at and not self._losing():
            text = f"what others wrote to {rule['uuid']} counts"
            self._require("written-back", _content(rule) == _content(known[-1]), text)
        known.append(deepcopy(rule))
        del known[:-_KEPT]
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

    def round(self, daemon: Daemon) -> None:
        """A daemon has ended a round in which records could be written."""
        for uuid, (owner, one) in [*self._changed.items()]:
            rule = self._world.luxid.filters.get(uuid)
            if rule is None or rule["reason_trail"] != one.trail or not owner.process.alive:
                del self._changed[uuid]
            elif owner is daemon and daemon.seen and daemon.seen.at > one.at and not self._losing():
                self._changed[uuid] = owner, one._replace(rounds=one.rounds + 1)
                text = f"{uuid} is as others wrote it, after {one.rounds} rounds"
                self._require("written-back", one.rounds < _ROUNDS, text)

    def _losing(self) -> bool:
        return any(one.kind in _LOSING for one in self._world.faults.active)


def _content(rule: dict[str, Any]) -> dict[str, Any]:
    """What a record says, without what signs it."""
    record = record_of(rule) or {}
    return {key: value for key, value in record.items() if key not in ("counter", "hmac")}
