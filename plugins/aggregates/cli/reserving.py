"""Which nodes become a reservation, and by what name: no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_reader import counted
from ganeti_steward.plugins.aggregates.cli.reading import (
    TaggedCluster,
    full_name,
    listed,
    requesting_instances,
)
from ganeti_steward.plugins.aggregates.cli.transfers import Transfer
from ganeti_steward.plugins.aggregates.language.expression import TAG, ExpressionError, checked_name
from ganeti_steward.plugins.aggregates.language.tags import aggregate_tag
from ganeti_steward.plugins.aggregates.membership import Members
from ganeti_steward.plugins.aggregates.reservations import (
    TRANSIT,
    PrefixReservations,
    check_named,
    choose,
    free_pool,
    reservations,
)

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Node


class Wanted(NamedTuple):
    """What the options of ``create`` and ``extend`` request."""

    name: str
    nodes: tuple[str, ...] = ()
    """these; empty: ``number`` of the free pool"""
    number: int = 1
    groups: tuple[str, ...] = ()
    """names of node groups to choose from; empty: all"""
    more: bool = False
    """for a reservation there is, not a new one"""
    template: str = ""
    """disk template of the instances it is for; empty: not known"""


def resolve(tagged: TaggedCluster, name: str) -> tuple[PrefixReservations, str]:
    """The prefix a reservation is under, and its full name; raises StewardError."""
    tagged.rules.check_usable()
    found = reservations(tagged.rules)
    _check_reserving(tagged, found, name)
    under = [one for one in found if name.startswith(one.prefix)]
    # Of prefixes that contain each other the longest is meant.
    chosen = max(under, key=lambda one: len(one.prefix)) if under else None
    if chosen is None and len(found) > 1:
        known = ", ".join(one.prefix for one in found)
        raise StewardError(f"{name!a} could be under any of {known}; write it with its prefix")
    chosen = chosen or found[0]
    full = name if under else chosen.prefix + name
    try:
        checked_name(full, TAG)
        checked_name(f"{chosen.prefix}{TRANSIT}00000000", TAG)
    except ExpressionError as err:
        raise StewardError(str(err)) from None
    if full == chosen.free.name:
        raise StewardError(f"{full} is the free pool, not a reservation")
    return chosen, full


def _check_reserving(tagged: TaggedCluster, found: Sequence[PrefixReservations], name: str) -> None:
    """A name under a prefix without a free pool, a licence, is none of a reservation."""
    forbidden = tagged.rules.settings.forbidden
    if not forbidden:
        raise StewardError(
            f"{tagged.source.where} has no default-forbidden prefix, so nothing can be reserved "
            "(gnt-cluster add-tags steward:default-forbidden-prefix:reservation: "
            "steward:required-prefix:reservation: would make one)"
        )
    of_none = [p for p in forbidden if name.startswith(p) and p not in {o.prefix for o in found}]
    if of_none or not found:
        prefix = max(of_none or forbidden, key=len)
        free = free_pool(prefix)
        raise StewardError(
            f"{name!a} is not a reservation: {prefix} has no free pool ('gnt-cluster add-tags "
            f"steward:unclaimable:{free}' would declare one, 'gnt-steward aggregate add {free} "
            "NODE...' would fill it)"
        )


def creation(tagged: TaggedCluster, wanted: Wanted, word: str) -> Transfer:
    """The nodes from the free pool into the reservation; raises StewardError.

    ``word``: a random one, for the name of the transit aggregate.
    """
    under, full = resolve(tagged, wanted.name)
    if full.startswith(f"{under.prefix}{TRANSIT}"):
        raise StewardError(f"{full}: names that begin so are for nodes on their way")
    if full in tagged.rules.settings.unclaimable:
        raise StewardError(f"no instance may request {full} (it is unclaimable)")
    members = _taken(under, full)
    if members is not None and not wanted.more:
        raise StewardError(
            f"{full} exists already ('gnt-steward reserve extend' gives it more nodes)"
        )
    if members is None and wanted.more:
        raise _no_reservation(under, full)
    free = [node for node in under.free.nodes if _is_free(tagged, under, node)]
    inside = members.nodes if members else ()
    if wanted.nodes:
        nodes = _named(tagged.cluster, wanted.nodes, free, under)
        check_named(tagged.cluster, wanted.template, nodes, inside)
    else:
        nodes = _chosen(tagged.cluster, wanted, free, under, inside)
    return Transfer(under.prefix, tuple(nodes), under.free.name, full, word, inside)


def check_reserved(tagged: TaggedCluster, name: str) -> None:
    """Raise StewardError when there is no reservation of this name."""
    under, full = resolve(tagged, name)
    if _taken(under, full) is None:
        raise _no_reservation(under, full)


def _taken(under: PrefixReservations, full: str) -> Members | None:
    """The reservation of this name, if there is one."""
    return next((one for one in under.taken if one.name == full), None)


def _no_reservation(under: PrefixReservations, full: str) -> StewardError:
    known = ", ".join(one.name for one in under.taken) or "none"
    return StewardError(f"there is no reservation {full} (known: {known})")


def _is_free(tagged: TaggedCluster, under: PrefixReservations, node: str) -> bool:
    """In the free pool by its own tag, and in nothing else under the prefix."""
    own = tagged.rules.membership.nodes[node]
    tags = tagged.cluster.node(node).tags
    alone = [name for name in own if name.startswith(under.prefix)] == [under.free.name]
    return alone and aggregate_tag(under.free.name) in tags


def _named(
    cluster: Cluster, words: Sequence[str], free: Sequence[str], under: PrefixReservations
) -> list[str]:
    nodes, faults = [], []
    for word in words:
        node = full_name(word, cluster.nodes)
        if node is None:
            faults.append(f"the cluster has no node {word!a}")
        elif node not in free:
            faults.append(f"{node} is not in the free pool {under.free.name}")
        else:
            nodes.append(node)
    if faults:
        raise StewardError(join_faults(faults))
    return list(dict.fromkeys(nodes))


def _chosen(
    cluster: Cluster,
    wanted: Wanted,
    free: Sequence[str],
    under: PrefixReservations,
    inside: Sequence[str],
) -> list[str]:
    """Usable ones, in one node group unless the template allows for several."""
    groups = [_group(cluster, name) for name in wanted.groups]
    nodes = [cluster.node(name) for name in free]
    fit = [node for node in nodes if node.usable and (not groups or node.group in groups)]
    if len(fit) < wanted.number:
        raise _too_few(wanted, fit, under, free)
    return choose(cluster, fit, wanted.number, wanted.template, inside)


def _too_few(
    wanted: Wanted, fit: Sequence[Node], under: PrefixReservations, free: Sequence[str]
) -> StewardError:
    pool = under.free.name
    if not free:
        return StewardError(
            f"the free pool {pool} is empty; 'gnt-steward aggregate add {pool} NODE...' fills it"
        )
    where = f" in {', '.join(wanted.groups)}" if wanted.groups else ""
    names = listed([node.name for node in fit]) or "none"
    return StewardError(
        f"{wanted.number} wanted, but the free pool {pool} has "
        f"{counted(len(fit), 'usable node')}{where}: {names}; 'gnt-steward aggregate add {pool} "
        "NODE...' adds some"
    )


def _group(cluster: Cluster, name: str) -> str:
    found = cluster.groups_named(name)
    if len(found) != 1:
        known = ", ".join(group.name for group in cluster.groups)
        raise StewardError(f"the cluster has no node group {name!a} (known: {known})")
    return cluster.groups[found[0]].uuid


def instances_on(tagged: TaggedCluster, nodes: Sequence[str]) -> list[str]:
    """Instances that are on one of the nodes."""
    wanted = {*nodes}
    return [one.name for one in tagged.cluster.instances if not wanted.isdisjoint(one.nodes)]


def release(tagged: TaggedCluster, name: str, word: str, *, force: bool) -> list[Transfer]:
    """The nodes of a reservation into the free pool; raises StewardError.

    A node that is under the prefix by something else, too, only leaves the reservation.
    """
    under, full = resolve(tagged, name)
    members = _taken(under, full)
    if members is None:
        raise _no_reservation(under, full)
    _check_tagged(tagged.cluster, members)
    users = requesting_instances(tagged).get(full, [])
    users += [one for one in instances_on(tagged, members.nodes) if one not in users]
    if users and not force:
        raise StewardError(
            f"instances request {full} or are on its nodes: {listed(users, every=False)}; "
            "--force releases it anyway"
        )
    other = [one for one in members.nodes if _elsewhere(tagged, under, one, full)]
    plain = [one for one in members.nodes if one not in other]
    found = [Transfer(under.prefix, tuple(plain), full, under.free.name, word)]
    found.append(Transfer(under.prefix, tuple(other), full, "", word))
    return [transfer for transfer in found if transfer.nodes]


def _check_tagged(cluster: Cluster, members: Members) -> None:
    """All members must be nodes with the tag; raises StewardError."""
    name = members.name
    if members.groups or members.units or members.pools:
        raise StewardError(
            f"{name} has members that are not nodes and never were in the free pool; "
            "'gnt-steward aggregate remove' takes them out"
        )
    tag, nodes = aggregate_tag(name), cluster.node_index
    configured = [one for one in members.nodes if tag not in cluster.nodes[nodes[one]].tags]
    if configured:
        raise StewardError(f"the configuration, not a tag, puts {listed(configured)} in {name}")


def _elsewhere(tagged: TaggedCluster, under: PrefixReservations, node: str, full: str) -> bool:
    own = tagged.rules.membership.nodes[node]
    return any(name.startswith(under.prefix) and name != full for name in own)
