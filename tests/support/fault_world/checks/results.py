"""Judges what daemons record, by what jobs and commands have really done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fault_world.checks.answers import NONE
from fault_world.checks.texts import object_of
from fault_world.clock import SECOND
from ganeti_steward.plugins.model.incident import ACTIONS, DEAD, FAILED_TAG, READY_TAG
from ganeti_steward.plugins.model.task import AFTERWARDS

if TYPE_CHECKING:
    from fault_world.checks.answers import Answers
    from fault_world.checks.seen import Seen
    from fault_world.world import World

Require = Callable[[str, bool, str], None]
Row = Mapping[str, Any]

_ACTIVE: Final = ("noted", "pending")


class Results:
    """The results of the repairs in one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self._jobs: dict[str, tuple[int, ...]] = {}
        """submission -> numbers of its jobs"""
        self._commands: dict[str, set[str]] = {}
        """incident -> ids of the submissions of its commands"""
        self._tags: set[str] = set()
        """tags that were set by jobs"""
        self.removed_tags: set[str] = set()
        """tags that were removed by jobs"""
        self._completed: list[tuple[str, Seen | None]] = []
        """incidents that were recorded as completed in this round, with what was seen"""

    # What happens

    def handed_over(self, submission: str, numbers: Sequence[int]) -> None:
        """The jobs of a submission."""
        self._jobs[submission] = (*self._jobs.get(submission, ()), *numbers)

    def tagged(self, tags: Sequence[str]) -> None:
        """A job has set tags."""
        self._tags.update(tags)

    def untagged(self, tags: Sequence[str]) -> None:
        """A job has removed tags."""
        self.removed_tags.update(tags)

    def was_tagged(self, tag: str) -> bool:
        """Whether a job has ever set this tag."""
        return tag in self._tags

    # What is recorded

    def written(self, uuid: str, before: Row | None, after: Row, seen: Seen | None) -> None:
        """A daemon has written a record."""
        names = {one["id"] for one in after["open"] if one["command"]}
        self._commands.setdefault(uuid, set()).update(names)
        over = after["status"] not in _ACTIVE
        self._require("open-until-ended", not (over and names), f"{uuid} is over with a command")
        if before is None:
            return
        left = {one["id"] for one in after["open"]}
        for one in before["open"]:
            if one["id"] not in left:
                self._closed(one, before, after)
        if after["status"] == "completed" != before["status"] and not after.get("maintenance"):
            self._completed.append((uuid, seen))
        if after["acknowledged"] and not (before["acknowledged"] or after.get("maintenance")):
            # A failure that has closed volumes is known until they are opened.
            tag = f"{FAILED_TAG if before['status'] == 'failed' else READY_TAG}{uuid}"
            self._require("acknowledged", tag in self._tags, f"{tag} was never set")

    def removed(self, uuid: str, record: Row, answers: Answers, seen: Seen | None) -> None:
        """A daemon has deleted a record."""
        if not any(row["uuid"] == record["node"] for row in self._world.ganeti.nodes):
            return
        if record["status"] == "failed":
            self._require("acknowledged", f"{FAILED_TAG}{uuid}" in self._tags, f"{uuid} is gone")
        reported = not (record.get("maintenance") or record["action"] == DEAD)
        if record["status"] == "noted" and seen is not None and reported:
            self._was_healthy(uuid, record, answers, seen)

    def _was_healthy(self, uuid: str, record: Row, answers: Answers, seen: Seen) -> None:
        """The node has reported something else for the healthy delay, without a pause."""
        if self._world.jumped:
            return
        begin = seen.at - int(self._world.settings.healthy_delay * SECOND)
        last = answers.observed.get(record["node_name"], NONE)
        if last.is_ill and last.object != object_of(record):
            return  # it makes room for what the node reports now
        found = [one for one in answers.since(record["node_name"], begin) if one.at <= last.at]
        ill = [one for one in found if one.object == object_of(record)]
        self._require("healthy", not ill, f"{uuid} is forgotten, and its node reports it")
        rounds = [*answers.in_rounds(record["node_name"], begin), last]
        silent = any(not one.object for one in rounds)
        self._require("healthy", not silent, f"{uuid} is forgotten, and its node was silent")

    def _closed(self, submission: Row, before: Row, after: Row) -> None:
        """A submission has ended, by the record."""
        text, luxid = f"step {submission['step']} of {after['node_name']}", self._world.luxid
        jobs = {*self._jobs.get(submission["id"], ())} - luxid.never_stored
        states = [luxid.job(one) or {"status": "late"} for one in sorted(jobs)]
        open_ = [one["status"] for one in states if not one.get("end_ts")]
        self._require("open-until-ended", not open_, f"{text}: its jobs are {open_}")
        agent = self._world.agents.get(after["node_name"])
        if submission["command"] and agent and after["status"] in _ACTIVE:
            running = agent.runs(submission["id"])
            self._require("open-until-ended", not running, f"{text}: the command runs")
        unnamed = [] if before["acknowledged"] else sorted(jobs - {*after["jobs"], *luxid.purged})
        self._require("result", not unnamed, f"{text}: the record does not name {unnamed}")
        # A job that has left the archive may never have been there, if no record names it.
        gone = [luxid.purged[one] for one in {*luxid.purged} - {*before["jobs"]}]
        states = [one for one in states if one not in gone]
        bad = [one for one in states if one["status"] in ("error", "canceled")]
        fields = ("status", "attempts", "retry_at")
        noted = any(before[one] != after[one] for one in fields)
        # Whether Ganeti has done the work though its job was cut, the node itself decides.
        noted |= before.get("maintenance") != after.get("maintenance")
        if bad and before["status"] in _ACTIVE and submission["step"] not in AFTERWARDS:
            self._require("result", noted, f"{text} has failed, and the record does not say so")

    def round(self) -> None:
        """A round has ended: all its records are written."""
        completed, self._completed = self._completed, []
        for uuid, seen in completed:
            record = self._world.checks.records.get(uuid)
            if record and record["status"] == "completed" and not self._worse(record):
                self._is_completed(uuid, record, seen)

    def _worse(self, record: Row) -> bool:
        """Whether a more severe incident of the node was completed.

        What was written to the configuration of an old master is not known here.
        """
        own, checks = ACTIONS.index(record["action"]), self._world.checks
        return any(
            one["node"] == record["node"]
            and (one["status"] == "completed" or uuid in checks.deleted)
            and not one.get("maintenance")
            and ACTIONS.index(one["action"]) > own
            for uuid, one in checks.records.items()
        )

    def _is_completed(self, uuid: str, record: Row, seen: Seen | None) -> None:
        node = record["node_name"]
        if record["action"] == "live-repair" and not record["original"].get("command"):
            return  # there is nothing that could be run
        if record["action"] == "live-repair":
            agent = self._world.agents.get(node)
            good = agent and any(map(agent.succeeded, self._commands.get(uuid, ())))
            self._require("result", bool(good), f"{uuid} is completed without a command")
        elif seen is not None:
            left = sorted(name for name, primary in seen.primaries.items() if primary == node)
            self._require("result", not left, f"{uuid} is completed with {left} on {node}")
