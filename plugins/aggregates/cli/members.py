"""Members of aggregates as they are named on the command line, and their tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.cli.reading import full_name
from ganeti_steward.plugins.aggregates.cli.tagging import (
    CLUSTER,
    GROUP,
    NODE,
    WORDS,
    Change,
    grouped,
)
from ganeti_steward.plugins.aggregates.language.expression import TAG, ExpressionError, checked_name
from ganeti_steward.plugins.aggregates.language.tags import (
    AGGREGATE,
    POOL,
    UNIT,
    aggregate_tag,
    checked_part,
)

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster

#: What Ganeti takes.
_TAG_LENGTH: Final = 128


class Member(NamedTuple):
    """Where the tag of a member belongs."""

    kind: str
    name: str
    tag: str


def plan(cluster: Cluster, name: str, words: Sequence[str], *, removed: bool) -> list[Change]:
    """The changes that put members in an aggregate, or take them out; all faults at once.

    What is in already needs no change; what is not in cannot be taken out.
    """
    try:
        checked_name(name, TAG)
    except ExpressionError as err:
        raise StewardError(str(err)) from None
    members, faults = [], []
    for word in dict.fromkeys(words):
        try:
            members.append(_member(cluster, name, word))
        except StewardError as err:
            faults.append(str(err))
    changes = []
    for member in dict.fromkeys(members):
        there = member.tag in tags_of(cluster, member.kind, member.name)
        if removed and not there:
            what = f"{WORDS[member.kind]} {member.name}".rstrip()
            faults.append(f"{what} has no tag {member.tag!a}")
        elif removed == there:
            changes.append(Change(member.kind, member.name, (member.tag,), removed))
    if faults:
        raise StewardError(join_faults(faults))
    return grouped(changes)


def tags_of(cluster: Cluster, kind: str, name: str) -> tuple[str, ...]:
    """The tags of the cluster, a group or a node."""
    if kind == CLUSTER:
        return cluster.tags
    if kind == GROUP:
        return next(group.tags for group in cluster.groups if group.name == name)
    return cluster.nodes[cluster.node_index[name]].tags


def _member(cluster: Cluster, name: str, word: str) -> Member:
    """What a word names; raises StewardError."""
    kind, colon, rest = word.partition(":")
    if colon and kind in _KINDS:
        return _KINDS[kind](cluster, name, rest)
    node = full_name(word, cluster.nodes)
    groups = cluster.groups_named(word)
    if node and groups:
        raise StewardError(
            f"{word!a} is a node and a node group; write node:{word} or group:{word}"
        )
    if not node and not groups:
        raise StewardError(
            f"{word!a} is no node and no node group of the cluster (others are unit:NODE:UNIT "
            "and pool:POOL)"
        )
    return _node(cluster, name, word) if node else _group(cluster, name, word)


def _node(cluster: Cluster, name: str, word: str) -> Member:
    return Member(NODE, _known_node(cluster, word), aggregate_tag(name))


def _known_node(cluster: Cluster, word: str) -> str:
    node = full_name(word, cluster.nodes)
    if node is None:
        raise StewardError(f"the cluster has no node {word!a}")
    return node


def _group(cluster: Cluster, name: str, word: str) -> Member:
    found = cluster.groups_named(word)
    if len(found) != 1:
        raise StewardError(f"the cluster has no node group {word!a}")
    return Member(GROUP, cluster.groups[found[0]].name, aggregate_tag(name))


def _unit(cluster: Cluster, name: str, word: str) -> Member:
    node, _, unit = word.partition(":")
    return Member(NODE, _known_node(cluster, node), _owned_tag(UNIT, unit, name))


def _pool(cluster: Cluster, name: str, word: str) -> Member:
    return Member(CLUSTER, "", _owned_tag(POOL, word, name))


def _owned_tag(key: str, owner: str, name: str) -> str:
    tag = f"{TAG_PREFIX}{key}:{checked_part(owner, key)}:{AGGREGATE}:{name}"
    if len(tag) > _TAG_LENGTH:
        raise StewardError(f"the tag {tag!a} is longer than {_TAG_LENGTH} characters")
    return tag


_KINDS: Final[Mapping[str, Callable[[Cluster, str, str], Member]]] = {
    "node": _node,
    "group": _group,
    "unit": _unit,
    "pool": _pool,
}
