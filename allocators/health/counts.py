"""What of a plan for balancing shows how well a node group is, before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.core.errors import StewardError

if TYPE_CHECKING:
    from ganeti_steward.allocators.balancing.planning.plan_balance import BalancePlan
    from ganeti_steward.core.model.cluster import Node
    from ganeti_steward.core.model.explanation import GroupBalance, GroupHealth


class Counts(NamedTuple):
    """How much of what balancing can change is wrong in a group, or in all."""

    n1: int
    tags: int
    primaries: int
    secondaries: int
    blocked: int
    """nodes that could not be emptied"""

    @classmethod
    def of(cls, health: GroupHealth) -> Counts:
        """The counts of one group."""
        return cls(
            len(health.n1_nodes),
            len(health.clashing),
            len(health.primaries),
            len(health.secondaries),
            len({node for _, node in health.stuck or ()}),
        )

    @classmethod
    def sum(cls, counts: Sequence[Counts]) -> Counts:
        """The counts of several groups together."""
        return cls(*map(sum, zip(*counts, strict=True))) if counts else cls(0, 0, 0, 0, 0)


class Checked(NamedTuple):
    """One group with what is wrong that balancing could change, before and after it."""

    uuid: str
    balance: GroupBalance
    before: GroupHealth
    after: GroupHealth
    unusable: tuple[Node, ...]


def checked(plan: BalancePlan) -> list[Checked]:
    """The groups of a plan; raises StewardError where an allocator reports no faults."""
    cluster, found = plan.cluster, []
    for balance in plan.groups:
        before, after = balance.health_before, balance.health_after
        named = cluster.groups_named(balance.group)
        if before is None or after is None or not named:
            break
        uuid = cluster.groups[named[0]].uuid
        unusable = [one for one in cluster.nodes if one.group == uuid and not one.usable]
        found.append(Checked(uuid, balance, before, after, tuple(unusable)))
    if not plan.groups or len(found) < len(plan.groups):
        raise StewardError(
            "the allocator that answered the balance request does not report what is wrong with "
            "the groups; 'balanced' does ([allocators] balance in the configuration)"
        )
    return found
