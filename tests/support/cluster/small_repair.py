"""A repair for tests of the step: like the built-in ones, without an engine for targets.

It drains a node, moves its instances one after the other and sets it offline.
"""

from __future__ import annotations

from collections.abc import Iterable

from ganeti_steward.core.model.cluster import Instance, Node
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import (
    COMMAND,
    DRAIN,
    FINAL_ROLE,
    MOVE,
    Done,
    Failed,
    Task,
    Wait,
)
from ganeti_steward.plugins.model.world import World, diagnose_object


def plan(incident: Incident, world: World) -> list[PluginPlan]:
    """What it plans for one incident."""
    return [PluginPlan("simulated", one) for one in _plans(incident, world)]


def _plans(incident: Incident, world: World) -> Iterable[Task | Done | Failed | Wait]:
    node = world.nodes[incident.node]
    if incident.action == "live-repair":
        command = diagnose_object(incident.original).get("command")
        if not command:
            return [Done("no command")]
        return [Task(COMMAND, frozenset({node.name}), frozenset(), "repair", command=command)]
    return _evacuation(node, world)


def _evacuation(node: Node, world: World) -> Iterable[Task | Done | Failed | Wait]:
    alone = frozenset({node.name})
    if not (node.drained or node.offline):
        drain = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node.name, "drained": True}
        return [Task(DRAIN, alone, frozenset(), "drain", ([drain],))]
    own = list(world.instances_on(node.name))
    if own:
        return [_move(own[0], node, world)]
    if not node.offline:
        offline = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node.name, "offline": True}
        return [Task(FINAL_ROLE, alone, frozenset(), "set offline", ([offline],))]
    return [Done("the node is empty")]


def _move(instance: Instance, node: Node, world: World) -> Task | Failed | Wait:
    usable = [
        other.name
        for other in world.nodes.values()
        if other.name != node.name and not (other.offline or other.drained)
    ]
    targets = sorted({*usable} - {*world.avoided_nodes})
    free = [name for name in targets if name not in world.reserved_nodes]
    if not targets:
        return Failed("nothing can be moved", ((instance.name, "no node is left"),))
    if not free:
        return Wait(f"all {len(targets)} targets are in use")
    # Every other instance is planned as if nothing were reserved: the step has to notice.
    target = targets[0] if int(instance.name[-1]) % 2 else free[0]
    migrate = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": instance.name}
    migrate["target_node"] = target
    used = frozenset({node.name, target})
    return Task(MOVE, used, frozenset({instance.name}), f"move {instance.name}", ([migrate],))
