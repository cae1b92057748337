"""Judges that a repair is begun, by what the agents have answered the daemon, and what waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fault_world.checks.answers import NONE, Answers
from fault_world.checks.texts import object_of
from fault_world.clock import SECOND
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.plugins.maintenance.engine.brake_case import is_under_repair
from ganeti_steward.plugins.model.incident import ACTIONS, DEAD
from ganeti_steward.plugins.model.waits import step_of

if TYPE_CHECKING:
    from fault_world.checks.seen import Seen
    from fault_world.world import World
    from ganeti_steward.plugins.maintenance.daemon.parts import Round

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
        if record["action"] == DEAD:
            self._is_silent(uuid, record, answers, seen)
        else:
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

    def _is_silent(self, uuid: str, record: Row, answers: Answers, seen: Seen) -> None:
        """No agent of the node has answered for as long as makes it dead."""
        begin = seen.at - int(self._world.settings.dead_after * SECOND)
        rounds = answers.in_rounds(record["node_name"], begin)
        text = f"{uuid} is begun, and the agent of {record['node_name']} has answered"
        answered = any(one.object for one in rounds)
        self._require("dead", self._world.jumped > 0 or not answered, text)
        text = f"{uuid} is begun, and the machine of {record['node_name']} answers"
        self._require("dead", record["node_name"] in answers.gone, text)

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


#: Seconds after its end at which the next round has noticed that a wait is over.
_LATE: Final = 600
#: Words of brakes that are for planned work alone.
_PLANNED: Final = ("gate", "apart")


class Waits:
    """What waits in one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require

    def begun(self, record: Row) -> None:
        """A daemon has recorded that a repair or a maintenance is begun."""
        request = record.get("maintenance")
        if not request:
            return
        self._in_time(record, request)
        known = self._world.checks.known().values()
        nodes = {one["node"] for one in known if one["status"] == "pending"} | {record["node"]}
        text = f"{record['node_name']} is taken out while {len(nodes) - 1} others are"
        self._require("limits", len(nodes) <= self._world.settings.most_nodes, text)

    def _in_time(self, record: Row, request: Row) -> None:
        """When it was decided: a slow round records that later."""
        decided = max((one["at"] for one in record["open"]), default=record["changed"])
        late = decided + request["expected"] * SECOND - request["deadline"]
        text = (
            f"{record['node_name']} is taken out, to be back {late // SECOND} s after its deadline"
        )
        over = late > 0 and request["deadline"] and not request["worked"]
        self._require("deadline", not over, text)

    def round(self, outcome: Round) -> None:
        """A round has ended."""
        self._planned_last(outcome)
        now = outcome.world.now if outcome.world else 0
        for held in outcome.held:
            one = outcome.incidents.get(held.subject)
            if one is None:
                continue
            ends = held.until or step_of(held)
            text = f"{one.node_name} waits ({held.brake})"
            self._require("waits-end", bool(ends), f"{text} and does not say what ends it")
            over = 0 < held.until < now - _LATE * SECOND
            late = f"{text} longer than it says: {held.sentence}"
            self._require("waits-end", self._world.jumped > 0 or not over, late)

    def _planned_last(self, outcome: Round) -> None:
        repairs = {uuid: one for uuid, one in outcome.incidents.items() if not one.maintenance}
        # One may end in the same round after this one was judged.
        before = outcome.world.incidents.values() if outcome.world else ()
        # One that was to begin is not written where its record fails.
        decided = outcome.decision.records if outcome.decision else ()
        known = [one for one in (*before, *decided, *repairs.values()) if not one.maintenance]
        nodes = {one.node for one in known if is_under_repair(one)}
        orphans = len(outcome.world.orphans) if outcome.world else 0
        many = len(nodes) + orphans
        for held in outcome.held:
            if held.subject in repairs and held.brake in ("most-nodes", *_PLANNED):
                urgent = held.brake == "most-nodes" and many >= self._world.settings.most_nodes
                text = f"{repairs[held.subject].node_name} waits, though {many} are under repair"
                self._require("planned-last", urgent, f"{text}: {held.sentence}")
