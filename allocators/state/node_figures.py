"""A node's free figures when an instance comes or goes, as the node itself would report them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Instance, Node


def with_disks(node: Node, instance: Instance, sign: int) -> Node:
    """The node when the disks of an instance are given back (-1: taken), in all volume groups."""
    if not instance.local or node.lacks_disk_figures:
        return node
    elsewhere = instance.elsewhere
    usual = instance.disk_space - sum(elsewhere.values())
    node = node._replace(free_disk=node.free_disk + sign * usual)
    if node.exclusive_storage and instance.spindles is not None:
        node = node._replace(free_spindles=node.free_spindles + sign * instance.spindles)
    if not elsewhere or node.volume_groups is None:
        return node
    groups = {
        name: group._replace(free=group.free + sign * elsewhere.get(name, 0))
        for name, group in node.volume_groups.items()
    }
    return node._replace(volume_groups=groups)
