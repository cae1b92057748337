"""The repairs ``evacuate`` and ``evacuate-failover``: drain, move all instances, final role.

They look at the world only: a drain or a move by an admin meanwhile counts as a part of their work.
"""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.ganeti.reasons import Reason, with_reasons
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.task import DRAIN, FINAL_ROLE, Done, Plan, Task, Wait
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import EVACUATIONS
from ganeti_steward.core.model.opcodes import set_role
from ganeti_steward.plugins.maintenance.config import DRAINED, OFFLINE, Maintd
from ganeti_steward.plugins.maintenance.repairs.evacuation.case import Evacuation
from ganeti_steward.plugins.maintenance.repairs.evacuation.moves import Emptied, empty, weak_points

#: The source of the reason that puts all moves of the cluster into one bucket.
LIMIT_SOURCE: Final = "gnt:daemon:maintd:limit"


class Evacuate:
    """The plugin of both repairs."""

    CONFIG: Final = Maintd

    def __init__(self) -> None:
        self._settings = Maintd()

    def configure(self, settings: Maintd) -> None:
        """``settings``: the section ``[maintd]``."""
        self._settings = settings

    @hookimpl
    def steward_plan(self, incident: Incident, world: World, context: Context) -> list[Plan] | None:
        """The next step of the evacuation."""
        if incident.action not in EVACUATIONS:
            return None
        node = world.nodes.get(incident.node)
        if not node:
            return [Wait(f"node {incident.node_name} is not in the cluster")]
        return [self._next(Evacuation(incident, node, world, context, self._settings))]

    def _next(self, evacuation: Evacuation) -> Plan:
        node = evacuation.node
        if node.master:
            return Wait(
                f"{node.name} is the master node: fail over the master role first "
                "(gnt-cluster master-failover)"
            )
        if not (node.drained or node.offline):
            return _role(node, DRAIN, DRAINED, "nothing new is placed on it")
        found = empty(evacuation)
        if not isinstance(found, Emptied):
            return self._limited(found, evacuation.incident)
        return self._end(evacuation, found)

    def _end(self, evacuation: Evacuation, emptied: Emptied) -> Plan:
        settings, node = self._settings, evacuation.node
        role = settings.degraded_final_role if emptied.copies else settings.final_role
        if role == OFFLINE and not node.offline:
            return _role(node, FINAL_ROLE, OFFLINE, "nothing is left on it that can be moved")
        return Done("; ".join([emptied.sentence(node.name), *weak_points(evacuation, emptied)]))

    def _limited(self, plan: Plan, incident: Incident) -> Plan:
        """With the bucket of all moves of the cluster in the reason trails (job-filters 5)."""
        most = self._settings.moves_in_cluster
        if not most or not isinstance(plan, Task):
            return plan
        # The same time for the same task, so that a repetition is recognized.
        bucket = Reason(LIMIT_SOURCE, f"rate-limit:{most}:maintd", incident.first_seen)
        return plan._replace(jobs=[with_reasons(job, [bucket]) for job in plan.jobs])


def _role(node: Node, step: str, role: str, why: str) -> Task:
    job = [set_role(node.name, role)]
    return Task(step, frozenset({node.name}), frozenset(), f"set {node.name} {role}: {why}", (job,))
