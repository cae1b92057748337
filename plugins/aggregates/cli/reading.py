"""What the commands about aggregates share: the cluster with its rules, faults and names."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ganeti_steward.allocators.state.names import named
from ganeti_steward.core.builtins import ALLOCATION
from ganeti_steward.core.commands import tables
from ganeti_steward.core.commands.cluster_options import add_source_options, read_source
from ganeti_steward.core.commands.configuration import configuration
from ganeti_steward.core.commands.manual import add_subcommand, add_subcommands
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.errors import StewardError, few
from ganeti_steward.core.ganeti.sources import Source
from ganeti_steward.core.model.cluster import DISK_TEMPLATES
from ganeti_steward.core.model.site_rules import ROLES
from ganeti_steward.plugins.aggregates.config import Aggregates
from ganeti_steward.plugins.aggregates.declarations import read_rules
from ganeti_steward.plugins.aggregates.language.limits import Clock, warning
from ganeti_steward.plugins.aggregates.language.tags import Fault, printable
from ganeti_steward.plugins.aggregates.membership import MembershipRules
from ganeti_steward.plugins.aggregates.requirements import read_requirements
from ganeti_steward.plugins.aggregates.reservations import reservations
from ganeti_steward.plugins.aggregates.verdicts import Evaluator

if TYPE_CHECKING:
    from ganeti_steward.core.ganeti.jobs import Jobs
    from ganeti_steward.core.model.cluster import Cluster, Instance, Node


#: Names shown of each kind unless all are requested.
SHOWN: Final = 10


class TaggedCluster(NamedTuple):
    """A cluster with the rules of its tags and of the configuration."""

    source: Source
    rules: MembershipRules
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
        """The client that writes its tags; commands that do so offer no file."""
        return cast("Jobs", self.source.jobs)


#: What a sub-command does with the cluster that its options name; returns the exit status.
Act = Callable[[argparse.Namespace, "TaggedCluster"], int]
#: Declares the help and the options of a sub-command.
Declare = Callable[[argparse.ArgumentParser], None]


def add_actions(
    parser: argparse.ArgumentParser,
    actions: Mapping[str, tuple[str, Act, Declare]],
    *,
    writing: Collection[str],
) -> None:
    """A sub-command for each name: one line about it, what it does, and what declares it.

    ``writing``: those that write tags, for which a file will not do.
    """
    what = add_subcommands(parser, "WHAT")
    for name, (text, act, declare) in actions.items():
        fill = partial(_fill, act, declare, name not in writing)
        add_subcommand(what, name, text, fill)


def _fill(act: Act, declare: Declare, files: bool, parser: argparse.ArgumentParser) -> None:
    declare(parser)
    add_source_options(parser, positional=False, files=files)
    parser.set_defaults(act=act)


def run_action(options: argparse.Namespace) -> int:
    """Run the sub-command's function ``act`` on the cluster; raises StewardError."""
    act: Act = options.act
    return act(options, read_tagged(options))


def read_tagged(options: argparse.Namespace) -> TaggedCluster:
    """The cluster the options name, with its rules; raises StewardError."""
    config = configuration(ALLOCATION)
    source = read_source(options)
    rules = read_rules(source.cluster, config.section(Aggregates))
    tables.print_notes((*source.notes, *rules.notes))
    return TaggedCluster(source, rules, config)


def check_template(template: str) -> None:
    """Raise StewardError unless Ganeti has this disk template."""
    if template not in DISK_TEMPLATES:
        known = ", ".join(sorted(DISK_TEMPLATES))
        raise StewardError(f"unknown disk template {template!a} (known: {known})")


def requesting_instances(tagged: TaggedCluster) -> dict[str, list[str]]:
    """Aggregate -> the instances that mention it positively, where there are any."""
    found: dict[str, list[str]] = {}
    for instance in tagged.cluster.instances:
        for name in read_requirements(tagged.rules, instance).requirements.wanted:
            found.setdefault(name, []).append(instance.name)
    return found


def end_notes(rules: MembershipRules, clock: Clock) -> Iterator[str]:
    """What is to be known about the ends of reservations with nodes."""
    for under in reservations(rules):
        for members in under.taken:
            text = warning(rules.until, members.name, clock)
            if text:
                name = members.name
                yield f"{text}; 'gnt-steward reserve release {name}' frees its nodes"


def full_name(name: str, known: Sequence[Node | Instance]) -> str | None:
    """The name of what a name that may lack the domain, or a uuid, stands for."""
    found = named(known, name)
    return found[0] if len(found) == 1 else None


def listed(names: Sequence[str], *, every: bool = True) -> str:
    """Names for a sentence; ``every`` False: the first ones and how many more."""
    return few(names, None if every else SHOWN)


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
            node = cluster.node(name)
            reason = evaluator.node(requirements, instance.template, node, role)
            if reason is not None:
                yield Misplaced(instance.name, name, role, reason.text)


def never_seen(tagged: TaggedCluster) -> Iterator[str]:
    """Instances of the configuration that are not there: perhaps not made yet, or a slip."""
    for name in tagged.rules.configured:
        if name not in tagged.cluster.instance_index:
            shown = printable(name)
            yield f"configuration aggregates.instances.{shown}: the cluster has no {shown} now"
