"""One planned maintenance, and the copies that leave its node where the request says so."""

from __future__ import annotations

from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.maintenance.repairs.case import NodeCase
from ganeti_steward.plugins.maintenance.repairs.evacuation_case import Reasons, listed, others_later
from ganeti_steward.plugins.model import task
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, Maintenance


class MaintenanceCase(NodeCase):
    """The planned maintenance of a node."""

    @property
    def request(self) -> Maintenance:
        """What was requested."""
        assert self.incident.maintenance is not None
        return self.incident.maintenance

    @property
    def mirrored(self) -> list[Instance]:
        """The drbd instances of the node that should run, here or on their other node."""
        found = self.world.instances_on(self.name)
        return [
            instance
            for instance in found
            if instance.template == "drbd" and instance.up and not instance.forthcoming
        ]

    @property
    def copies(self) -> list[Instance]:
        """Those that run elsewhere and whose copy is to leave the node."""
        return [
            instance
            for instance in self.mirrored
            if self.request.full
            and instance.primary != self.name
            and OPT_OUT_TAG not in instance.tags
        ]


def copies_leave(case: MaintenanceCase) -> task.Plan | None:
    """Copy disks of instances that run elsewhere to other nodes; None: no copy is to leave."""
    wanted = [one.name for one in case.copies if one.name not in case.world.reserved_instances]
    if not case.copies:
        return None
    # It imports the engine, which most rounds do not need.
    from ganeti_steward.allocators.moves.leave_node import Leaving, leave_node

    world = case.world
    leaving = Leaving(
        case.name,
        wanted,
        world.avoided_nodes,
        world.reserved_nodes,
        case.settings.moves_at_once,
        passing=world.passing_nodes,
        excluded=world.excluded_nodes(),
        may_keep_copies=False,
    )
    found = leave_node(leaving, world.cluster, case.context)
    if not found.moves:
        return _waiting(case, found.blocked, found.impossible + found.stays)
    names = [move.instance.name for move in found.moves]
    what = f"copy the disks of {len(names)} of {len(case.copies)} instances off {case.name}: "
    return task.Task(
        task.MOVE,
        frozenset({case.name}).union(*(move.nodes for move in found.moves)),
        frozenset(names),
        "; ".join([what + ", ".join(names), *others_later(found, case.settings.moves_at_once)]),
        [move.job for move in found.moves],
        each=tuple(names),
    )


def _waiting(case: MaintenanceCase, blocked: Reasons, impossible: Reasons) -> task.Wait:
    """Nothing may be copied now, or no other node has room."""
    of = f"the copies of {len(case.copies)} instances on {case.name}"
    if impossible and not blocked:
        return task.Wait(
            f"{of} have to leave it, and there is no place for {len(impossible)} of them: "
            f"{listed(impossible)}; gnt-steward maintenance cancel {case.name}, and start it again "
            "without --full"
        )
    if not blocked:
        return task.Wait(f"{of} have to leave it, and other tasks use these instances")
    return task.Wait(f"{of} wait: {listed(blocked)}")
