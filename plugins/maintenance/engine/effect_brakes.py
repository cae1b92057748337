"""The brakes that judge what the operations of a task do, whatever its step is called.

They hold for repairs and routine work alike, and so for every plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from ganeti_steward.core.errors import few
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.plugins.maintenance.effects import ClusterFacts
from ganeti_steward.plugins.maintenance.engine.brake_case import (
    BrakeCase,
    RepairCase,
    braked,
    held_task,
    is_under_repair,
    takes_place,
)
from ganeti_steward.plugins.maintenance.engine.brakes import waiting
from ganeti_steward.plugins.maintenance.engine.copies import COPIED, may_lose_writes, why_old
from ganeti_steward.plugins.maintenance.engine.dead_nodes import not_permitted, unproven
from ganeti_steward.plugins.model.incident import (
    DONE_TAG,
    FENCE_TAG,
    MAINTENANCE_PAUSE_TAG,
    OPT_OUT_TAG,
    PAUSE_TAG,
    STOPPED_TAG,
    Incident,
)
from ganeti_steward.plugins.model.task import Held, Task
from ganeti_steward.plugins.model.world import Reported, World

#: As many instances are named in a sentence.
_SHOWN: Final = 5

#: Tags by which a person permits something, and those by which one holds something back.
_WORDS: Final = (
    f"+{STOPPED_TAG}",
    f"+{FENCE_TAG}",
    f"+{DONE_TAG}",
    "+maintd:approve:",
    f"-{OPT_OUT_TAG}",
    f"-{PAUSE_TAG}",
    f"-{MAINTENANCE_PAUSE_TAG}",
)


def facts_of(world: World) -> ClusterFacts:
    """What effects depend on."""
    groups = world.groups
    return ClusterFacts(
        {
            node.name: (
                node.uuid,
                node.group,
                groups[node.group].name if node.group in groups else "",
            )
            for node in world.cluster.nodes
        },
        frozenset(node.name for node in world.cluster.nodes if node.offline),
        {name: instance.nodes for name, instance in world.instances.items()},
    )


def opt_out(case: BrakeCase, nodes: Collection[str], instances: Collection[str]) -> Held | None:
    """Something of it is excluded by a tag."""
    world = case.world
    used = _nodes(world, nodes)
    groups = {node.group: world.groups[node.group] for node in used if node.group in world.groups}
    tagged = [
        *(f"node {node.name}" for node in used if OPT_OUT_TAG in node.tags),
        *(f"node group {group.name}" for group in groups.values() if OPT_OUT_TAG in group.tags),
        *(
            f"instance {name}"
            for name in instances
            if name in world.instances and OPT_OUT_TAG in world.instances[name].tags
        ),
    ]
    if not tagged:
        return None
    where = " and ".join(sorted(tagged))
    return braked(case, "opt-out", f"{where} has the tag {OPT_OUT_TAG}; {held_task(case)}")


def _whole(case: BrakeCase) -> Held | None:
    if not case.effects.whole:
        return None
    names = _list(case.effects.whole)
    sentence = f"{names} affects the whole cluster, or what it does is not known"
    return braked(case, "whole-cluster", f"{sentence}; {held_task(case)}")


def _not_named(case: BrakeCase) -> Held | None:
    """What a task does not name is not reserved for it."""
    task, effects, world = case.next, case.effects, case.world
    if not isinstance(task, Task):
        return None
    changed = effects.moved | effects.degraded | effects.erased | effects.removed
    known = [world.instances[name] for name in changed if name in world.instances]
    nodes = (effects.out | effects.cleared | effects.targets).union(
        *(instance.nodes for instance in known)
    )
    nodes -= task.nodes
    instances = effects.touched - task.instances
    if case.evacuated in effects.powered:
        instances -= {instance.name for instance in world.instances_on(case.evacuated)}
    if not (nodes or instances):
        return None
    names = _list(nodes | instances)
    return braked(case, "not-named", f"the task does not name {names}; {held_task(case)}")


def opted_out(case: BrakeCase) -> Held | None:
    """No node with the tag loses role or power or gets anything, no instance with it changes."""
    return opt_out(case, case.effects.out | case.effects.targets, case.effects.touched)


def _silent(case: BrakeCase) -> Held | None:
    """Silence is no report of a fault: such a node may be fine."""
    silent = [
        node.name
        for node in _nodes(case.world, case.effects.out - {case.evacuated})
        if not isinstance(case.world.observations.get(node.uuid), Reported)
    ]
    if not silent:
        return None
    verb = "gives" if len(silent) == 1 else "give"
    return braked(case, "silent", f"{_list(silent)} {verb} no valid report; {held_task(case)}")


def _master(case: BrakeCase) -> Held | None:
    masters = [node.name for node in _nodes(case.world, case.effects.out) if node.master]
    if not masters:
        return None
    return braked(
        case,
        "master",
        f"node {masters[0]} is the master: it can neither lose a role nor its power before another "
        f"node is the master (gnt-cluster master-failover there); {held_task(case)}",
    )


def _occupied(case: BrakeCase) -> Held | None:
    """A node under maintenance is not rebooted while anything would notice."""
    if not (isinstance(case, RepairCase) and case.incident.maintenance):
        return None
    if case.node.name not in case.effects.powered:
        return None
    reasons = [*_noticing(case.world, case.node)]
    if not reasons:
        return None
    sentence = f"{case.node.name} is not rebooted: {'; '.join(reasons)}; {held_task(case)}"
    return braked(case, "occupied", sentence)


def _noticing(world: World, node: Node) -> Iterator[str]:
    """What would notice that a node is rebooted."""
    if not node.drained:
        yield "it is not drained: it may be a master candidate, and gets instances"
    meant = [one.name for one in world.running_on(node.name)]
    if running := sorted({*meant, *world.left_running_on(node.name)}):
        yield f"instances run on it: {_list(running)}"
    mirrored = [one for one in world.instances_on(node.name) if one.template == "drbd" and one.up]
    if excluded := [one.name for one in mirrored if OPT_OUT_TAG in one.tags]:
        yield f"a copy of {_list(excluded)} is on it, which has the tag {OPT_OUT_TAG}"
    if unsynced := [one.name for one in mirrored if not _in_sync(world, one.name)]:
        yield f"the disks of {_list(unsynced)} are not known to be in sync"


def _in_sync(world: World, instance: str) -> bool:
    health = world.disk_health(instance)
    return health is not None and health.in_sync


def _nodes(world: World, names: Collection[str]) -> list[Node]:
    return [node for node in world.cluster.nodes if node.name in names]


def _stopped(case: BrakeCase) -> Held | None:
    """What may still run on a node that Ganeti does not ask is not started a second time."""
    world, effects = case.world, case.effects
    found = [
        instance
        for name in sorted(effects.abandoned)
        if (instance := world.instances.get(name))
        and (instance.up or name in effects.started | effects.created | effects.removed)
        and not world.is_stopped(instance.primary)
    ]
    if not found:
        return None
    primary = found[0].primary
    names = [instance.name for instance in found if instance.primary == primary]
    verb = "runs" if len(names) == 1 else "run"
    return braked(
        case,
        "stopped",
        f"{primary} is offline, and whether {_list(names)} still {verb} there is not known: "
        "nothing is started elsewhere before it is confirmed to be off; "
        f"gnt-node add-tags {primary} {STOPPED_TAG}{_confirmed_by(world, primary)}",
    )


def _confirmed_by(world: World, node: str) -> str:
    """The uuid in the tag of an admin: of the incident of the node, else the node's own."""

    def latest(incident: Incident) -> tuple[bool, int, str]:
        return incident.active, incident.first_seen, incident.uuid

    found = world.node(node)
    if found is None:
        return node
    incidents = world.incidents.values()
    own = [
        incident for incident in incidents if incident.node == found.uuid and incident.state.avoided
    ]
    return max(own, key=latest).uuid if own else found.uuid


