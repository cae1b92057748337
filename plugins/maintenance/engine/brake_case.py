"""What the brakes judge: an incident or routine work, with what would be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.plugins.maintenance.config import OBSERVE, Maintd
from ganeti_steward.plugins.maintenance.effects import Effects
from ganeti_steward.plugins.maintenance.engine.copies import LastSeen
from ganeti_steward.plugins.model.incident import Incident, Submission
from ganeti_steward.plugins.model.task import AFTERWARDS, Done, Failed, Held, Task
from ganeti_steward.plugins.model.world import World

_NO_EFFECTS: Final = Effects()
_NOTHING_SEEN: Final = LastSeen()


@dataclass(frozen=True, kw_only=True)
class BrakeCase:
    """What the brakes judge that hold back repairs and routine work alike."""

    world: World
    """with the incidents as they are now"""
    config: Maintd
    utc_offset: int
    """s"""
    seen: LastSeen = _NOTHING_SEEN
    """of nodes and disks, since the daemon was started"""
    next: Task | Done | Failed | None = None
    """what would be done, once it is planned"""
    effects: Effects = _NO_EFFECTS
    """what that does to nodes and instances; empty until it is planned"""
    only: str = ""
    """see `Inputs.only`"""

    @property
    def subject(self) -> str:
        """What is held back."""
        raise NotImplementedError

    @property
    def acts(self) -> bool:
        """Whether anything may be begun for it."""
        return self.subject == self.only if self.only else self.config.mode != OBSERVE

    @property
    def evacuated(self) -> str:
        """The node that is taken out of service, though it may be silent by now; empty: none."""
        return ""


@dataclass(frozen=True, kw_only=True)
class RepairCase(BrakeCase):
    """An incident, and once it is planned, what would be done."""

    incident: Incident
    node: Node
    commanded: int = 0
    """when the repair command was begun last for the same object of the node, ns; 0: never"""

    @property
    def subject(self) -> str:
        """What is held back."""
        return self.incident.uuid

    @property
    def evacuated(self) -> str:
        """See `BrakeCase.evacuated`."""
        return "" if self.incident.action == LIVE_REPAIR else self.node.name


Brake = Callable[[RepairCase], Held | None]


def takes_place(case: BrakeCase, other: Incident) -> bool:
    """Whether another incident takes one of the places of nodes that a limit leaves for this case.

    For the repair of an ill node only repairs do: it never waits for planned work.
    """
    repairs = isinstance(case, RepairCase) and not case.incident.maintenance
    return not (repairs and other.maintenance)


def braked(
    case: BrakeCase,
    brake: str,
    sentence: str,
    *,
    since: int = 0,
    until: int = 0,
    **values: object,
) -> Held:
    """Something that a brake holds back; ``since``, ``until``: as in `Held`."""
    return Held(case.subject, brake, sentence, tuple(values.items()), since, until)


def held_task(case: BrakeCase) -> str:
    """The end of a sentence."""
    return f"held: {case.next.reason}" if case.next else "held"


def command_ends(submission: Submission, config: Maintd) -> int:
    """When the daemon gives up to learn how a command has ended, at the latest; ns.

    It may take as long as it may, and its agent is queried for as long after that.
    """
    return after(submission.at, 2 * config.command_time_limit)


def after(at: int, seconds: float) -> int:
    """So many seconds after a time, ns since the epoch."""
    return at + int(seconds * 10**9)


def is_under_repair(incident: Incident) -> bool:
    """Whether something is being done to its node."""
    return incident.state.under_repair or any(
        submission.step not in AFTERWARDS for submission in incident.open
    )
