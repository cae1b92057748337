"""What the commands about aggregates share: a cluster with its rules, names, columns."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands.cluster_options import read_source
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.tables import print_notes
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.model.names import named
from ganeti_steward.plugins.aggregates.config import Aggregates
from ganeti_steward.plugins.aggregates.declarations import read_rules
from ganeti_steward.plugins.aggregates.membership import Rules
from ganeti_steward.plugins.aggregates.requirements import read_requirements

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.jobs import Jobs
    from ganeti_steward.core.model.cluster import Cluster, Instance, Node

#: Names shown of each kind unless all are requested.
SHOWN: Final = 10


class TaggedCluster(NamedTuple):
    """A cluster with the rules of its tags and of the configuration."""

    source: Source
    rules: Rules
    config: Config

    @property
    def cluster(self) -> Cluster:
        """The snapshot."""
        return self.source.cluster

    def with_cluster(self, cluster: Cluster) -> TaggedCluster:
        """The same rules for another state of the cluster."""
        return self._replace(source=self.source._replace(cluster=cluster))

    @property
    def jobs(self) -> Jobs:
        """The client that writes its tags; raises StewardError for a file."""
        if self.source.jobs is None:
            raise StewardError(f"tags are written to a live cluster, not to {self.source.where}")
        return self.source.jobs


def run_action(options: argparse.Namespace) -> int:
    """Run the sub-command's function ``act`` on the cluster; raises StewardError."""
    act: Callable[[argparse.Namespace, TaggedCluster], int] = options.act
    return act(options, read_tagged(options))


def read_tagged(options: argparse.Namespace) -> TaggedCluster:
    """The cluster the options name, with its rules; raises StewardError."""
    config = configuration(ALLOCATION)
    source = read_source(options)
    rules = read_rules(source.cluster, config.section(Aggregates))
    print_notes((*source.notes, *rules.notes))
    return TaggedCluster(source, rules, config)


def requesting_instances(tagged: TaggedCluster) -> dict[str, list[str]]:
    """Aggregate -> the instances that mention it positively, where there are any."""
    found: dict[str, list[str]] = {}
    for instance in tagged.cluster.instances:
        for name in read_requirements(tagged.rules, instance).requirements.wanted:
            found.setdefault(name, []).append(instance.name)
    return found


def full_name(name: str, known: Sequence[Node | Instance]) -> str | None:
    """The name of what a name that may lack the domain, or a uuid, stands for."""
    found = named(known, name)
    return found[0] if len(found) == 1 else None


def listed(names: Sequence[str], *, every: bool = True) -> str:
    """Names for a sentence; ``every`` False: the first ones and how many more."""
    shown = names if every else names[:SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
