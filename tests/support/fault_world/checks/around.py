"""Judges the commands that are run before and after the work of a maintenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fault_world.checks.texts import shown
from ganeti_steward.plugins.model.task import AFTER, BEFORE, MASTER_BEFORE

if TYPE_CHECKING:
    from fault_world.world import World

Require = Callable[[str, bool, str], None]
#: Operations after which what runs on the node is not as it was.
_LEAVING = ("OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER", "OP_INSTANCE_MOVE")


class Around:
    """The commands of all maintenances in one world."""

    def __init__(self, world: World, require: Require) -> None:
        self._world, self._require = world, require
        self._good: Counter[tuple[str, str]] = Counter()
        """maintenance and step -> how often its command has ended well"""

    def requested(self, uuid: str, step: str, *, known: bool) -> None:
        """A daemon has one run; ``known``: whether it has a report of the node of its own."""
        self._require("around", known, f"{step} of {uuid} by a daemon without a report")
        again = self._good[uuid, step] > 0 and uuid not in self._world.checks.deleted
        self._require("around", not again, f"{step} of {uuid} once more, after it has ended well")

    def ended(self, uuid: str, step: str, *, good: bool) -> None:
        """One has ended."""
        self._good[uuid, step] += good

    def done(self, uuid: str, request: Mapping[str, Any], operation: Mapping[str, Any]) -> None:
        """An operation of a maintenance has had its effect."""
        text = f"{shown([operation])}, and the command {{}} has not ended well"
        leaves = operation.get("drained") or operation["OP_ID"] in _LEAVING
        for key, step in (("master_before", MASTER_BEFORE), ("before", BEFORE)):
            early = request.get(key) and not self._good[uuid, step]
            self._require("around", not (leaves and early), text.format(step))
        # A maintenance that is given back was never worked on.
        back = operation.get("drained") is False and request.get("worked")
        unfit = request.get("after") and not self._good[uuid, AFTER]
        self._require("around", not (back and unfit), text.format(AFTER))
