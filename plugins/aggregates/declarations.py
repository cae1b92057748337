"""Reading who is in which aggregate, and the settings, from tags and the configuration.

Nothing is raised here: all faults are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.collected import Collected
from ganeti_steward.plugins.aggregates.configured import ConfigReader
from ganeti_steward.plugins.aggregates.language.automatic import Ask
from ganeti_steward.plugins.aggregates.language.entitlement import Entitled
from ganeti_steward.plugins.aggregates.language.expression import ExpressionError
from ganeti_steward.plugins.aggregates.language.tags import (
    AGGREGATE,
    AGGREGATES_VERSION,
    CLUSTER,
    ENTITLED_INSTANCE,
    ENTITLED_TAG,
    GROUP,
    NODE,
    POOL,
    UNIT,
    UNTIL,
    Declared,
    Fault,
    read_tag,
)
from ganeti_steward.plugins.aggregates.membership import Rules

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.plugins.aggregates.config import Aggregates

_VERSION_TAG = f"{TAG_PREFIX}{AGGREGATES_VERSION}:"


def read_rules(cluster: Cluster, config: Aggregates) -> Rules:
    """Read all that is declared, by tags and in the configuration's section."""
    into = Collected()
    ConfigReader(into, cluster).read(config)
    # The version first: it decides how the other tags are read.
    for tag in sorted(_ours(cluster.tags), key=lambda tag: not tag.startswith(_VERSION_TAG)):
        _declare(into, CLUSTER, "", tag, "")
    for group in cluster.groups:
        for tag in _ours(group.tags):
            _declare(into, GROUP, group.name, tag, group.uuid)
    for node in cluster.nodes:
        for tag in _ours(node.tags):
            _declare(into, NODE, node.name, tag, node.name)
    return into.rules(config)


def config_faults(config: Aggregates) -> list[Fault]:
    """What is wrong with the configuration's section, whatever the cluster."""
    into = Collected()
    ConfigReader(into, None).read(config)
    return into.faults


def _ours(tags: Sequence[str]) -> list[str]:
    return [tag for tag in tags if tag.startswith(TAG_PREFIX)]


def _declare(into: Collected, kind: str, name: str, tag: str, key: str) -> None:
    """One tag; ``key``: what the object is known by."""
    try:
        declared = read_tag(kind, tag, into.version)
    except ExpressionError as err:
        into.faults.append(Fault(kind, name, tag, str(err)))
        return
    if isinstance(declared, Ask):
        into.automatic.append(declared)
        return
    assert isinstance(declared, Declared)
    if declared.key == AGGREGATE:
        members = into.groups if kind == GROUP else into.nodes
        members.setdefault(key, set()).add(declared.name)
    elif declared.key == UNIT:
        into.put(into.units.setdefault(key, {}), declared.owner, declared.name)
    elif declared.key == POOL:
        into.put(into.pools, declared.owner, declared.name)
    else:
        _set(into, declared)


def _set(into: Collected, declared: Declared) -> None:
    """A tag of the cluster that is no membership."""
    if declared.key == AGGREGATES_VERSION:
        into.version = min(into.version, int(declared.name))
    elif declared.key == ENTITLED_TAG:
        into.entitled.add(Entitled(declared.name, tag=declared.owner))
    elif declared.key == ENTITLED_INSTANCE:
        into.entitled.add(Entitled(declared.name, instance=declared.owner))
    elif declared.key == UNTIL:
        into.ends(declared.name, declared.owner)
    else:
        into.settings[declared.key].add(declared.name)
