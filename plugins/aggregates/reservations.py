"""Reservations: hosts taken out of a free pool for the instances that name the reservation.

A reservation is an aggregate under a prefix that is default-forbidden and has a free pool, the
aggregate called ``free`` there: ``reservation:free``.  A prefix without one is for something else,
licences for example.

The two nodes of a drbd instance are in one node group.  So nodes are taken in one group; in
several where they are for a template that needs one node, or with drbd two or more in each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import INTERNALLY_MIRRORED
from ganeti_steward.plugins.aggregates.membership import Members, MembershipRules, aggregates

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Node


#: What the free pool is called behind the prefix.
FREE: Final = "free"
#: What transit aggregates are called behind the prefix; a random word follows.
TRANSIT: Final = "moving-"
#: The usual prefix, which is one of reservations even while its free pool has no members.
USUAL: Final = "reservation:"


class PrefixReservations(NamedTuple):
    """What is under one default-forbidden prefix."""

    prefix: str
    free: Members
    """the free pool; perhaps without members"""
    taken: tuple[Members, ...]
    """the reservations, by name"""
    claimable: bool
    """whether a tag that begins so requests the aggregate (it is a required prefix, too)"""


def reservations(rules: MembershipRules) -> tuple[PrefixReservations, ...]:
    """The free pool and the reservations of every prefix of reservations."""
    found = aggregates(rules.membership)
    prefixes = (p for p in rules.settings.forbidden if _has_pool(p, found, rules))
    return tuple(_under(prefix, found, rules) for prefix in prefixes)


def _has_pool(prefix: str, found: Collection[str], rules: MembershipRules) -> bool:
    """Whether a prefix has a free pool: one with members, or one that no instance may request."""
    free = free_pool(prefix)
    if prefix == USUAL or free in found or free in rules.settings.unclaimable:
        return True
    return any(name.startswith(prefix + TRANSIT) for name in found)


def free_pool(prefix: str) -> str:
    """The aggregate that is the free pool under a prefix."""
    return prefix + FREE


def _under(prefix: str, found: dict[str, Members], rules: MembershipRules) -> PrefixReservations:
    free = free_pool(prefix)
    taken = (m for name, m in found.items() if name.startswith(prefix) and name != free)
    claimable = any(prefix.startswith(required) for required in rules.settings.required)
    return PrefixReservations(prefix, found.get(free, Members(free)), tuple(taken), claimable)


#: Nodes of one group that an internally mirrored instance needs.
_PAIR = 2


def choose(
    cluster: Cluster, fit: Sequence[Node], number: int, template: str, inside: Sequence[str]
) -> list[str]:
    """So many of the nodes; those without instances first.  Raises StewardError.

    ``template``: of the instances they are for, empty: not known; ``inside``: nodes that the
    reservation has already, whose groups come first.
    """
    used = {name for instance in cluster.instances for name in instance.nodes}
    by_group: dict[str, list[Node]] = {}
    for node in sorted(fit, key=lambda node: (node.name in used, node.name)):
        if _allows(cluster, node.group, template):
            by_group.setdefault(node.group, []).append(node)
    there = _counts(cluster, inside)
    least = _PAIR if template in INTERNALLY_MIRRORED else 1
    whole = [
        group
        for group, nodes in by_group.items()
        if len(nodes) >= number and there.get(group, 0) + number >= least
    ]

    def key(group: str) -> tuple[bool, int, str]:
        taken = sum(node.name in used for node in by_group[group][:number])
        return group not in there, taken, _name(cluster, group)

    if whole:
        chosen = by_group[min(whole, key=key)][:number]
    else:
        several = _several(by_group, number, least, there) if template else []
        chosen = [node for nodes in several for node in nodes]
    if len(chosen) < number:
        raise StewardError(_refusal(cluster, by_group, number, template))
    return sorted(node.name for node in chosen)


def check_named(
    cluster: Cluster, template: str, nodes: Sequence[str], inside: Sequence[str]
) -> None:
    """Raise StewardError when no instance of the template fits on some of these nodes."""
    for group in _counts(cluster, nodes):
        if not _allows(cluster, group, template):
            raise StewardError(
                f"the policy of node group {_name(cluster, group)} allows no {template} instances"
            )
    if template in INTERNALLY_MIRRORED and (alone := lonely(cluster, [*nodes, *inside])):
        raise StewardError(
            f"a {template} instance needs two nodes of one group; these are alone in theirs: "
            f"{', '.join(alone)}"
        )


def lonely(cluster: Cluster, nodes: Iterable[str]) -> list[str]:
    """The nodes that are the only ones of their group among these, with the group."""
    names = list(dict.fromkeys(nodes))
    counts = _counts(cluster, names)
    groups = {name: cluster.node(name).group for name in names}
    return [
        f"{name} ({_name(cluster, group)})" for name, group in groups.items() if counts[group] == 1
    ]


def _several(
    by_group: dict[str, list[Node]], number: int, least: int, there: dict[str, int]
) -> list[list[Node]]:
    """Nodes of several groups, the largest first, so that none of them has too few."""
    found, left = [], number
    for group, nodes in sorted(by_group.items(), key=lambda item: -len(item[1])):
        take = min(left, len(nodes))
        needed = max(1, least - there.get(group, 0))
        # What is left must do for another group, too.
        if 0 < left - take < least and take - needed >= least - (left - take):
            take -= least - (left - take)
        if take >= needed:
            found.append(nodes[:take])
            left -= take
    return found


def _allows(cluster: Cluster, group: str, template: str) -> bool:
    """Whether a group's policy allows a template; one that is not known is allowed."""
    policy = cluster.group(group).policy
    return not template or template in policy.templates


def _counts(cluster: Cluster, nodes: Iterable[str]) -> dict[str, int]:
    """Node group -> how many of these it has."""
    counts: dict[str, int] = {}
    for name in dict.fromkeys(nodes):
        group = cluster.node(name).group
        counts[group] = counts.get(group, 0) + 1
    return counts


def _name(cluster: Cluster, group: str) -> str:
    return cluster.group(group).name


def _refusal(cluster: Cluster, by_group: dict[str, list[Node]], number: int, template: str) -> str:
    found = sorted(f"{_name(cluster, group)} has {len(nodes)}" for group, nodes in by_group.items())
    known = ", ".join(found) or "none has any"
    if template in INTERNALLY_MIRRORED:
        return (
            f"a {template} instance needs two nodes of one group, and {number} of the free ones "
            f"cannot be taken so: {known}"
        )
    if template:
        return f"{number} wanted, but of groups that allow {template} {known}"
    return (
        f"{number} wanted in one node group, as drbd needs them, but {known}; with "
        "--disk-template plain (or another one) they may be in several"
    )
