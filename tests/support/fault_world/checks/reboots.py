"""Judges that nodes are rebooted for their maintenance, by daemons and by people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ganeti_steward.plugins.model.incident import DONE_TAG

if TYPE_CHECKING:
    from fault_world.checks.seen import Seen
    from fault_world.world import World

Row = Mapping[str, Any]
Require = Callable[[str, bool, str], None]


class Reboots:
    """The reboots for maintenance in one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self._times: Counter[str] = Counter()
        """uuid of a maintenance -> how often its node was rebooted for it"""
        self._before: dict[str, int] = {}
        """node -> how often it had lost its power when a daemon last had it rebooted"""

    def written(self, uuid: str, before: Row | None, after: Row) -> None:
        """A daemon has written a record."""
        was = (before or {}).get("maintenance") or {}
        now = after.get("maintenance") or {}
        node = after["node_name"]
        if now.get("worked", 0) <= was.get("worked", 0) or not now.get("boot"):
            return
        rows = self._world.ganeti.nodes
        reported = any(f"{DONE_TAG}{uuid}" in row["tags"] for row in rows if row["name"] == node)
        rebooted = self._world.ganeti.boots[node] > self._before.get(node, 0)
        self._require("returned", reported or rebooted, f"{node} was not rebooted for {uuid}")

    def requested(self, node: str, seen: Seen | None) -> None:
        """A daemon has a node rebooted; ``seen``: what it had read in that round."""
        self._before[node] = self._world.ganeti.boots[node]
        runs = seen.runs if seen else frozenset()
        running = sorted(name for name, where in runs if where == node)
        self._require("emptied", not running, f"{running} run on {node}")
        out = seen is not None and node in seen.was_out
        self._require("emptied", out, f"{node} is to be rebooted, and is not drained")
        for row in self._world.ganeti.on(node):
            others = {row["pnode"], *row["snodes"]} - {node}
            away = sorted(others & self._away())
            self._require("apart", not away, f"{row['name']} of {node} is on {away}, too")

    def _away(self) -> set[str]:
        """Names of the nodes that are rebooted for maintenance, and have not come back."""
        records = self._world.checks.records.values()
        names = {one["node_name"] for one in records if one.get("maintenance")}
        return names & self._world.ganeti.off

    def rebooted(self, uuid: str, node: str) -> None:
        """A node is rebooted for this maintenance, by a command or the out-of-band program."""
        self._times[uuid] += 1
        times = self._times[uuid]
        self._require("rebooted-once", times == 1, f"{node} is rebooted {times} times for {uuid}")
        self._world.reboot(node)
