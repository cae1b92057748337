"""The repairs ``evacuate`` and ``evacuate-failover``: drain, move all instances, final role.

They look at the world only: a drain or a move by an admin meanwhile counts as a part of their work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ganeti_steward.core import hookimpl
from ganeti_steward.core.ganeti.reasons import Reason, with_reasons
from ganeti_steward.core.maintenance.incident import OPT_OUT_TAG, Incident
from ganeti_steward.core.maintenance.task import (
    DRAIN,
    FINAL_ROLE,
    MOVE,
    Done,
    Failed,
    Plan,
    Task,
    Wait,
)
from ganeti_steward.core.maintenance.world import InstanceFacts, NodeFacts, World
from ganeti_steward.core.model.cluster import NOT_MIRRORED
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import EVACUATE, EVACUATE_FAILOVER
from ganeti_steward.core.model.opcodes import MIGRATE, Job, failover, set_role
from ganeti_steward.plugins.maintenance.config import DRAINED, OFFLINE, Maintd

#: The source of the reason that puts all moves of the cluster into one bucket.
LIMIT_SOURCE: Final = "gnt:daemon:maintd:limit"

#: Names of instances that a sentence gives; the others are only counted.
_NAMED: Final = 5

#: Instances, each with the reason why it is not moved.
_Reasons = tuple[tuple[str, str], ...]


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
        if incident.action not in (EVACUATE, EVACUATE_FAILOVER):
            return None
        node = world.nodes.get(incident.node)
        if not node:
            return [Wait(f"node {incident.node_name} is not in the cluster")]
        return [self._next(_Evacuation(incident, node, world, context))]

    def _next(self, evacuation: _Evacuation) -> Plan:
        node = evacuation.node
        if node.master:
            return Wait(
                f"{node.name} is the master node: fail over the master role first "
                "(gnt-cluster master-failover)"
            )
        if not (node.drained or node.offline):
            return _role(node, DRAIN, DRAINED, "nothing new is placed on it")
        plan = evacuation.moves(self._settings.moves_at_once)
        if plan:
            return self._limited(plan, evacuation.incident)
        if self._settings.final_role == OFFLINE and not node.offline:
            return _role(node, FINAL_ROLE, OFFLINE, "no instance is left on it")
        return Done(f"no instance is left on node {node.name}")

    def _limited(self, plan: Plan, incident: Incident) -> Plan:
        """With the bucket of all moves of the cluster in the reason trails (job-filters 5)."""
        most = self._settings.moves_in_cluster
        if not most or not isinstance(plan, Task):
            return plan
        # The same time for the same task, so that a repetition is recognized.
        bucket = Reason(LIMIT_SOURCE, f"rate-limit:{most}:maintd", incident.first_seen)
        return plan._replace(jobs=[with_reasons(job, [bucket]) for job in plan.jobs])


def _role(node: NodeFacts, step: str, role: str, why: str) -> Task:
    job = [set_role(node.name, role)]
    return Task(step, frozenset({node.name}), frozenset(), f"set {node.name} {role}: {why}", (job,))


class _Evacuation(NamedTuple):
    """One incident, and what the moves of its instances depend on."""

    incident: Incident
    node: NodeFacts
    world: World
    context: Context

    def moves(self, most: int) -> Plan | None:
        """Move up to so many instances; None when none is left on the node."""
        here = tuple(self.world.instances_on(self.node.name))
        if not here:
            return None
        unmovable = self._unmovable(here)
        names = {name for name, _ in unmovable}
        busy = self._busy([one for one in here if one.name not in names])
        names |= {name for name, _ in busy}
        # It imports the engine, which most rounds do not need.
        from ganeti_steward.allocators.moves.leave_node import Leaving, leave_node

        found = leave_node(
            Leaving(
                self.node.name,
                [one.name for one in here if one.name not in names],
                self.world.avoided_nodes,
                self.world.reserved_nodes,
                most,
                may_keep_copies=False,
            ),
            self.world.cluster,
            self.context,
        )
        if found.moves:
            moved = [one.instance.name for one in found.moves]
            return Task(
                MOVE,
                frozenset({self.node.name}).union(*(one.nodes for one in found.moves)),
                frozenset(moved),
                f"move {len(moved)} of {len(here)} instances off {self.node.name}: "
                f"{', '.join(moved)}",
                [self._job(one.job) for one in found.moves],
            )
        return self._rest(
            len(here), busy + found.blocked, unmovable + found.impossible + found.stays
        )

    def _rest(self, total: int, waiting: _Reasons, unmovable: _Reasons) -> Plan:
        on_it = f"of {total} instances on {self.node.name}"
        if waiting:
            return Wait(f"{len(waiting)} {on_it} wait for other tasks: {_listed(waiting)}")
        unmovable = tuple(sorted(unmovable))
        return Failed(f"{len(unmovable)} {on_it} cannot be moved: {_listed(unmovable)}", unmovable)

    def _unmovable(self, here: Sequence[InstanceFacts]) -> _Reasons:
        """Instances that no target helps."""
        reasons = ((one.name, self._fault(one)) for one in here)
        return tuple((name, reason) for name, reason in reasons if reason)

    def _fault(self, instance: InstanceFacts) -> str:
        if OPT_OUT_TAG in instance.tags:
            return f"it has the tag {OPT_OUT_TAG}"
        if instance.template in NOT_MIRRORED:
            return f"its disks are on this node only (template {instance.template})"
        # Ganeti cannot stop it there, so it might run twice: only the report can permit that.
        runs_here = instance.up and instance.primary == self.node.name
        if self.node.offline and runs_here and self.incident.action != EVACUATE_FAILOVER:
            return f"its primary is offline: it can fail over only, and {EVACUATE} does not do that"
        return ""

    def _busy(self, movable: Sequence[InstanceFacts]) -> _Reasons:
        """Instances that another task uses, or whose other node one uses."""
        reasons = ((one.name, self._use(one)) for one in movable)
        return tuple((name, reason) for name, reason in reasons if reason)

    def _use(self, instance: InstanceFacts) -> str:
        if instance.name in self.world.reserved_instances:
            return "another task uses it"
        cluster = self.world.cluster
        known = instance.name in cluster.instance_index
        if not known or cluster.instance(instance.name).nodes != instance.nodes:
            return "its figures are not known yet"
        used = self.world.reserved_nodes.intersection(instance.nodes) - {self.node.name}
        return f"another task uses its node {', '.join(sorted(used))}" if used else ""

    def _job(self, job: Job) -> Job:
        """With a failover in place of the migration that leaves the node, where that is wanted."""
        at = next((i for i, one in enumerate(job) if one["OP_ID"] == MIGRATE), None)
        if self.incident.action != EVACUATE_FAILOVER or at is None:
            return job
        name, target = job[at]["instance_name"], job[at].get("target_node")
        return [*job[:at], failover(name, target, ignore_consistency=True), *job[at + 1 :]]


def _listed(reasons: _Reasons) -> str:
    """The first few in words, the others counted."""
    shown = "; ".join(f"{name}: {reason}" for name, reason in reasons[:_NAMED])
    more = len(reasons) - _NAMED
    return f"{shown}; and {more} more" if more > 0 else shown
