"""Judges that a repair is begun, by what the daemon that begins it was answered by the agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fault_world.checks.answers import NONE, Answers
from fault_world.checks.texts import object_of
from fault_world.clock import SECOND
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.plugins.model.incident import ACTIONS

if TYPE_CHECKING:
    from fault_world.checks.seen import Seen
    from fault_world.world import World

Require = Callable[[str, bool, str], None]
Row = Mapping[str, Any]


class Begun:
    """The beginnings of repairs in one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self._recorded: dict[str, int] = {}
        """uuid of an incident -> when it was recorded first, ns since the epoch"""
        self._new: list[tuple[str, int]] = []
        """those that were begun in this round, and when the cluster was read"""

    def recorded(self, uuid: str) -> None:
        """A daemon has written the record of an incident."""
        self._recorded.setdefault(uuid, self._world.clock.now)

    def begun(self, uuid: str, record: Row, answers: Answers, seen: Seen | None) -> None:
        """A daemon has recorded that a repair is begun."""
        if record.get("maintenance") or seen is None:
            return
        self._is_reported(uuid, record, answers, seen)
        self._has_lasted(uuid, record)
        self._new.append((uuid, seen.at))
        self.is_no_storm(answers, seen)

    def _is_reported(self, uuid: str, record: Row, answers: Answers, seen: Seen) -> None:
        node = record["node_name"]
        answer = answers.observed.get(node, NONE)
        confirmed = record["action"] != LIVE_REPAIR and uuid in seen.confirmed
        if answer.object:
            text = f"{uuid} is begun, and {node} reports {answer.status}"
            self._require("reported", answer.object == object_of(record), text)
        elif not confirmed:
            self._require("reported", False, f"{uuid} is begun without a report of {node}")
        age = answers.observed_at - answer.timestamp
        if answer.object and not (confirmed or self._world.jumped):
            # It was fresh when it was polled, and counts until the next poll.
            settings = self._world.settings
            life = settings.report_max_age + 2 * settings.poll_interval + settings.poll_time_limit
            limit = life * SECOND
            text = f"{uuid} is begun for a report that is {age // SECOND} s old"
            self._require("reported", age <= limit, text)

    def _has_lasted(self, uuid: str, record: Row) -> None:
        """For the hold time, when it was decided: a slow round records that later."""
        hold = self._world.settings.hold_time
        decided = max((one["at"] for one in record["open"]), default=record["changed"])
        passed = (decided - record["observed_since"]) / SECOND
        text = f"{uuid} of {record['node_name']} is begun after {passed:.0f} s of {hold:g} s"
        self._require("reported", self._world.jumped > 0 or passed >= hold, text)

    def round(self) -> None:
        """A round has ended: all its records are written."""
        new, self._new = self._new, []
        for uuid, at in new:
            if record := self._world.checks.records.get(uuid):
                self._is_worst(uuid, record, at)

    def _is_worst(self, uuid: str, record: Row, at: int) -> None:
        """Nothing more severe is to be done for the node."""
        own = ACTIONS.index(record["action"])
        for other, one in self._world.checks.known().items():
            active = one["status"] in ("noted", "pending") and one["node"] == record["node"]
            known = self._recorded.get(other, at) < at
            worse = active and known and ACTIONS.index(one["action"]) > own
            text = f"{uuid} ({record['action']}) is begun before {other} ({one['action']})"
            self._require("worst-first", not worse, text)

    def is_no_storm(self, answers: Answers, seen: Seen) -> None:
        """Not too many nodes report a fault of which no person knows."""
        # Roles may have changed since the daemon has read the cluster.
        rows, before = self._world.ganeti.nodes, seen.was_offline
        nodes = [row for row in rows if not (row["offline"] and row["name"] in before)]
        records = self._world.checks.records.values()
        known = {
            one["node"] for one in records if one["status"] in ("completed", "failed", "canceled")
        }
        # What was fresh when it was polled may be too old by now.
        oldest = answers.observed_at - self._world.settings.report_max_age * SECOND
        found = {row["name"]: answers.observed.get(row["name"], NONE) for row in nodes}
        ill = [
            row["name"]
            for row in nodes
            if found[row["name"]].is_ill
            and found[row["name"]].timestamp >= oldest
            and row["uuid"] not in known
            and not (row["offline"] or row["name"] in before | seen.was_excluded)
        ]
        most = self._world.settings.storm_share * len(nodes)
        text = f"{sorted(ill)} of {len(nodes)} nodes report a fault"
        self._require("storm", len(ill) <= max(1, most), text)
