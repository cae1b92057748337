"""A cluster as it would be if some nodes were gone, or if there were more like one that it has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from ganeti_steward.allocators.capacity.sizes import counted_groups
from ganeti_steward.allocators.state.names import (
    Names,
    group_named,
    node_named,
    with_offline,
    without_figures,
)
from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.cluster import Cluster, Node
from ganeti_steward.core.model.sent import Sent
from ganeti_steward.core.records import NamedTuple

#: Nodes that one option can add.
MOST: Final = 1000
#: Tags that begin so say what happens to a node now.
_OF_THE_MOMENT: Final = "maintd:"
_KEYS: Final = ("like", "group")


class AddedNode(NamedTuple):
    """A node that the cluster does not have."""

    name: str
    like: str
    """name of the node that it is a copy of"""
    group: str
    """name of its node group"""


class Assumed(NamedTuple):
    """What a count is about."""

    cluster: Cluster
    """with the changes"""
    offline: tuple[str, ...] = ()
    """names of nodes that are taken as offline"""
    added: tuple[AddedNode, ...] = ()

    @property
    def sentences(self) -> Iterator[str]:
        """What was assumed, for people."""
        if self.offline:
            yield f"Taken as offline: {', '.join(self.offline)}."
        for like, group in dict.fromkeys((one.like, one.group) for one in self.added):
            names = [one.name for one in self.added if (one.like, one.group) == (like, group)]
            yield f"Added to group {group}, like {like}: {', '.join(names)}."


def assume(
    cluster: Cluster,
    offline: Iterable[str],
    added: Sequence[str],
    group: str | None,
    kvm_memory: int,
) -> Assumed:
    """The cluster without the nodes ``offline`` and with those of each ``N[:like=][:group=]``.

    ``group``: the node group that is counted, None: all that take instances; ``kvm_memory``: as
    for `ganeti_steward.allocators.state.load.load`.  Raises StewardError with all faults.
    """
    names = Names(cluster)
    gone = names.nodes(offline)
    faults = list(names.faults)
    found = with_offline(cluster, gone)
    found = found.replace(nodes=map(_reported, found.nodes)) if gone else found
    nodes, made = [*found.nodes], list[AddedNode]()
    for text in added:
        try:
            number, like, uuid = _parsed(text, cluster, found, group)
        except StewardError as err:
            faults.append(f"--add-nodes {text}: {err}")
            continue
        empty = _emptied(like, uuid, kvm_memory if cluster.hypervisors[:1] == ("kvm",) else 0)
        for name in _new_names(number, like.name, {node.name for node in nodes}):
            nodes.append(empty._replace(name=name))
            made.append(AddedNode(name, like.name, cluster.group(uuid).name))
    if faults:
        raise StewardError(join_faults(faults))
    found = found.replace(nodes=nodes) if made else found
    return Assumed(found, tuple(sorted(gone)), tuple(made))


def _reported(node: Node) -> Node:
    """As Ganeti reports it: an offline node has no figures, so nothing can fail over to it."""
    if not node.offline:
        return node
    return without_figures(node)._replace(missing=(), volume_groups=None)


def _parsed(
    text: str, cluster: Cluster, without: Cluster, counted: str | None
) -> tuple[int, Node, str]:
    """How many nodes, like which one, in the group of which uuid; raises StewardError.

    ``without``: the cluster with some nodes taken as offline.
    """
    number, *parts = text.split(":")
    if not (number.isascii() and number.isdigit() and len(number) < 9 and 0 < int(number) <= MOST):
        raise StewardError(
            f"a number of nodes from 1 to {MOST} is expected first, found {quoted(number)}"
        )
    given = dict[str, str]()
    for part in parts:
        key, _, value = part.partition("=")
        if key not in _KEYS or not value:
            raise StewardError(f"like=NODE or group=GROUP is expected, found {quoted(part)}")
        if key in given:
            raise StewardError(f"{key}= is given twice")
        given[key] = value
    group = group_named(cluster, given["group"]).uuid if "group" in given else None
    if "like" in given:
        like = node_named(cluster, given["like"])
        if like.missing:
            raise StewardError(f"{like.name} {like.lack}: name another node (like=NODE)")
        if not like.total_memory:
            raise StewardError(f"the figures of {like.name} are not known: it is {like.condition}")
    else:
        wanted = counted_groups(cluster, counted) if group is None else [cluster.group(group)]
        like = _largest(without, [one.uuid for one in wanted])
    return int(number), like, group or like.group


def _largest(cluster: Cluster, groups: Collection[str]) -> Node:
    """The usable node of these groups with most memory, the first by name; or StewardError."""
    mine = [node for node in cluster.nodes if node.group in groups]
    known = [node for node in mine if node.usable and not node.missing]
    if not known:
        names = ", ".join(cluster.group(uuid).name for uuid in groups)
        raise StewardError(
            f"no usable node of group {names} reports all figures: name one (like=NODE)"
        )
    return max(known, key=lambda node: node.total_memory)


def _emptied(node: Node, group: str, kvm_memory: int) -> Node:
    """A node of the same kind that has no instance and takes all; of Ganeti nothing is sent."""
    own = kvm_memory or node.reserved_memory
    pools = node.volume_groups
    return node._replace(
        group=group,
        offline=False,
        drained=False,
        vm_capable=True,
        tags=tuple(tag for tag in node.tags if not tag.startswith(_OF_THE_MOMENT)),
        free_memory=max(int(node.total_memory) - own, 0),
        free_disk=int(node.total_disk),
        free_spindles=node.spindles if node.exclusive_storage else node.free_spindles,
        own_load=0.0,
        volume_groups=pools and {name: one._replace(free=one.total) for name, one in pools.items()},
        sent=Sent(),
    )


def _new_names(number: int, like: str, known: Collection[str]) -> Iterator[str]:
    """``new-1.DOMAIN`` and so on, in the domain of a node; no other name begins so."""
    taken, at = {name.partition(".")[0] for name in known}, 0
    _, dot, domain = like.partition(".")
    for _ in range(number):
        at += 1
        while f"new-{at}" in taken:
            at += 1
        yield f"new-{at}{dot}{domain}"
