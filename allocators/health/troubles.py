"""Kinds of trouble of a cluster, each with its severity, and those that its own figures show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import LOCAL_STORAGE, NOT_RUNNING, SILENT

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance, Node
    from ganeti_steward.core.model.explanation import GroupBalance, GroupHealth

ERROR: Final = "error"
WARNING: Final = "warning"
ADVICE: Final = "advice"
#: The most severe first.
SEVERITIES: Final = (ERROR, WARNING, ADVICE)


class Kind(NamedTuple):
    """A kind of trouble."""

    severity: str
    one: str
    """what one of it is called, with what it is"""
    many: str
    """the same of several"""


#: Word -> kind, in the order of the lines.
KINDS: Final = {
    "down": Kind(
        ERROR, "instance that should run is down", "instances that should run are down"
    ),
    "stay-down": Kind(
        ERROR,
        "instance would stay down without these nodes",
        "instances would stay down without these nodes",
    ),
    "status": Kind(ERROR, "instance has an error status", "instances have an error status"),
    "offline-primaries": Kind(
        ERROR, "offline node is a primary", "offline nodes are primaries"
    ),
    "restart": Kind(
        WARNING,
        "instance would restart elsewhere without these nodes",
        "instances would restart elsewhere without these nodes",
    ),
    "lose-copy": Kind(
        WARNING,
        "instance would lose a copy without these nodes",
        "instances would lose a copy without these nodes",
    ),
    "bad-disks": Kind(
        ERROR,
        "instance has no good disk on its primary",
        "instances have no good disk on their primary",
    ),
    "degraded-disks": Kind(
        WARNING, "instance has degraded disks", "instances have degraded disks"
    ),
    "primaries": Kind(
        WARNING, "instance has an unusable primary", "instances have an unusable primary"
    ),
    "secondaries": Kind(
        WARNING, "instance has an unusable secondary", "instances have an unusable secondary"
    ),
    "silent": Kind(WARNING, "node does not report", "nodes do not report"),
    "suspect": Kind(ADVICE, "node is used after others", "nodes are used after others"),
    "no-disk-figures": Kind(
        WARNING, "node does not report its disk", "nodes do not report their disk"
    ),
    "half-mirror": Kind(
        ERROR,
        "instance has disks in a volume group that one of its nodes does not have",
        "instances have disks in a volume group that one of their nodes does not have",
    ),
    "overdrawn": Kind(
        WARNING, "volume group is overdrawn", "volume groups are overdrawn"
    ),
    "odd-volume-groups": Kind(
        WARNING,
        "node lacks a volume group that most nodes of its group have",
        "nodes lack a volume group that most nodes of their group have",
    ),
    "reserve": Kind(
        WARNING,
        "node has less free than its reserve",
        "nodes have less free than their reserve",
    ),
    "host-reserve": Kind(
        WARNING,
        "node group has less memory free than its reserve",
        "node groups have less memory free than their reserve",
    ),
    "memory-ratio": Kind(
        WARNING,
        "node has more memory allocated than the memory ratio allows",
        "nodes have more memory allocated than the memory ratio allows",
    ),
    "reserve-tags": Kind(
        WARNING,
        "tag of a reserve or a memory ratio cannot be read and is ignored",
        "tags of reserves or memory ratios cannot be read and are ignored",
    ),
    "n1": Kind(WARNING, "node fails N+1", "nodes fail N+1"),
    "exclusion": Kind(
        WARNING,
        "node has primaries that share an exclusion tag",
        "nodes have primaries that share an exclusion tag",
    ),
    "location": Kind(
        WARNING,
        "instance has both copies in one location",
        "instances have both copies in one location",
    ),
    "desired-location": Kind(
        WARNING,
        "instance is not at its desired location",
        "instances are not at their desired location",
    ),
    "shared-location": Kind(
        WARNING,
        "instance is in one location with another one of its exclusion tag",
        "instances are in one location with another one of their exclusion tag",
    ),
    "spread": Kind(
        WARNING,
        "instance is in one place with too many of its service",
        "instances are in one place with too many of their service",
    ),
    "migration": Kind(
        WARNING,
        "instance may not migrate to its secondary (migration tags)",
        "instances may not migrate to their secondary (migration tags)",
    ),
    "stuck": Kind(
        WARNING,
        "instance has no place to go when its node must be emptied",
        "instances have no place to go when their node must be emptied",
    ),
    "reports": Kind(
        WARNING,
        "node reports something to be repaired",
        "nodes report something to be repaired",
    ),
    "failed-incidents": Kind(
        WARNING, "repair has failed", "repairs have failed"
    ),
    "unfinished": Kind(
        WARNING, "node has unfinished maintenance", "nodes have unfinished maintenance"
    ),
    "silent-agents": Kind(
        WARNING, "node agent does not report", "node agents do not report"
    ),
    "altered-rules": Kind(
        ERROR,
        "rule of the maintenance daemon was changed by another user",
        "rules of the maintenance daemon were changed by another user",
    ),
    "no-place": Kind(
        ADVICE,
        "node has no tag of a place that services are spread over",
        "nodes have no tag of a place that services are spread over",
    ),
    "uneven": Kind(
        ADVICE, "node group is uneven", "node groups are uneven"
    ),
}  # fmt: skip

#: Component of the score -> the kinds that name what it counts; spreads only say how even the
#: group is.
BY_COMPONENT: Final[Mapping[str, tuple[str, ...]]] = {
    "n1_cnt": ("n1",),
    "offline_all_cnt": ("down", "primaries", "secondaries"),
    "offline_pri_cnt": ("down", "primaries"),
    "pri_tags_score": ("exclusion",),
    "location_score": ("location", "desired-location"),
    "location_exclusion_score": ("shared-location",),
    "spread_score": ("spread",),
}

#: What balancing has to lower a score by to be worth a line.
LARGE_GAIN: Final = 1.0


class Item(NamedTuple):
    """One object that something is wrong with."""

    name: str
    node: str = ""
    """the node it is wrong on; empty: none is meant"""
    detail: str = ""
    """in a few words"""


class Trouble(NamedTuple):
    """Everything of one kind that is wrong."""

    kind: str
    items: tuple[Item, ...]

    @property
    def severity(self) -> str:
        """One of `SEVERITIES`."""
        return KINDS[self.kind].severity

    @property
    def heading(self) -> str:
        """How many there are, and what is wrong with them."""
        kind, number = KINDS[self.kind], len(self.items)
        return f"{number} {kind.one if number == 1 else kind.many}"


class Looked(NamedTuple):
    """What was found where there was something to look at."""

    troubles: tuple[Trouble, ...]
    skipped: tuple[str, ...]
    """what was not looked at, each with the reason"""

    @classmethod
    def together(cls, found: Iterable[Looked]) -> Looked:
        """All of them as one."""
        parts = list(found)
        troubles = [one for part in parts for one in part.troubles]
        return cls(tuple(troubles), tuple(text for part in parts for text in part.skipped))


def sorted_troubles(found: Iterable[Trouble]) -> tuple[Trouble, ...]:
    """Those of one kind together, the most severe first; without kinds of which there is none."""
    items = dict[str, list[Item]]()
    for one in found:
        items.setdefault(one.kind, []).extend(one.items)
    order = sorted(KINDS, key=lambda kind: SEVERITIES.index(KINDS[kind].severity))
    return tuple(Trouble(kind, tuple(items[kind])) for kind in order if items.get(kind))


def worst(troubles: Iterable[Trouble]) -> str:
    """The severity of the most severe; empty where there is none."""
    found = {one.severity for one in troubles}
    return next((severity for severity in SEVERITIES if severity in found), "")


class GroupFacts(NamedTuple):
    """A node group with what is known of it."""

    cluster: Cluster
    nodes: tuple[Node, ...]
    """its nodes"""
    health: GroupHealth
    assumed: Set[str] = frozenset()
    """names of nodes that are only assumed to be offline"""


def group_troubles(facts: GroupFacts) -> Iterator[Trouble]:
    """What Ganeti's data of nodes and instances show of one node group."""
    health, down = facts.health, tuple(_down(facts))
    # Those on nodes that are only assumed to be offline are listed one by one.
    listed = {
        one.name for one in facts.cluster.instances if not facts.assumed.isdisjoint(one.nodes)
    }
    primaries = {*health.primaries} - listed - {one.name for one in down}
    yield Trouble("down", down)
    yield Trouble("status", tuple(_status(facts)))
    yield Trouble("offline-primaries", tuple(_offline_primaries(facts)))
    yield Trouble("primaries", _items(sorted(primaries)))
    yield Trouble("secondaries", _items(sorted({*health.secondaries} - listed)))
    yield from _silent(facts)
    yield from _volume_groups(facts)
    yield Trouble("n1", _items(health.n1_nodes))
    yield Trouble("exclusion", _items(health.clashing))
    yield Trouble("stuck", tuple(Item(name, node) for name, node in health.stuck or ()))


