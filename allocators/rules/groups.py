"""The rules for whole node groups: alloc_policy and networks (allocation 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Group, Instance

#: The alloc_policy of groups that take instances only where a request names the group.
UNALLOCABLE = "unallocable"


def takes_instances(group: Group) -> bool:
    """Whether the group takes instances although no request names it."""
    return group.alloc_policy != UNALLOCABLE


def network_fault(group: Group, instance: Instance) -> str:
    """Why the networks of the instance rule out the group; empty when they do not."""
    missing = (network for network in instance.networks if network not in group.networks)
    network = next(missing, None)
    return "" if network is None else f"is not connected to network {network}"
