"""Whether each master candidate has the configuration and the plugins of the running daemon.

The daemon of another candidate acts by the file of that node after a failover: nothing else says
that it acts in another way than the one before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.ganeti.hmac_key import NoKey
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.service.disk_timeout import CallDisk, without_timeout
from ganeti_steward.plugins.daemon_parts import DaemonParts, daemon_parts, differing
from ganeti_steward.plugins.maintenance.edges.poll import Poll
from ganeti_steward.plugins.maintenance.edges.status import DIFFERS, NOT_KNOWN, SAME, Candidate
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import World

#: ns after which the files of plugins are read again.
_READ_EVERY: Final = 300 * 10**9

_log: Final = logging.getLogger(__name__)


class Candidates:
    """Compares the candidates after each round; used by one thread."""

    def __init__(
        self,
        config: Callable[[], Config],
        key: Callable[[], bytes],
        call_disk: CallDisk = without_timeout,
    ) -> None:
        """``config``: what the daemon uses now; ``key``: the cluster's; raises NoKey.

        ``call_disk``: reads the files of plugins.
        """
        self._config, self._key, self._call_disk = config, key, call_disk
        self._own: DaemonParts | None = None
        self._made: tuple[Config, bytes] | None = None
        """what the own parts were made of"""
        self._read = 0
        """when they were made, ns since the epoch"""
        self._differing: tuple[Candidate, ...] = ()
        self._logged: dict[str, tuple[str, ...]] = {}
        """uuid of a candidate -> what differs by the log"""

    def __call__(self, world: World, poll: Poll) -> tuple[Candidate, ...]:
        """All candidates by name; raises OSError."""
        own = self._parts(world.now)
        nodes = sorted(
            (one for one in world.nodes.values() if one.master_candidate), key=lambda one: one.name
        )
        found = tuple(_compared(one, own, poll.daemons.get(one.uuid)) for one in nodes)
        self._note(found)
        return found

    @property
    def problems(self) -> tuple[Held, ...]:
        """A sentence for each candidate that differs."""
        return tuple(Held(one.name, "candidate", _sentence(one)) for one in self._differing)

    def _parts(self, now: int) -> DaemonParts | None:
        """Those of the running daemon; None without a key."""
        try:
            made = self._config(), self._key()
        except NoKey:
            return None
        # A configuration that was read again is another object.
        same = self._made is not None and self._made[0] is made[0] and self._made[1] == made[1]
        if not same or abs(now - self._read) >= _READ_EVERY:
            self._own = self._call_disk(partial(daemon_parts, *made))
            self._made, self._read = made, now
        return self._own

    def _note(self, found: Iterable[Candidate]) -> None:
        """Log what begins to differ, and what is the same again; one that is not known stays."""
        self._differing = tuple(one for one in found if one.state == DIFFERS)
        for one in self._differing:
            if self._logged.get(one.node) != one.parts:
                _log.warning("%s", _sentence(one))
            self._logged[one.node] = one.parts
        for one in found:
            if one.state == SAME and one.node in self._logged:
                del self._logged[one.node]
                _log.info("a daemon on %s would act as this one again", one.name)


def _sentence(one: Candidate) -> str:
    return (
        f"a daemon that began on {one.name} now would act in another way than this one; what "
        f"differs: {', '.join(one.parts)} (gnt-steward check-config --all-nodes names the values)"
    )


def _compared(node: Node, own: DaemonParts | None, there: DaemonParts | None) -> Candidate:
    if own is None:
        return Candidate(node.uuid, node.name, NOT_KNOWN, why="there is no key here")
    if there is None:
        why = "no report of its agent says it now"
        return Candidate(node.uuid, node.name, NOT_KNOWN, why=why)
    parts = differing(own, there)
    if parts is None:
        why = "its last report is made with another key"
        return Candidate(node.uuid, node.name, NOT_KNOWN, why=why)
    return Candidate(node.uuid, node.name, DIFFERS if parts else SAME, parts)
