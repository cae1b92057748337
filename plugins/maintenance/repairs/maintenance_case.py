"""One planned maintenance, and the steps that emptying the node and coming home have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ganeti_steward.allocators.jobs.operations import failover, migrate
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.repairs.case import NodeCase
from ganeti_steward.plugins.maintenance.repairs.evacuation_case import (
    Reasons,
    listed,
    named,
    others_later,
)
from ganeti_steward.plugins.model import operations, task, works
from ganeti_steward.plugins.model.debts import (
    CANDIDATE_TAG,
    DRAINED_TAG,
    HOME_TAG,
    SHUTDOWN_TAG,
    is_lost_candidate,
)
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG, Maintenance


class MaintenanceCase(NodeCase):
    """The planned maintenance of a node."""

    @property
    def request(self) -> Maintenance:
        """What was requested."""
        assert self.incident.maintenance is not None
        return self.incident.maintenance

    def own(self, tag: str) -> str:
        """The tag of the node's maintenance; ``tag``: its beginning, of `model.debts`."""
        return f"{tag}{self.node.uuid}"

    @property
    def debts(self) -> frozenset[str]:
        """The tags of instances that the maintenance of the node has changed."""
        return frozenset({self.own(SHUTDOWN_TAG), self.own(HOME_TAG)})

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

    @property
    def role_tags(self) -> list[str]:
        """The tags of the node that say which roles it lost or got for its maintenance."""
        tags = self.own(DRAINED_TAG), self.own(CANDIDATE_TAG)
        return [tag for tag in tags if tag in self.node.tags]


def taken_back(case: MaintenanceCase, why: str) -> task.Task:
    """Have the node get instances again, as a master candidate if it was one before.

    A node that Ganeti has promoted in its place stays a candidate: a person may want it to be one,
    and each promotion copies the whole job queue, so the next node that is drained needs none.
    """
    job = [operations.take_back(case.name, candidate=is_lost_candidate(case.node))]
    if case.role_tags:
        job.append(operations.remove_tags("node", case.name, case.role_tags))
    again = " as a master candidate" if is_lost_candidate(case.node) else ""
    return case.on_node(task.UNDRAIN, f"take {case.name} back{again}: {why}", job)


def runs(case: MaintenanceCase, step: str, command: str, when: str) -> task.Task:
    """Have the agent of the node run a repair command; ``when``: the end of the reason."""
    reason = f"run {command} on {case.name}{when}"
    return task.Task(step, frozenset({case.name}), frozenset(), reason, command=command)


def master_runs(case: MaintenanceCase, step: str, command: str, when: str) -> task.Plan:
    """Have the agent of the master run a hook; ``when``: the end of the reason."""
    master = next((node.name for node in case.world.cluster.nodes if node.master), "")
    if not master:
        return task.Wait(f"the master that must run {command} is not known")
    reason = f"run {command} on the master {master}{when}"
    nodes = frozenset({case.name})
    return task.Task(step, nodes, frozenset(), reason, command=command, agent=master)


def set_offline(case: MaintenanceCase, so: str) -> task.Wait:
    """A person has set the node offline, so Ganeti does not ask whether it answers."""
    back = f"gnt-node modify --offline no {case.name}"
    return task.Wait(f"{case.name} is set offline: {so}; where it is in order: {back}")


def fails(case: MaintenanceCase, reasons: Sequence[tuple[str, str]]) -> task.Failed:
    """The end, with everything running where it is; ``reasons``: instances, each with why."""
    return task.Failed(f"{listed(reasons)}; {works.take_back_by_hand(case.name)}")


def for_each(
    case: MaintenanceCase, step: str, what: str, jobs: Iterable[tuple[str, Job]], *targets: str
) -> task.Task | task.Wait:
    """One job for each instance, of those that no other task is in the way of."""
    world, chosen = case.world, list[tuple[str, Job]]()
    for name, job in jobs:
        nodes = {*world.instances[name].nodes, *targets} - {case.name}
        if name not in world.reserved_instances and not nodes & world.reserved_nodes:
            chosen.append((name, job))
    if not chosen:
        return task.Wait("other tasks use the nodes of all instances that must move")
    chosen = chosen[: case.settings.moves_at_once]
    names = [name for name, _ in chosen]
    nodes = {case.name, *targets}.union(*(world.instances[name].nodes for name in names))
    nodes |= {str(one["target_node"]) for _, job in chosen for one in job if one.get("target_node")}
    return task.Task(
        step,
        frozenset(nodes),
        frozenset(names),
        f"{what} {case.name}: {named(names)}",
        [job for _, job in chosen],
        each=tuple(names),
    )


def leaves_by(how: str) -> Callable[[str, str | None], dict[str, object]]:
    """The operation of a way to leave; a live migration never becomes a failover."""
    if how == "failover":
        return failover
    if how == "move":
        return lambda name, node: operations.copy_to(name, str(node))
    return lambda name, node: {**migrate(name, node), "allow_failover": False}


def wait_for_sync(case: MaintenanceCase, when: str) -> task.Wait | None:
    """Wait for disks that are not, or not known to be, in sync."""
    reasons, mark = [], ""
    for instance in case.mirrored:
        health = case.disk_health(instance.name)
        if health is None:
            reasons.append((instance.name, "the state of its disks is not known"))
        elif not health.in_sync:
            mark = mark if health.syncing and not health.stalled else task.BLOCKED
            faults = ", ".join(health.faults) or health.progress
            faults += f"; it has the tag {OPT_OUT_TAG}" if OPT_OUT_TAG in instance.tags else ""
            reasons.append((instance.name, faults))
    if not reasons:
        return None
    of = f"{len(reasons)} of {len(case.mirrored)} instances"
    reason = f"the disks of {of} must be in sync {when}: {listed(reasons)}"
    return task.Wait(reason, mark=mark)


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
            f"{of} must leave it, and there is no place for {len(impossible)} of them: "
            f"{listed(impossible)}; gnt-steward maintenance cancel {case.name}, and start it again "
            "without --full",
            mark=task.BLOCKED,
        )
    if not blocked:
        return task.Wait(f"{of} must leave it, and other tasks use these instances")
    return task.Wait(f"{of} wait: {listed(blocked)}")
