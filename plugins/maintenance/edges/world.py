"""Reads the live cluster: one set of queries for what an allocator and the daemon need of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ganeti_steward.core.ganeti.shapes import returned_by
from ganeti_steward.core.ganeti.snapshot import Client, name_of, read_rows
from ganeti_steward.core.maintenance.world import GroupFacts, InstanceFacts, NodeFacts, World
from ganeti_steward.core.model.cluster import Group, Instance, Node

#: What the daemon needs in addition to what an allocator does, by kind of object.
_MORE: Final[Mapping[str, Sequence[str]]] = {"node": ("master",), "instance": ("status",)}


def read_world(
    client: Client,
    now: int,
    *,
    storage: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> World:
    """The cluster at ``now`` (ns since the epoch), without incidents and observations.

    A node that does not answer has no figures and counts as silent; nothing else is lost.  Where
    Ganeti does not report the free space of the instances' storage in its usual answer, a job is
    submitted that queries it; if it fails or waits too long, the nodes have no disk figures.
    ``storage`` false: no job is submitted, and that space counts as none.  Raises StewardError
    when luxid does not answer.
    """
    with returned_by(client.where):
        rows = read_rows(client, more=_MORE, storage=storage, required=False, sleep=sleep)
        cluster, info = rows.snapshot.cluster, rows.info
        nodes = [_node(cluster.nodes[cluster.node_index[row["name"]]], row) for row in rows.nodes]
        instances = [
            _instance(cluster.instance(name_of(row)), row["status"] or "") for row in rows.instances
        ]
        groups = [cluster.groups[cluster.group_index[row["uuid"]]] for row in rows.groups]
        return World(
            now,
            cluster,
            {node.uuid: node for node in nodes},
            {instance.name: instance for instance in instances},
            {group.uuid: _group(group) for group in groups},
            frozenset(info["tags"]),
            info["candidate_pool_size"],
        )


def _group(group: Group) -> GroupFacts:
    return GroupFacts(group.uuid, group.name, frozenset(group.tags))


def _node(node: Node, row: Mapping[str, Any]) -> NodeFacts:
    return NodeFacts(
        uuid=node.uuid,
        name=node.name,
        group=node.group,
        # The cluster takes null for no tags; here one of them may forbid everything.
        tags=frozenset(row["tags"]),
        master=row["master"],
        master_candidate=bool(node.master_candidate),
        offline=node.offline,
        drained=node.drained,
        vm_capable=node.vm_capable,
        address=node.primary_ip,
        master_capable=bool(node.master_capable),
    )


def _instance(instance: Instance, status: str) -> InstanceFacts:
    return InstanceFacts(
        name=instance.name,
        primary=instance.nodes[0],
        secondaries=instance.nodes[1:],
        template=instance.template,
        # The cluster takes a state it does not know as up.
        up=instance.sent.text("admin_state") == "up",
        tags=frozenset(instance.tags),
        status=status,
    )
