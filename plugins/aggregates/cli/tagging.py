"""Tags on a live cluster that put members in an aggregate: all are written, or none."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.allocators.jobs.run_jobs import UNKNOWN, JobRun, Result, run_job_sets
from ganeti_steward.core.errors import StewardError, join_faults
from ganeti_steward.core.ganeti.jobs import Jobs
from ganeti_steward.core.model.job_state import LOST, SUCCESS
from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.cli.reading import full_name
from ganeti_steward.plugins.aggregates.language.expression import TAG, checked_name
from ganeti_steward.plugins.aggregates.language.tags import (
    AGGREGATE,
    POOL,
    UNIT,
    aggregate_tag,
    checked_part,
)
from ganeti_steward.plugins.model.operations import remove_tags, set_tags

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster


CLUSTER: Final = "cluster"
GROUP: Final = "nodegroup"
NODE: Final = "node"

#: The kinds in words for people.
WORDS: Final = {CLUSTER: "the cluster", GROUP: "node group", NODE: "node"}


class TagChange(NamedTuple):
    """Tags put on one object, or taken off it."""

    kind: str
    name: str
    """empty: the cluster"""
    tags: tuple[str, ...]
    removed: bool = False

    @property
    def job(self) -> Job:
        """As Ganeti does it."""
        make = remove_tags if self.removed else set_tags
        return [make(self.kind, self.name, self.tags)]

    @property
    def inverse(self) -> TagChange:
        """What takes it back."""
        return self._replace(removed=not self.removed)

    @property
    def sentence(self) -> str:
        """What is done, for people."""
        tags = ", ".join(map(repr, self.tags))
        verb = "off" if self.removed else "on"
        return f"{tags} {verb} {self.place}"

    @property
    def place(self) -> str:
        """The object, for people."""
        return f"{WORDS[self.kind]} {self.name}".rstrip()


def grouped(changes: Iterable[TagChange]) -> list[TagChange]:
    """One change for each object, with all its tags."""
    found: dict[tuple[str, str, bool], tuple[str, ...]] = {}
    for change in changes:
        key = change.kind, change.name, change.removed
        found[key] = (*found.get(key, ()), *change.tags)
    return [TagChange(kind, name, tags, removed) for (kind, name, removed), tags in found.items()]


def print_changes(options: argparse.Namespace, changes: Iterable[TagChange]) -> None:
    """Print what is done, or with ``--dry-run`` would be."""
    for change in changes:
        print(f"{'would be done' if options.dry_run else 'done'}: {change.sentence}")


def run_stages(
    jobs: Jobs,
    stages: Sequence[Sequence[TagChange]],
    reason: str,
    interrupts: Callable[[], int] = lambda: 0,
) -> Result:
    """Changes at the same time, stage by stage up to the first that fails; raises StewardError."""
    sets = [[change.job for change in stage] for stage in stages if stage]
    return run_job_sets(jobs, sets, reason=reason, interrupts=interrupts)


def complaint(result: Result) -> str:
    """Why a result is not complete."""
    faults = [f"{_about(run)}: {run.error or run.status}" for run in result.failed]
    faults += [result.trouble] if result.trouble else []
    faults += ["interrupted"] if result.interrupted else []
    return join_faults(faults)


def _about(run: JobRun) -> str:
    (operation,) = run.job
    return f"{WORDS[operation['kind']]} {operation['name'] or ''}".rstrip()


def succeeded(result: Result, changes: Iterable[TagChange]) -> list[TagChange]:
    """Those of the changes that were made."""
    done = [run.job for run in result.runs if run.status == SUCCESS]
    return [change for change in changes if change.job in done]


def uncertain(result: Result) -> list[JobRun]:
    """Changes of which it is unknown whether they are made, or will be."""
    return [run for run in result.runs if not run.over or run.status in (LOST, UNKNOWN)]


def write(
    jobs: Jobs,
    changes: Sequence[TagChange],
    reason: str,
    interrupts: Callable[[], int] = lambda: 0,
) -> None:
    """Make all changes; raises StewardError when one fails, after taking back the others."""
    result = run_stages(jobs, [changes], reason, interrupts)
    if result.complete:
        return
    back = [change.inverse for change in succeeded(result, changes)]
    left = [] if not back else _failing(jobs, back, f"{reason}: taken back")
    left += [f"perhaps done later: {_about(run)}" for run in uncertain(result)]
    ending = "; ".join(left) or "nothing is changed"
    raise StewardError(f"{complaint(result)}; {ending}")


def _failing(jobs: Jobs, changes: Sequence[TagChange], reason: str) -> list[str]:
    """Make changes; those that failed, as sentences."""
    result = run_stages(jobs, [changes], reason)
    done = succeeded(result, changes)
    return [f"could not be taken back: {c.inverse.sentence}" for c in changes if c not in done]


#: What Ganeti takes.
_TAG_LENGTH: Final = 128


def plan(cluster: Cluster, name: str, words: Sequence[str], *, removed: bool) -> list[TagChange]:
    """The changes that put members in an aggregate, or take them out; all faults at once.

    What is in already needs no change; what is not in cannot be taken out.  Raises StewardError.
    """
    checked_name(name, TAG)
    members, faults = [], []
    for word in dict.fromkeys(words):
        try:
            members.append(_member(cluster, name, word)._replace(removed=removed))
        except StewardError as err:
            faults.append(str(err))
    changes = []
    for member in dict.fromkeys(members):
        (tag,) = member.tags
        there = tag in _tags_of(cluster, member.kind, member.name)
        if removed and not there:
            faults.append(f"{member.place} has no tag {tag!a}")
        elif removed == there:
            changes.append(member)
    if faults:
        raise StewardError(join_faults(faults))
    return grouped(changes)


def _tags_of(cluster: Cluster, kind: str, name: str) -> tuple[str, ...]:
    """The tags of the cluster, a group or a node."""
    if kind == CLUSTER:
        return cluster.tags
    if kind == GROUP:
        return next(group.tags for group in cluster.groups if group.name == name)
    return cluster.node(name).tags


def _member(cluster: Cluster, name: str, word: str) -> TagChange:
    """The tag that puts what a word names in an aggregate; raises StewardError."""
    kind, colon, rest = word.partition(":")
    if not colon or kind not in ("node", "group", "unit", "pool"):
        kind, rest = _kind_of(cluster, word), word
    if kind == "pool":
        return TagChange(CLUSTER, "", (_owned_tag(POOL, rest, name),))
    if kind == "group":
        groups = cluster.groups_named(rest)
        if len(groups) != 1:
            raise StewardError(f"the cluster has no node group {rest!a}")
        return TagChange(GROUP, cluster.groups[groups[0]].name, (aggregate_tag(name),))
    owner, _, unit = rest.partition(":") if kind == "unit" else (rest, "", "")
    node = full_name(owner, cluster.nodes)
    if node is None:
        raise StewardError(f"the cluster has no node {owner!a}")
    tag = _owned_tag(UNIT, unit, name) if kind == "unit" else aggregate_tag(name)
    return TagChange(NODE, node, (tag,))


def _kind_of(cluster: Cluster, word: str) -> str:
    """Whether a name without a kind is one of a node or of a node group; raises StewardError."""
    node, groups = full_name(word, cluster.nodes), cluster.groups_named(word)
    if node and groups:
        raise StewardError(
            f"{word!a} is a node and a node group; write node:{word} or group:{word}"
        )
    if not node and not groups:
        raise StewardError(
            f"{word!a} is neither a node nor a node group of the cluster (other members are "
            "unit:NODE:UNIT and pool:POOL)"
        )
    return "node" if node else "group"


def _owned_tag(key: str, owner: str, name: str) -> str:
    tag = f"{TAG_PREFIX}{key}:{checked_part(owner, key)}:{AGGREGATE}:{name}"
    if len(tag) > _TAG_LENGTH:
        raise StewardError(f"the tag {tag!a} is longer than {_TAG_LENGTH} characters")
    return tag
