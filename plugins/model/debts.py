"""What planned maintenance has changed and has to undo: tags on the objects themselves.

Each tag is set by the job that makes the change, and removed by the job that undoes it, or by a
person.  So nothing is forgotten when the record of the maintenance is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from ganeti_steward.core.model.cluster import Cluster, Instance, Node

#: Tags, each followed by the uuid of the node under maintenance.
#: Of an instance: it was shut down for that.
SHUTDOWN_TAG: Final = "maintd:shutdown:"
#: Of an instance: it ran on that node, and comes back to it.
HOME_TAG: Final = "maintd:home:"
#: Of the node itself: it was drained for that.
DRAINED_TAG: Final = "maintd:drained:"
#: Of a node that ``maintenance shutdown`` takes down, until ``maintenance bring-up`` has it back.
#: Of an instance that it stops: the same, a colon and its order, a whole number.
BRING_UP_TAG: Final = "maintd:bring-up"
#: Of the node itself: it was a master candidate before it was drained, which ends that.
CANDIDATE_TAG: Final = "maintd:candidate:"


class Debts(NamedTuple):
    """What is to be undone of the maintenance of one node."""

    node: Node
    drained: bool = False
    """whether the node is still drained"""
    down: tuple[str, ...] = ()
    """names of the instances that are still shut down"""
    away: tuple[str, ...] = ()
    """names of the instances that still have another primary"""
    candidate: bool = False
    """whether the node is still to become a master candidate again"""

    def __bool__(self) -> bool:
        return self.drained or self.candidate or bool(self.down or self.away)

    @property
    def instances(self) -> tuple[str, ...]:
        """All instances that are to be started or to come back, sorted."""
        return tuple(sorted({*self.down, *self.away}))

    @property
    def sentence(self) -> str:
        """What is not as it was before, in words."""
        parts = [f"{self.node.name} is drained"] if self.drained else []
        parts += [f"{self.node.name} is not a master candidate any more"] if self.candidate else []
        parts += [f"{', '.join(self.down)} shut down"] if self.down else []
        parts += [f"{', '.join(self.away)} not back"] if self.away else []
        return "; ".join(parts)

    @property
    def undone_by(self) -> str:
        """The command that undoes all of it."""
        return f"gnt-steward maintenance done {self.node.name}"

    @property
    def commands(self) -> Iterator[str]:
        """The commands that undo it one by one."""
        node = self.node
        if self.drained:
            yield f"gnt-node modify -D no {node.name}"
            yield f"gnt-node remove-tags {node.name} {DRAINED_TAG}{node.uuid}"
        if self.candidate:
            yield f"gnt-node modify -C yes {node.name}"
            yield f"gnt-node remove-tags {node.name} {CANDIDATE_TAG}{node.uuid}"
        for name in self.down:
            yield f"gnt-instance startup {name}"
            yield f"gnt-instance remove-tags {name} {SHUTDOWN_TAG}{node.uuid}"
        for name in self.away:
            yield f"gnt-instance migrate {name}"
            yield f"gnt-instance remove-tags {name} {HOME_TAG}{node.uuid}"


def was_shut_down(instance: Instance, node: Node) -> bool:
    """Whether an instance is down because of the maintenance of a node."""
    return instance.state == "down" and f"{SHUTDOWN_TAG}{node.uuid}" in instance.tags


def is_away(instance: Instance, node: Node) -> bool:
    """Whether an instance is to come back to a node and is not there."""
    return instance.primary != node.name and f"{HOME_TAG}{node.uuid}" in instance.tags


def is_lost_candidate(node: Node) -> bool:
    """Whether a node was a master candidate before its maintenance, and is to be one again."""
    may_be = node.master_capable is not False and not (node.master or node.master_candidate)
    return may_be and f"{CANDIDATE_TAG}{node.uuid}" in node.tags


def meaning(tag: str, nodes: Mapping[str, str]) -> str:
    """What such a tag says, in words; empty for another tag.  ``nodes``: uuid -> name."""
    if tag.startswith(BRING_UP_TAG):
        return "gnt-steward maintenance bring-up takes it back, and removes the tag"
    for start, done in _DONE.items():
        if tag.startswith(start):
            uuid = tag.removeprefix(start)
            return (
                f"{done} for the maintenance of {nodes.get(uuid, f'a node that is gone, {uuid}')}"
            )
    return ""


#: Beginning of a tag -> what was done.
_DONE: Final = {
    SHUTDOWN_TAG: "it was shut down",
    HOME_TAG: "it was moved away",
    DRAINED_TAG: "it was drained",
    CANDIDATE_TAG: "it lost the role of a master candidate",
}


def debts_of(cluster: Cluster, node: Node) -> Debts:
    """What is to be undone of the maintenance of a node; false where nothing is.

    A node that a person has drained or set offline cannot be a candidate.
    """
    drained = node.drained and f"{DRAINED_TAG}{node.uuid}" in node.tags
    return Debts(
        node,
        drained,
        tuple(one.name for one in cluster.instances if was_shut_down(one, node)),
        tuple(one.name for one in cluster.instances if is_away(one, node)),
        is_lost_candidate(node) and drained == node.drained and not node.offline,
    )


def all_debts(cluster: Cluster) -> list[Debts]:
    """The same of all nodes of which something is to be undone, in the order of the cluster."""
    tags = (tag for one in cluster.nodes for tag in one.tags)
    more = (tag for one in cluster.instances for tag in one.tags)
    uuids = {tag.rpartition(":")[2] for tag in chain(tags, more) if tag.startswith(tuple(_DONE))}
    found = (debts_of(cluster, node) for node in cluster.nodes if node.uuid in uuids)
    return [debts for debts in found if debts]