def _old_copy(case: BrakeCase) -> Held | None:
    """No copy is started, by any plugin, that was not in sync when it was seen last.

    Ganeti compares both copies itself while the primary answers.
    """
    world, effects = case.world, case.effects
    found = []
    # What is removed or installed again has no data to keep.
    for name in sorted(effects.moved - effects.removed - effects.erased):
        instance = world.instances.get(name)
        if instance is None or instance.template not in COPIED:
            continue
        # A migration fails where the primary does not answer.
        gone = name in effects.stopped and not world.answers(instance.primary)
        primary = world.node(instance.primary)
        permitted = primary is not None and may_lose_writes(world, case.config, primary.uuid)
        if permitted or not (gone or name in effects.abandoned):
            continue
        if why := why_old(world, case.seen, instance):
            found.append((instance, why))
    if not found:
        return None
    first, primary = found[0][0].name, world.node(found[0][0].primary)
    state = "is offline" if primary and primary.offline else "does not answer"
    reasons = few([why for _, why in found], _SHOWN, "; ")
    return braked(
        case,
        "old-copy",
        f"{found[0][0].primary} {state}, and the other copy may lack what was written last: "
        f"{reasons}; gnt-instance failover {first} starts that copy all the same, and "
        f"failover-unsynced of [maintd] permits it to the daemon; {held_task(case)}",
    )


