"""What a shutdown stops and switches off, and what bring-up takes back: no clock, no I/O."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.cluster import Cluster, Instance, Node
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.maintenance.pause import pause_tag
from ganeti_steward.plugins.model import operations
from ganeti_steward.plugins.model.debts import BRING_UP_TAG

#: The tag of the cluster that pauses the daemon meanwhile; pauses of people are other tags.
PAUSED_BY_SHUTDOWN: Final = pause_tag("shutdown until bring-up")

#: Ganeti's statuses of instances of which something runs.
_WRONG_NODE: Final = "ERROR_wrongnode"
_RUNS: Final = frozenset({"running", "ERROR_up", _WRONG_NODE})
#: Its user has shut it down from inside; Ganeti notes some time later that it should be down.
_USER_DOWN: Final = "USER_down"

_ORDER: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)

#: Order -> instances, in the order in which they are stopped.
Stages = Mapping[int, Sequence[Instance]]


class Shutdown(NamedTuple):
    """What is stopped and switched off."""

    nodes: tuple[Node, ...]
    """those that Ganeti has not marked offline"""
    offline: tuple[Node, ...]
    """the others, to which nothing is done"""
    stages: Stages
    unreached: tuple[Instance, ...]
    """they are meant to run on a node that does not answer, so they cannot be stopped"""
    one_copy: tuple[Instance, ...]
    """they go on elsewhere while a node with a copy of their disks is away"""
    others_stay: bool
    """whether other nodes go on"""

    @property
    def instances(self) -> int:
        """How many instances are stopped."""
        return sum(map(len, self.stages.values()))


class BringUp(NamedTuple):
    """What is taken back."""

    nodes: tuple[Node, ...]
    instances: tuple[Instance, ...]


def plan_shutdown(cluster: Cluster, names: Collection[str], prefix: str) -> Shutdown:
    """What a shutdown of these nodes does.

    ``prefix``: what the tag of an instance begins with that is followed by its order; empty: all
    are stopped at the same time.  Raises StewardError where such tags cannot be used.
    """
    nodes = [node for node in cluster.nodes if node.name in names]
    online = {node.name: node for node in nodes if not node.offline}
    there = [one for one in cluster.instances if not one.forthcoming and one.primary in online]
    running = [one for one in there if _runs(one) or _is_wanted(one)]
    stages = defaultdict[int, list[Instance]](list)
    for one in running:
        if answers(online[one.primary]):
            stages[_order_of(one, prefix)].append(one)
    if prefix and not any(tag.startswith(prefix) for one in there for tag in one.tags):
        raise StewardError(f"no instance on these nodes has a tag that begins with {prefix!a}")
    return Shutdown(
        tuple(online.values()),
        tuple(node for node in nodes if node.offline),
        dict(sorted(stages.items())),
        tuple(one for one in running if not answers(online[one.primary]) and _is_wanted(one)),
        tuple(
            one
            for one in cluster.instances
            if one.up and one.primary not in names and not online.keys().isdisjoint(one.secondaries)
        ),
        any(not node.offline and node.name not in names for node in cluster.nodes),
    )


def _order_of(one: Instance, prefix: str) -> int:
    found = {tag for tag in one.tags if prefix and tag.startswith(prefix)}
    orders = {tag.removeprefix(prefix) for tag in found}
    if len(orders) > 1:
        raise StewardError(f"{one.name} has several orders: {', '.join(sorted(found))}")
    for order in orders:
        if not _ORDER.fullmatch(order):
            raise StewardError(
                f"{one.name} has the tag {prefix}{order}: a whole number of at most nine digits "
                f"must follow {prefix}"
            )
        return int(order)
    return 0


def _runs(one: Instance) -> bool:
    return one.status in _RUNS


def _is_wanted(one: Instance) -> bool:
    """Whether it is meant to run."""
    return one.up and one.status != _USER_DOWN


def answers(node: Node) -> bool:
    """Whether its node daemon answers; Ganeti queries none that has no instances."""
    return node.live or not (node.vm_capable or node.offline)


def stop_job(one: Instance, order: int, timeout: int | None) -> Job:
    """Stop an instance and note, before that, that it was meant to run.

    ``timeout``: seconds until it is ended by force; None: Ganeti's own limit.
    """
    stop = operations.stop(one.name) | ({} if timeout is None else {"timeout": timeout})
    if not _is_wanted(one) or own_tags(one.tags):
        return [stop]
    return [operations.set_tags("instance", one.name, [f"{BRING_UP_TAG}:{order}"]), stop]


def left_running(cluster: Cluster) -> Mapping[str, Sequence[str]]:
    """Node -> names of the instances that run there for all that is known."""
    found = defaultdict[str, list[str]](list)
    for one in cluster.instances:
        if not one.forthcoming and _runs(one):
            for name in one.nodes if one.status == _WRONG_NODE else one.nodes[:1]:
                found[name].append(one.name)
    return found


def own_tags(tags: Iterable[str]) -> list[str]:
    """The tags that a shutdown has set."""
    return [tag for tag in tags if tag == BRING_UP_TAG or tag.startswith(f"{BRING_UP_TAG}:")]


def plan_bring_up(cluster: Cluster, names: Collection[str]) -> BringUp:
    """What is to be taken back of these nodes."""
    return BringUp(
        tuple(one for one in cluster.nodes if one.name in names and own_tags(one.tags)),
        tuple(one for one in cluster.instances if one.primary in names and own_tags(one.tags)),
    )


def start_stages(instances: Iterable[Instance]) -> Stages:
    """The instances by the order that their tags have, the highest first."""
    stages = defaultdict[int, list[Instance]](list)
    for one in instances:
        found = (tag.removeprefix(f"{BRING_UP_TAG}:") for tag in own_tags(one.tags))
        stages[max(int(order) if _ORDER.fullmatch(order) else 0 for order in found)].append(one)
    return dict(sorted(stages.items(), reverse=True))


def start_job(one: Instance) -> Job:
    """Start an instance unless it runs, or its owner has taken it out of service meanwhile."""
    untag = operations.remove_tags("instance", one.name, own_tags(one.tags))
    if one.state == "offline" or one.status == "running":
        return [untag]
    return [operations.start(one.name), untag]


def not_startable(one: Instance, cluster: Cluster) -> str:
    """Why an instance cannot be started now, as a clause; empty: it can.

    Ganeti starts one with a secondary that does not answer only by force.
    """
    for name in one.nodes:
        node = cluster.node(name)
        if node.offline and name == one.primary:
            return f"{name} is offline"
        if not (node.offline or answers(node)):
            return f"{name} does not answer"
    return ""
