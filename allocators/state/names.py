"""Nodes, groups and instances that a command line names, and what follows for the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.cluster import Cluster, Group, Instance, Node


class Names:
    """Looks up names and collects those that match nothing, so that all are reported at once.

    As in Ganeti's commands a name may lack its domain where only one object is meant, and a uuid
    stands for its object where the cluster's source has uuids (a live cluster has).
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.faults: list[str] = []
        """a sentence for each name that meant nothing"""

    def nodes(self, given: Iterable[str]) -> frozenset[str]:
        """Full names of nodes; ``given`` may hold several each, with commas between."""
        return self._full("node", given, self._cluster.nodes)

    def instances(self, given: Iterable[str]) -> frozenset[str]:
        """Full names of instances, given likewise."""
        return self._full("instance", given, self._cluster.instances)

    def groups(self, given: Iterable[str]) -> tuple[str, ...]:
        """The uuids of groups that are given by name or uuid, in the cluster's order."""
        found: set[int] = set()
        for name in _single(given):
            matches = self._cluster.groups_named(name)
            if len(matches) == 1:
                found.update(matches)
            else:
                self.faults.append(_group_fault(self._cluster, name, len(matches)))
        return tuple(self._cluster.groups[at].uuid for at in sorted(found))

    def check(self) -> None:
        """Raise StewardError when a name meant nothing."""
        if self.faults:
            raise StewardError(join_faults(self.faults))

    def _full(
        self, kind: str, given: Iterable[str], known: Sequence[Node | Instance]
    ) -> frozenset[str]:
        found = set()
        for name in _single(given):
            matches = named(known, name)
            if len(matches) == 1:
                found.update(matches)
            else:
                self.faults.append(_fault(kind, name, len(matches)))
        return frozenset(found)


def meant_nodes(given: Iterable[str], cluster: Cluster) -> Iterator[str]:
    """Names of nodes; in the place of a node group or a tag those of its nodes.

    A word that names a node stands for this node; one that names nothing is left as it is.
    """
    for word in dict.fromkeys(name for text in given for name in text.split(",")):
        groups = cluster.groups_named(word)
        if named(cluster.nodes, word):
            yield word
        elif len(groups) == 1:
            uuid = cluster.groups[groups[0]].uuid
            yield from (node.name for node in cluster.nodes if node.group == uuid)
        else:
            yield from [node.name for node in cluster.nodes if word in node.tags] or [word]


def short_names(names: Collection[str]) -> dict[str, str]:
    """Name -> what is before its first dot, where no other of these names begins so."""
    counted = Counter(name.partition(".")[0] for name in names)
    firsts = ((name, name.partition(".")[0]) for name in names)
    return {name: first if first and counted[first] == 1 else name for name, first in firsts}


def named(known: Sequence[Node | Instance], name: str) -> list[str]:
    """Full names of what a name, one without its domain or a uuid can mean; one is meant."""
    if not name:
        return []
    whole = [one.name for one in known if name in (one.name, one.uuid)]
    return whole or [one.name for one in known if one.name.startswith(f"{name}.")]


def group_named(cluster: Cluster, name: str) -> Group:
    """The one group with this name or uuid; raises StewardError."""
    found = cluster.groups_named(name)
    if len(found) != 1:
        raise StewardError(_group_fault(cluster, name, len(found)))
    return cluster.groups[found[0]]


def node_named(cluster: Cluster, name: str) -> Node:
    """The one node that a name, one without its domain or a uuid means; raises StewardError."""
    found = named(cluster.nodes, name)
    if len(found) != 1:
        raise StewardError(_fault("node", name, len(found)))
    return cluster.node(found[0])


def _single(given: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(name for text in given for name in text.split(","))


def _fault(kind: str, name: str, matches: int) -> str:
    return f"{f'more than one {kind} is' if matches else f'no {kind} is'} named {quoted(name)}"


def _group_fault(cluster: Cluster, name: str, matches: int) -> str:
    known = ", ".join(group.name for group in cluster.groups)
    return f"{_fault('node group', name, matches)} (known: {known})"


def with_offline(cluster: Cluster, names: frozenset[str]) -> Cluster:
    """The cluster with these nodes offline; their figures stay, as hbal's ``-O`` leaves them."""
    if not names:
        return cluster
    return cluster.replace(
        nodes=(n._replace(offline=True) if n.name in names else n for n in cluster.nodes)
    )


def without_figures(node: Node) -> Node:
    """A node as Ganeti sends one that is offline."""
    return node._replace(
        total_memory=0.0,
        reserved_memory=0,
        free_memory=0,
        total_disk=0.0,
        free_disk=0,
        total_cpus=0.0,
        reserved_cpus=0,
        free_spindles=0,
        spindles=0 if node.exclusive_storage else node.spindles,
    )
