"""Faults for an administrator: instances where they would not be placed today, wrong tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ganeti_steward.core.model.site_rules import ROLES
from ganeti_steward.plugins.aggregates.cli.reading import TaggedCluster
from ganeti_steward.plugins.aggregates.evaluator import Evaluator
from ganeti_steward.plugins.aggregates.language.tags import Fault, printable
from ganeti_steward.plugins.aggregates.requirements import read_requirements


class Misplaced(NamedTuple):
    """An instance that is on a node it would not be given today."""

    instance: str
    node: str
    role: str
    text: str
    """why not"""

    @property
    def sentence(self) -> str:
        """All of it."""
        return (
            f"instance {self.instance} would not be placed on {self.node} as {self.role} today: "
            f"{self.text}"
        )


def faults(tagged: TaggedCluster) -> Iterator[Fault]:
    """Tags and entries of the configuration that mean nothing, those of instances last."""
    yield from tagged.rules.faults
    for instance in tagged.cluster.instances:
        yield from read_requirements(tagged.rules, instance).faults


def misplaced(tagged: TaggedCluster) -> Iterator[Misplaced]:
    """Every instance that is where it would not be placed, by what of its tags is understood."""
    cluster, evaluator = tagged.cluster, Evaluator(tagged.rules, tagged.cluster)
    for instance in cluster.instances:
        requirements = read_requirements(tagged.rules, instance).requirements
        for name, role in zip(instance.nodes, ROLES, strict=False):
            node = cluster.nodes[cluster.node_index[name]]
            reason = evaluator.node(requirements, instance.template, node, role)
            if reason is not None:
                yield Misplaced(instance.name, name, role, reason.text)


def never_seen(tagged: TaggedCluster) -> Iterator[str]:
    """Instances of the configuration that are not there: perhaps not made yet, or a slip."""
    for name in tagged.rules.configured:
        if name not in tagged.cluster.instance_index:
            shown = printable(name)
            yield f"configuration aggregates.instances.{shown}: the cluster has no {shown} now"
