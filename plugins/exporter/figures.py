"""What is exported of a cluster, computed by the configured allocators."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ganeti_steward.allocators.balancing.planning.plan_balance import plan_balance
from ganeti_steward.allocators.capacity.sizes import Usage, usage
from ganeti_steward.allocators.cli.capacity import count_policy_sizes
from ganeti_steward.allocators.health.counts import Checked, Counts, checked
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import Balance
from ganeti_steward.plugins.aggregates.cli.reading import TaggedCluster, misplaced
from ganeti_steward.plugins.aggregates.config import Aggregates
from ganeti_steward.plugins.aggregates.declarations import read_rules

_log: Final = logging.getLogger(__name__)


class GroupFigures(NamedTuple):
    """One node group."""

    name: str
    score: float
    bound: float
    """no placement of its instances has a lower score"""
    counts: Counts
    """how much is wrong"""
    nodes: Mapping[str, int]
    """condition (usable, drained, offline, ...) -> number of nodes"""
    instances: int
    """with their primary in the group"""
    misplaced: int
    """instances on a node they would not be placed on today, by the tags of aggregates"""


class CountedSize(NamedTuple):
    """One size of instance, and how many more of it fit after those of the sizes before."""

    mode: str
    """tiered or standard"""
    number: int
    """from 1 on, in the order in which they are counted, for each mode"""
    memory: int
    """MiB"""
    disk: int
    """MiB on each node"""
    vcpus: int
    fits: int


class Figures(NamedTuple):
    """A whole cluster."""

    groups: tuple[GroupFigures, ...]
    sizes: tuple[CountedSize, ...]
    """empty where the capacity cannot be counted"""
    used: Usage


def figures(source: Source, config: Config, options: Options) -> Figures:
    """Compute everything; raises StewardError."""
    cluster = source.cluster
    # No move is searched for: it may take minutes.
    plan = plan_balance(Balance(max_moves=0), cluster, config, options)
    wrong = _misplaced(source, config)
    return Figures(
        tuple(_group(one, cluster, wrong) for one in checked(plan)) if cluster.groups else (),
        tuple(_sizes(source, config, options)),
        usage(cluster),
    )


def _group(group: Checked, cluster: Cluster, misplaced_in: Mapping[str, int]) -> GroupFigures:
    nodes = (node for node in cluster.nodes if node.group == group.uuid)
    conditions = (node.condition or "usable" for node in nodes)
    return GroupFigures(
        group.balance.group,
        group.balance.score_before,
        group.balance.bound,
        Counts.of(group.before),
        Counter(conditions),
        sum(cluster.node(one.nodes[0]).group == group.uuid for one in cluster.instances),
        misplaced_in[group.uuid],
    )


def _misplaced(source: Source, config: Config) -> Counter[str]:
    """Uuid of a group -> its misplaced instances."""
    cluster = source.cluster
    rules = read_rules(cluster, config.section(Aggregates))
    names = {one.instance for one in misplaced(TaggedCluster(source, rules, config))}
    found = (one for one in cluster.instances if one.name in names)
    return Counter(cluster.node(one.nodes[0]).group for one in found)


def _sizes(source: Source, config: Config, options: Options) -> Iterator[CountedSize]:
    try:
        runs = count_policy_sizes(source, config, options)
    except StewardError as err:
        # As where no group takes new instances: the other figures are there all the same.
        _log.warning("the capacity is not counted: %s", err)
        return
    numbers: Counter[str] = Counter()
    for run in runs:
        for step in run.filling.steps:
            numbers[run.mode] += 1
            one = step.instance
            size = (one.memory, one.disk_space, one.vcpus)
            yield CountedSize(run.mode, numbers[run.mode], *size, len(step.placements))