def uneven(balance: GroupBalance) -> Trouble:
    """Whether balancing would gain much in a group."""
    gain = balance.score_before - balance.score_after
    if gain < LARGE_GAIN:
        return Trouble("uneven", ())
    text = f"{counted(len(balance.moves), 'move')} would lower its score by {gain:.2f}"
    return Trouble("uneven", (Item(balance.group, detail=text),))


def _items(names: Iterable[str]) -> tuple[Item, ...]:
    return tuple(map(Item, names))


def _primaries(facts: GroupFacts) -> Iterator[tuple[Instance, Node]]:
    """The instances of the group that exist, each with its primary."""
    nodes = {node.name: node for node in facts.nodes}
    for one in facts.cluster.instances:
        if one.primary in nodes and not one.forthcoming:
            yield one, nodes[one.primary]


def _down(facts: GroupFacts) -> Iterator[Item]:
    for one, primary in _primaries(facts):
        if one.down:
            yield Item(one.name, detail=one.status)
        elif one.up and primary.offline and primary.name not in facts.assumed:
            yield Item(one.name, primary.name, primary.condition)


def _status(facts: GroupFacts) -> Iterator[Item]:
    for one, _ in _primaries(facts):
        if one.status.startswith("ERROR_") and one.status not in NOT_RUNNING:
            yield Item(one.name, detail=one.status)


