"""What ``gnt-steward aggregate show`` prints of an aggregate, node, node group or instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ganeti_steward.core.model.site_rules import PRIMARY, ROLES, SECONDARY, TAG_PREFIX
from ganeti_steward.plugins.aggregates.cli import reading
from ganeti_steward.plugins.aggregates.language.limits import entitled_text
from ganeti_steward.plugins.aggregates.language.requests import requested_text
from ganeti_steward.plugins.aggregates.language.tags import GROUP, MEMBER_OF, NODE
from ganeti_steward.plugins.aggregates.membership import Members, aggregates
from ganeti_steward.plugins.aggregates.requirements import (
    Requested,
    closing_faults,
    read_requirements,
)
from ganeti_steward.plugins.aggregates.verdicts import Evaluator

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Group, Instance, Node

_NONE = "none"


def views(tagged: reading.TaggedCluster, name: str, *, every: bool) -> list[str]:
    """A view of each thing of this name; ``every``: all names, not the first few."""
    viewer = _Viewer(tagged, every=every)
    cluster, found = tagged.cluster, []
    known = aggregates(tagged.rules.membership)
    if name in known or name in reading.requesting_instances(tagged):
        found.append(viewer.aggregate(known.get(name, Members(name))))
    found += [viewer.group(cluster.groups[at]) for at in cluster.groups_named(name)]
    node = reading.full_name(name, cluster.nodes)
    if node is not None:
        found.append(viewer.node(cluster.node(node)))
    instance = reading.full_name(name, cluster.instances)
    if instance is not None:
        found.append(viewer.instance(cluster.instance(instance)))
    return ["".join(f"{line}\n" for line in lines) for lines in found]


class _Viewer:
    """Makes the lines of one view after the other."""

    def __init__(self, tagged: reading.TaggedCluster, *, every: bool) -> None:
        self._tagged, self._rules, self._every = tagged, tagged.rules, every
        self._cluster = tagged.cluster
        self._evaluator = Evaluator(tagged.rules, tagged.cluster)
        self._groups = {group.uuid: group.name for group in tagged.cluster.groups}

    def _names(self, names: Iterable[str]) -> str:
        return reading.listed(sorted(names), every=self._every)

    def aggregate(self, members: Members) -> Iterator[str]:
        yield f"Aggregate {members.name}"
        kinds = {
            "node groups": [self._groups[uuid] for uuid in members.groups],
            "nodes": members.nodes,
            "units": [f"{node}:{unit}" for node, unit in members.units],
            "pools": members.pools,
        }
        for kind, names in kinds.items():
            if names:
                yield f"  {kind}: {self._names(names)}"
        if not any(kinds.values()):
            yield "  has no members: an instance that requests it is placed nowhere"
        settings = self._rules.settings
        for prefix in settings.forbidden:
            if members.name.startswith(prefix):
                yield f"  closed to instances that request nothing under {prefix}"
        if members.name in settings.unclaimable:
            yield "  no instance may request it"
        else:
            tags = [f"{TAG_PREFIX}{MEMBER_OF}:{members.name}"]
            if any(members.name.startswith(prefix) for prefix in settings.required):
                tags.insert(0, members.name)
            yield f"  instances request it with the tag {' or '.join(tags)}"
            if entitled := entitled_text(self._rules.entitled, members.name):
                yield f"  only {entitled} may request it"
        if members.name in self._rules.until:
            yield f"  until {self._rules.until[members.name]}"
        who = reading.requesting_instances(self._tagged).get(members.name, [])
        yield f"  requested by: {self._names(who) or _NONE}"

    def group(self, group: Group) -> Iterator[str]:
        yield f"Node group {group.name}"
        membership = self._rules.membership
        own = membership.groups.get(group.uuid, frozenset())
        yield f"  in aggregates: {self._names(own) or 'none'}"
        yield from self._fault(GROUP, group.name)
        for node in self._cluster.nodes:
            if node.group == group.uuid and node.name in membership.nodes:
                yield f"  {node.name}: {self._names(membership.nodes[node.name])}"

    def node(self, node: Node) -> Iterator[str]:
        membership, none = self._rules.membership, frozenset[str]()
        yield f"Node {node.name}"
        yield f"  in aggregates: {self._names(membership.nodes.get(node.name, none)) or 'none'}"
        around = self._names(membership.groups.get(node.group, none)) or "none"
        yield f"  by its node group {self._groups[node.group]}: {around}"
        for unit, names in sorted(membership.units.get(node.name, {}).items()):
            yield f"  its unit {unit}: {self._names(names)}"
        yield from self._fault(NODE, node.name)
        for role in ROLES:
            found: dict[str, list[str]] = {}
            for instance in self._cluster.instances:
                if role == SECONDARY and len(instance.nodes) < 2:
                    continue
                wrong = self._wrong(read_requirements(self._rules, instance), instance, node, role)
                found.setdefault(wrong, []).append(instance.name)
            yield from self._judged(role, found, "of the instances")

    def instance(self, instance: Instance) -> Iterator[str]:
        yield f"Instance {instance.name} on {', '.join(instance.nodes)}"
        requested = read_requirements(self._rules, instance)
        requests = [*map(requested_text, requested.terms), *map(requested_text, requested.soft)]
        yield f"  requests: {', '.join(requests) or 'nothing'}"
        for fault in closing_faults(self._rules, requested):
            yield f"  may go nowhere: {fault.sentence}"
        for role in (PRIMARY, SECONDARY)[: max(1, len(instance.nodes))]:
            prefixes = requested.requirements.prefixes(role)
            if prefixes:
                yield f"  as {role} closed to it: everything under {', '.join(prefixes)}"
            found: dict[str, list[str]] = {}
            for node in self._cluster.nodes:
                wrong = self._wrong(requested, instance, node, role)
                found.setdefault(wrong, []).append(node.name)
            yield from self._judged(role, found, "of the nodes")

    def _wrong(self, requested: Requested, instance: Instance, node: Node, role: str) -> str:
        """Why not, or nothing."""
        wrong = closing_faults(self._rules, requested)
        if wrong:
            return wrong[0].sentence
        reason = self._evaluator.node(requested.requirements, instance.template, node, role)
        return reason.text if reason else ""

    def _judged(self, role: str, found: dict[str, list[str]], what: str) -> Iterator[str]:
        total = sum(map(len, found.values()))
        if not total:
            return
        fine = found.pop("", [])
        yield f"  as {role}, {len(fine)} {what} ({total}): {self._names(fine) or 'none'}"
        for text, names in sorted(found.items()):
            yield f"    not {self._names(names)}: {text}"

    def _fault(self, kind: str, name: str) -> Iterator[str]:
        fault = self._rules.closed().get((kind, name))
        if fault is not None:
            yield f"  takes no new instance: {fault.sentence}"