def _consistency(case: BrakeCase) -> Held | None:
    """Only where nothing writes to the other copy any more, nothing newer can be lost."""
    world = case.world
    found = [
        name
        for name in sorted(case.effects.unchecked)
        if name not in world.instances or not world.is_stopped(world.instances[name].primary)
    ]
    if not found:
        return None
    return braked(
        case,
        "consistency",
        f"the task ignores the state of the disks of {_list(found)}, so that old data may be "
        f"started; {held_task(case)}",
    )


def _candidate_pool(case: BrakeCase) -> Held | None:
    """The master must not be the only node with the configuration where others could have it.

    Ganeti makes other nodes candidates in place of those that are drained or offline, as far as
    they are master_capable, in service and wanted.
    """
    world, lost = case.world, case.effects.ineligible
    serving = [node for node in world.cluster.nodes if not (node.offline or node.drained)]
    before = [node for node in serving if node.master or node.master_candidate]
    leaving = lost.union(*map(_leaving, world.incidents.values()))
    rest = [node for node in serving if node.master or node.name not in leaving]
    kept = [node for node in before if node in rest]
    capable = sum(node.master_capable is not False for node in rest if node not in kept)
    after = len(kept) + min(capable, max(0, world.candidate_pool_size - len(kept)))
    others = [node for node in world.cluster.nodes if node.name not in lost and node not in kept]
    enough = min(2, len(before), world.candidate_pool_size)
    if after >= enough or not others or all(node.name not in lost for node in before):
        return None
    return braked(
        case,
        "candidate-pool",
        f"{after} of {len(before)} master candidates would be left, and no other node can become "
        f"one; {held_task(case)}",
        candidates=after,
        limit=enough,
    )


def _leaving(incident: Incident) -> set[str]:
    """Names of the nodes that it is taking out of service."""
    if not is_under_repair(incident):
        return set()
    own = set() if incident.action == LIVE_REPAIR else {incident.node_name}
    return own.union(incident.demoted)


def _most_waiting(case: BrakeCase) -> Held | None:
    """No node after the other goes out of service while no person looks at any."""
    world, limit = case.world, case.config.most_waiting
    lost = _nodes(world, case.effects.demoted | case.effects.powered)
    new = {node.name for node in lost if not (node.offline or node.drained)}
    out = {
        name: f"{name} ({incident.status}, incident {incident.uuid})"
        for incident in world.incidents.values()
        for name in _leaving(incident) | waiting(incident, world)
        if name not in new and takes_place(case, incident)
    }
    if not new or len(out) + len(new) <= limit:
        return None
    return braked(
        case,
        "most-waiting",
        f"{len(out)} of at most {limit} nodes are out of service for repairs: {_list(out.values())}"
        f"; gnt-steward incident ack UUID when one is dealt with; {held_task(case)}",
        nodes=len(out),
        limit=limit,
    )


def _permits(case: BrakeCase) -> Held | None:
    """What only a person says."""
    found = sorted(one for one in case.effects.tagged if one.startswith(_WORDS))
    if not found:
        return None
    tags = _list(tag[1:] for tag in found)
    return braked(case, "person", f"only a person sets or removes {tags}; {held_task(case)}")


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


#: Judged for each task of a plugin.
BY_EFFECTS: Final[tuple[Callable[[BrakeCase], Held | None], ...]] = (
    _whole,
    _not_named,
    opted_out,
    _silent,
    _master,
    _occupied,
    unproven,
    not_permitted,
    _candidate_pool,
    _most_waiting,
    _stopped,
    _old_copy,
    _consistency,
    _permits,
)
#: Those of them that routine work does not have in a wider form.
FOR_ROUTINE: Final = tuple(brake for brake in BY_EFFECTS if brake is not opted_out)
