"""Why a node cannot be away, with the least that would make it possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ganeti_steward.allocators.rolling.fleet import obstacle_to_migration

if TYPE_CHECKING:
    from ganeti_steward.allocators.rolling.fleet import Fleet, Member
    from ganeti_steward.allocators.state.arrays import Ints, Mask


class NodeObstacle(NamedTuple):
    """What keeps a node from being away."""

    node: str
    instance: str
    """empty: it is about no single instance"""
    sentence: str
    """without a full stop"""
    helps: str = ""
    """the least that would make it possible; empty where nothing is known"""

    @classmethod
    def of_n1(cls, node: str, other: str, needed: int, free: int) -> NodeObstacle:
        """Another node would fail N+1."""
        sentence = f"{other} would have to keep {needed} MiB free for N+1 and has {free} MiB"
        return cls(node, "", sentence, f"free {needed - free} MiB on {other}, or leave out --n1")


def pair(fleet: Fleet, node: int, other: int) -> NodeObstacle:
    """The node has instances in common with one that is away."""
    sentence = f"it has instances in common with {fleet.name(other)}, which is away"
    return NodeObstacle(fleet.name(node), "", sentence)


def no_copy(node: str, instance: str) -> NodeObstacle:
    """With copies that are to leave: no other node has room for one."""
    sentence = f"no other node of the group may take the copy of the disks of {instance}"
    helps = f"without --full the copy stays, and {instance} has one only while the node is away"
    return NodeObstacle(node, instance, sentence, helps)


def refused(fleet: Fleet, member: Member) -> NodeObstacle:
    """An instance cannot migrate, and the request does not say what to do with it."""
    gib = member.demand.instance.disk_space / 1024
    moving = "--move fails it over"
    if not (member.paired or member.demand.instance.template in ("diskless", "rbd", "ext")):
        moving = f"--move copies it to another node and back ({gib:.1f} GiB each)"
    return NodeObstacle(
        fleet.name(member.primary),
        member.name,
        f"{member.name} {obstacle_to_migration(member.demand.instance)}",
        f"--stop shuts it down and starts it again, {moving}",
    )


def no_room(fleet: Fleet, member: Member, others: Sequence[Member], room: int) -> NodeObstacle:
    """The secondary cannot take an instance; ``others``: all that leave the node with it."""
    target = member.secondary
    source, name = fleet.name(member.primary), fleet.name(target)
    if fault := _fault(fleet, member, target):
        helps = f"gnt-instance replace-disks -I steward {member.name}, for another secondary"
        return NodeObstacle(
            source, member.name, f"{member.name} cannot go to {name}: {fault}", helps
        )
    need = sum(one.demand.use for one in others if one.secondary == target)
    if need >= room:
        sentence = (
            f"{name} would have to run {need} MiB more for {source} and has {room} MiB unallocated"
        )
        return NodeObstacle(source, member.name, sentence, _freeing(fleet, target, need + 1 - room))
    if tag := _shared_tag(fleet, member, target):
        sentence = f"{member.name} cannot go to {name}: an instance there also carries {tag}"
        return NodeObstacle(source, member.name, sentence, f"remove {tag} from one of both")
    taken = fleet.state.frame.vcpu_limit[target]
    sentence = f"{member.name} cannot go to {name}: {member.demand.vcpus} vcpus more than the "
    sentence += f"policy's limit of {taken:g} there allows"
    return NodeObstacle(source, member.name, sentence, "a higher vcpu-ratio of the node group")


def crowded(fleet: Fleet, member: Member) -> NodeObstacle:
    """A rule on where instances of one service may run keeps an instance from its secondary."""
    rules = [fleet.state.frame.spread[at].rule for at, _ in member.demand.services]
    tags = ", ".join(dict.fromkeys(rule.tag for rule in rules if rule.hard))
    target = fleet.name(member.secondary)
    sentence = f"{member.name} cannot go to {target}: too many of its service would run there"
    helps = f"gnt-instance replace-disks -I steward {member.name}, or a higher maximum than {tags}"
    return NodeObstacle(fleet.name(member.primary), member.name, sentence, helps)


def no_place(fleet: Fleet, member: Member, may: Mask, room: Ints) -> NodeObstacle:
    """An instance fits on none of the nodes that it may go to."""
    source, need = fleet.name(member.primary), member.demand.use
    if not may.any():
        sentence = f"no node of its group that stays may run {member.name}"
        return NodeObstacle(source, member.name, sentence)
    best = int(np.where(may, room, np.iinfo(np.int64).min).argmax())
    sentence = (
        f"{member.name} ({need} MiB) fits on none of {int(may.sum())} nodes; most memory is "
        f"unallocated on {fleet.name(best)}: {int(room[best])} MiB"
    )
    short = need + 1 - int(room[best])
    return NodeObstacle(
        source, member.name, sentence, _freeing(fleet, best, short) if short > 0 else ""
    )


def _fault(fleet: Fleet, member: Member, target: int) -> str:
    """Why an instance may not run on a node, whatever else runs there."""
    if fleet.allowed(member)[target]:
        return ""
    node = fleet.cluster.nodes[target]
    if not node.usable:
        return f"the node is {node.condition}"
    if not fleet.state.frame.accepts(member.primary)[target]:
        return "its migration tags do not accept instances from there"
    return "a rule of a plugin forbids it"


def _shared_tag(fleet: Fleet, member: Member, target: int) -> str:
    tags = member.demand.exclusion
    taken = fleet.state.tag_counts.all
    return next((tag for tag in tags if taken.get(tag, {}).get(target)), next(iter(tags), ""))


def _freeing(fleet: Fleet, node: int, short: int) -> str:
    """What frees so much memory: the smallest instance there that is large enough."""
    enough = [one for one in fleet.members[node] if one.demand.use >= short]
    text = f"free {short} MiB on {fleet.name(node)}"
    if not enough:
        return text
    one = min(enough, key=lambda one: (one.demand.use, one.name))
    return f"{text}: {one.name} alone has {one.demand.use} MiB"