def _offline_primaries(facts: GroupFacts) -> Iterator[Item]:
    number = Counter(primary.name for _, primary in _primaries(facts))
    for node in facts.nodes:
        if node.offline and node.name not in facts.assumed and number[node.name]:
            yield Item(node.name, detail=counted(number[node.name], "instance"))


def _has_local_storage(facts: GroupFacts) -> bool:
    """Whether disk figures of the group's nodes mean anything."""
    policies = (facts.cluster.group(node.group).policy for node in facts.nodes[:1])
    allowed = any(LOCAL_STORAGE.intersection(policy.templates) for policy in policies)
    return allowed or any(one.local for one, _ in _primaries(facts))


def _silent(facts: GroupFacts) -> Iterator[Trouble]:
    silent = [node for node in facts.nodes if node.condition == SILENT]
    without = [
        node
        for node in facts.nodes
        if node.usable and node.lacks_disk_figures and _has_local_storage(facts)
    ]
    yield Trouble("silent", _items(node.name for node in silent))
    yield Trouble("no-disk-figures", _items(node.name for node in without))
    suspect = (node for node in facts.nodes if node.suspect and node.usable)
    yield Trouble("suspect", tuple(Item(node.name, detail=node.suspect) for node in suspect))


def _volume_groups(facts: GroupFacts) -> Iterator[Trouble]:
    """Those apart from the cluster's, on nodes of which they are known."""
    known = {one.name: one.volume_groups for one in facts.nodes if one.volume_groups is not None}
    announced: Counter[tuple[str, str]] = Counter()
    used: Counter[tuple[str, str]] = Counter()
    halves = []
    for one in facts.cluster.instances:
        for at in (name for name in one.nodes if name in known):
            for group, size in one.elsewhere.items():
                (announced if one.forthcoming else used)[at, group] += size
                if group not in known[at] and not one.forthcoming:
                    halves.append(Item(one.name, at, group))
    overdrawn = [
        Item(group, at, f"{needed} MiB for instances, {has} MiB in all")
        for (at, group), needed in sorted((used + announced).items())
        if group in known[at]
        for has in [known[at][group].total]
        if needed > has or announced[at, group] > known[at][group].free
    ]
    number = Counter(group for groups in known.values() for group in groups)
    wanted = {group for one in facts.cluster.instances for group in one.elsewhere}
    usual = [group for group in sorted(wanted) if 2 * number[group] > len(known)]
    odd = [
        Item(at, detail=", ".join(missing))
        for at, groups in known.items()
        if (missing := [group for group in usual if group not in groups])
    ]
    yield Trouble("half-mirror", tuple(halves))
    yield Trouble("overdrawn", tuple(overdrawn))
    yield Trouble("odd-volume-groups", tuple(odd))
