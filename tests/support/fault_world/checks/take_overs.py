"""Judges the requests by which a candidate becomes the master for a maintenance."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from fault_world.checks.tasks import nanoseconds
from ganeti_steward.core.model.job_state import FINAL

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from fault_world.world import World

Require = Callable[[str, bool, str], None]


class TakeOvers:
    """Those of all maintenances in one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self._run = dict[str, str]()
        """maintenance -> the node whose agent has begun"""

    def requested(self, daemon: Daemon, node: str, wanted: bytes) -> None:
        """A daemon requests that a node becomes the master."""
        uuid, ganeti = json.loads(wanted)["maintenance"], self._world.ganeti
        before = self._run.get(uuid, "")
        text = f"{node} was requested to become the master for {uuid}"
        self._require("handed-over", not before, f"{text} after {before} was")
        row = ganeti.node(node)
        fit = row["master_candidate"] and not (row["offline"] or row["drained"])
        self._require("handed-over", fit, f"{text}, and it is not a candidate in service")
        # Those that others submit while the daemon decides are not known to it.
        read_at = daemon.read_at or self._world.clock.now
        going = [
            row["id"]
            for row in self._world.luxid.queue.rows.values()
            if row["status"] not in FINAL and nanoseconds(row["received_ts"]) < read_at
        ]
        self._require("handed-over", not going, f"{text} while jobs {going} go on")

    def run(self, node: str, submission: str, wanted: bytes) -> None:
        """An agent has begun to make its node the master."""
        checks, uuid = self._world.checks, json.loads(wanted)["maintenance"]
        text = f"{node} becomes the master for {uuid}"
        announced = submission in checks.announced
        self._require("recorded-first", announced, f"no record has it: {text}")
        self._require("handed-over", uuid not in self._run, f"{text} once more")
        self._run[uuid] = node
