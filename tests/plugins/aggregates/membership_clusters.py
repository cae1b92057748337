"""Clusters that are nothing but names and tags, for judging membership."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ganeti_steward.core.model.cluster import Cluster, Group, Instance, Node, Policy, Spec
from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.language.expression import TAG, Term, value_text
from ganeti_steward.plugins.aggregates.language.tags import MEMBER_OF

_SPEC = Spec(memory=0, vcpus=0, disk=0, disks=0, nics=0, spindles=0)
_POLICY = Policy((), _SPEC, frozenset(), 4.0, 32.0)


def make_cluster(
    groups: Mapping[str, Iterable[str]],
    nodes: Mapping[str, tuple[str, Iterable[str]]],
    tags: Iterable[str] = (),
    instances: Iterable[Instance] = (),
) -> Cluster:
    """``groups``: name -> tags; ``nodes``: name -> group and tags."""
    return Cluster(
        (_group(name, given) for name, given in groups.items()),
        (_node(name, group, given) for name, (group, given) in nodes.items()),
        instances,
        tags,
    )


def make_instance(
    *tags: str, name: str = "web1", template: str = "drbd", nodes: tuple[str, ...] = ()
) -> Instance:
    return Instance(
        name=name,
        memory=128,
        vcpus=1,
        disk_space=1024,
        disks=(),
        template=template,
        spindle_use=1,
        tags=tags,
        networks=(),
        state="up",
        forthcoming=False,
        nodes=nodes,
    )


def term_tag(term: Term) -> str:
    """The tag of an instance with the meaning of a value."""
    role = f".{term.role}" if term.role else ""
    return f"{TAG_PREFIX}{MEMBER_OF}{role}:{value_text(term, TAG)}"


def uuid(group: str) -> str:
    return f"uuid-of-{group}"


def _group(name: str, tags: Iterable[str]) -> Group:
    return Group(uuid(name), name, "preferred", frozenset(), _POLICY, tuple(tags))


def _node(name: str, group: str, tags: Iterable[str]) -> Node:
    return Node(
        name=name,
        group=uuid(group),
        offline=False,
        drained=False,
        vm_capable=True,
        tags=tuple(tags),
        exclusive_storage=False,
        total_memory=1024.0,
        reserved_memory=0,
        free_memory=1024,
        total_disk=1024.0,
        free_disk=1024,
        total_cpus=4.0,
        reserved_cpus=0,
        spindles=1,
        free_spindles=1,
    )
