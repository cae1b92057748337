"""What an administrator should look at: who stands where it would not be placed, wrong tags."""

from __future__ import annotations

from collections.abc import Iterator

from ganeti_steward.core.site import ROLES
from ganeti_steward.plugins.aggregates.judge import Judge
from ganeti_steward.plugins.aggregates.wishes import read_wishes
from ganeti_steward.plugins.commands.reading import Site


def complaints(site: Site) -> Iterator[str]:
    """A sentence for each; wrong tags first."""
    for fault in site.rules.faults:
        yield fault.sentence
    cluster, judge = site.cluster, Judge(site.rules, site.cluster)
    asked = {one.name: read_wishes(site.rules, one) for one in cluster.instances}
    for instance in cluster.instances:
        for fault in asked[instance.name].faults:
            yield fault.sentence
    for instance in cluster.instances:
        wishes = asked[instance.name].wishes
        for name, role in zip(instance.nodes, ROLES, strict=False):
            node = cluster.nodes[cluster.node_index[name]]
            reason = judge.node(wishes, instance.template, node, role)
            if reason is not None:
                yield (
                    f"instance {instance.name} would not be placed on {name} as {role} today: "
                    f"{reason.text}"
                )
