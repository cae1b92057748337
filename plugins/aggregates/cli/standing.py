"""What an administrator should look at: who stands where it would not be placed, wrong tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ganeti_steward.core.model.site_rules import ROLES
from ganeti_steward.plugins.aggregates.cli.reading import Site
from ganeti_steward.plugins.aggregates.evaluator import Judge
from ganeti_steward.plugins.aggregates.requirements import read_wishes
from ganeti_steward.plugins.aggregates.tags import Fault, printable


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


def faults(site: Site) -> Iterator[Fault]:
    """Tags and entries of the configuration that mean nothing, those of instances last."""
    yield from site.rules.faults
    for instance in site.cluster.instances:
        yield from read_wishes(site.rules, instance).faults


def misplaced(site: Site) -> Iterator[Misplaced]:
    """Every instance that is where it would not be placed, by what of its tags is understood."""
    cluster, judge = site.cluster, Judge(site.rules, site.cluster)
    for instance in cluster.instances:
        wishes = read_wishes(site.rules, instance).wishes
        for name, role in zip(instance.nodes, ROLES, strict=False):
            node = cluster.nodes[cluster.node_index[name]]
            reason = judge.node(wishes, instance.template, node, role)
            if reason is not None:
                yield Misplaced(instance.name, name, role, reason.text)


def never_seen(site: Site) -> Iterator[str]:
    """Instances of the configuration that are not there: perhaps not made yet, or a slip."""
    for name in site.rules.wishes:
        if name not in site.cluster.instance_index:
            shown = printable(name)
            yield f"configuration aggregates.instances.{shown}: the cluster has no {shown} now"
