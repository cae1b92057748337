"""What the brakes judge: an incident or routine work, with what would be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.effects import Effects
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import AFTERWARDS, Done, Failed, Held, Task
from ganeti_steward.plugins.model.world import World

_NO_EFFECTS: Final = Effects()


@dataclass(frozen=True, kw_only=True)
class BrakeCase:
    """What the brakes judge that hold back repairs and routine work alike."""

    world: World
    """with the incidents as they are now"""
    config: Maintd
    utc_offset: int
    """s"""
    next: Task | Done | Failed | None = None
    """what would be done, once it is planned"""
    effects: Effects = _NO_EFFECTS
    """what that does to nodes and instances; empty until it is planned"""

    @property
    def subject(self) -> str:
        """What is held back."""
        raise NotImplementedError

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


def braked(case: BrakeCase, brake: str, sentence: str, **values: object) -> Held:
    """Something that a brake holds back."""
    return Held(case.subject, brake, sentence, tuple(values.items()))


def is_under_repair(incident: Incident) -> bool:
    """Whether something is being done to its node."""
    return incident.state.under_repair or any(
        submission.step not in AFTERWARDS for submission in incident.open
    )
