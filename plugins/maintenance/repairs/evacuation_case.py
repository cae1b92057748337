"""One evacuation: what its steps, and the decision about each instance, depend on.

Of a node that does not answer nothing is started elsewhere before it is known to be off.  Ganeti
itself stops an instance before it starts it elsewhere, and looks at the disks, unless the node is
marked offline.  So the node is marked offline only after it was confirmed to be off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.errors import few
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.finding import EVACUATE_FAILOVER, EVACUATIONS
from ganeti_steward.plugins.maintenance.config import FENCE_OFF, OFFLINE
from ganeti_steward.plugins.maintenance.engine.copies import COPIED, may_lose_writes
from ganeti_steward.plugins.maintenance.engine.dead_nodes import sign_of_life
from ganeti_steward.plugins.maintenance.repairs.attempts import retry
from ganeti_steward.plugins.maintenance.repairs.case import NodeCase
from ganeti_steward.plugins.model.incident import DEAD
from ganeti_steward.plugins.model.operations import out_of_band, set_role
from ganeti_steward.plugins.model.task import (
    FINAL_ROLE,
    POWER_OFF,
    POWER_STATUS,
    Failed,
    Plan,
    Task,
    Wait,
)
from ganeti_steward.plugins.model.world import Reported
from ganeti_steward.plugins.texts import utc_time

if TYPE_CHECKING:
    from ganeti_steward.allocators.moves.leave_tasks import NodeMoves

#: Ganeti's word for an instance that was seen running.
RUNNING: Final = "running"

#: Instances, each with the reason why it is not moved.
Reasons = tuple[tuple[str, str], ...]

#: Names of instances that a sentence gives; the others are only counted.
_NAMED: Final = 5


class Evacuation(NodeCase):
    """The evacuation of a node."""

    @property
    def here(self) -> tuple[Instance, ...]:
        """The instances that have the node as primary or secondary, by name."""
        return tuple(self.world.instances_on(self.name))

    @property
    def answers(self) -> bool:
        """Whether Ganeti can ask the node to stop an instance."""
        if self.node.offline:
            return False
        running = (one.status == RUNNING and one.primary == self.name for one in self.here)
        return self.world.answers(self.name) or any(running)


def runs_on(instance: Instance, node: str) -> bool:
    """Whether an instance is meant to run on a node."""
    return instance.up and instance.primary == node


def last_synced(case: Evacuation, instance: str) -> str:
    """When the copies of its disks were last seen in sync, for a sentence."""
    at = dict(case.incident.synced).get(instance)
    if at is None:
        return "were not seen in sync since the incident began"
    return f"were last seen in sync at {utc_time(at)}"


def named(names: Sequence[str]) -> str:
    """The first few names, the others counted."""
    return few(names, _NAMED)


def others_later(found: NodeMoves, most: int) -> Iterator[str]:
    """Why not all instances that have a place move at the same time; ``most``: the limit."""
    if found.later:
        need = "they need" if len(found.later) > 1 else "it needs"
        nodes = f"{need} nodes that these moves or other tasks use"
        why = f"moves-at-once is {most}" if len(found.moves) == most else nodes
        yield f"{len(found.later)} later: {why}"


def listed(reasons: Iterable[tuple[str, str]]) -> str:
    """The first few in words, the others counted."""
    return few([f"{name}: {reason}" for name, reason in reasons], _NAMED, "; ")


def unsynced_fault(case: Evacuation, instance: Instance) -> str:
    """Why an instance of a node that is off is not started from its copy; empty: it may be."""
    permitted = may_lose_writes(case.world, case.settings, case.node.uuid)
    if permitted or not (why := _lost(case, instance)):
        return ""
    now = isinstance(case.world.observations.get(case.node.uuid), Reported)
    when = "at the last poll" if now else "since it was confirmed to be off"
    permits = (
        f"the agent of {case.name} reported {when}, so it is not off: gnt-node modify "
        f"--offline no {case.name} has Ganeti use its copy"
        if case.settings.failover_unsynced
        else "failover-unsynced of [maintd] permits it"
    )
    return (
        f"{case.name} does not answer, and {why}: what was written since would be lost on "
        f"{instance.secondaries[0]}; {permits}"
    )


def _lost(case: Evacuation, instance: Instance) -> str:
    """Why the other copy of its disks may lack something, in words; empty: it does not."""
    if instance.template not in COPIED:
        return ""
    others = (one for one in case.world.incidents.values() if one.node == case.node.uuid)
    ill = any(one.active and one.action in EVACUATIONS for one in others)
    if case.incident.action == DEAD and not ill:
        return case.world.old_copies.get(instance.name, "nothing is known of its copies")
    # The link of an ill node may have failed at any moment before the node did.
    return f"its disks {last_synced(case, instance.name)}"


def what_is_lost(case: Evacuation, instance: Instance) -> str:
    """What a failover from a node that is off may lose; empty: nothing."""
    if case.answers or instance.primary != case.name or not (why := _lost(case, instance)):
        return ""
    return f"{why}: later data are lost"


def unconfirmed(case: Evacuation, instance: Instance) -> str:
    """What an instance waits for whose primary is not known to be off; empty: it is."""
    if case.world.is_stopped(case.name):
        return "" if case.node.offline else f"{case.name} is marked offline first"
    state = "is offline" if case.node.offline else "does not answer"
    what = (
        "whether it still runs there is not known"
        if runs_on(instance, case.name)
        else "it cannot be queried"
    )
    tried = case.incident.attempt()
    failed = f" ({tried.reason})" if tried.tried and _may_power_off(case) else ""
    off = f"switch it off (gnt-node power --ignore-status off {case.name}, or by hand)"
    tag = f"gnt-node add-tags {case.name} {case.incident.stopped_tag}"
    return f"{case.name} {state}, and {what}{failed}: {off}, then {tag}"


def prove(case: Evacuation) -> Plan:
    """What is done about a node of which nothing answers, before Ganeti has it marked offline."""
    if case.node.uuid not in case.world.observations:
        return Wait(f"whether {case.name} answers is not known: it was not polled since the start")
    # A person's word that it is off outweighs a machine that answers; a controller's does not.
    confirmed = case.world.is_stopped(case.name) and not case.incident.off_at
    if not confirmed and (sign := sign_of_life(case.world, case.node)):
        return Failed(f"{sign} again before it was marked offline")
    if task := confirm(case):
        return task
    down = [one.name for one in case.here if runs_on(one, case.name)]
    number = "1 instance is" if len(down) == 1 else f"{len(down)} instances are"
    are = f"{number} down with it: {', '.join(down)}" if down else "none of its instances is down"
    tried = case.incident.attempt()
    failed = f"; {tried.reason}" if tried.tried else ""
    return Wait(
        f"whether {case.name} is off is not known, and {are}{failed}; see gnt-node power status "
        f"{case.name}, switch it off (gnt-node power --ignore-status off {case.name}, or by hand), "
        f"then gnt-node add-tags {case.name} {case.incident.stopped_tag}"
    )


def confirm(case: Evacuation) -> Task | None:
    """Switch the node off, or mark it offline once it is off; None: nothing can be done now."""
    if case.answers:
        return None
    if not case.world.is_stopped(case.name):
        return _power(case)
    if case.node.offline:
        return None
    why = "it is confirmed to be off, so its instances can be started elsewhere"
    return case.on_node(
        FINAL_ROLE, f"set {case.name} offline: {why}", [set_role(case.name, OFFLINE)]
    )


def _power(case: Evacuation) -> Task | None:
    if not _may_power_off(case):
        return None
    # A node may take a while to go off.
    if retry(case.incident, "", case.world.now, case.settings):
        return None
    status = out_of_band(case.name, "power-status")
    if case.incident.off_at:
        what = f"query the power status of {case.name}: it was off, some time ago"
        return case.on_node(POWER_STATUS, what, [status])
    what = f"switch {case.name} off: it does not answer, and its instances may still run"
    return case.on_node(POWER_OFF, what, [out_of_band(case.name, "power-off"), status])


def _may_power_off(case: Evacuation) -> bool:
    return case.settings.fence != FENCE_OFF and case.incident.action in (EVACUATE_FAILOVER, DEAD)
