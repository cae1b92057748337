"""Notes on an answer: faulty tags, and places the rules would not choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ganeti_steward.core.errors import join_faults
from ganeti_steward.core.iallocator.request_types import type_of
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY
from ganeti_steward.plugins.aggregates.language.expression import STORAGE
from ganeti_steward.plugins.aggregates.language.limits import Clock, ended
from ganeti_steward.plugins.aggregates.language.tags import GROUP, NODE
from ganeti_steward.plugins.aggregates.membership import MembershipRules
from ganeti_steward.plugins.aggregates.requirements import read_requirements
from ganeti_steward.plugins.aggregates.verdicts import Evaluator

if TYPE_CHECKING:
    from ganeti_steward.core.model.answer import Outcome
    from ganeti_steward.core.model.cluster import Cluster, Instance, Node
    from ganeti_steward.core.model.requests import Request

_ROLES: Final = (PRIMARY, SECONDARY)


def notes(
    request: Request,
    cluster: Cluster,
    outcome: Outcome,
    rules: MembershipRules,
    evaluator: Evaluator,
    clock: Clock,
) -> Iterator[str]:
    """What an administrator should know in addition to the answer."""
    closed = [fault.sentence for fault in rules.faults if fault.kind in (GROUP, NODE)]
    if closed:
        yield f"closed: {join_faults(closed)}"
    yield from rules.notes
    if not isinstance(outcome, Answer):
        return
    read_places = type_of(request).placed
    placed = read_places(outcome.result, request, cluster) if read_places else []
    if placed and (closing := rules.closing()):
        # Only an allocator that does not know the rules answers so.
        text = join_faults([fault.sentence for fault in closing])
        yield f"placed against the rules, which place nothing: {text}"
    for instance, names in placed:
        yield from _notes_on(cluster, instance, names, rules, evaluator)
        yield from _notes_on_ends(instance, rules, clock)


def _notes_on(
    cluster: Cluster,
    instance: Instance,
    names: Sequence[str],
    rules: MembershipRules,
    evaluator: Evaluator,
) -> Iterator[str]:
    """Roles it does not have, and nodes the rules would not give it."""
    requested = read_requirements(rules, instance)
    for fault in requested.faults:
        yield f"{instance.name} is placed against the rules: {fault.sentence}"
    requirements = requested.requirements
    for role, _ in requirements.roles:
        if (role == SECONDARY and len(names) < 2) or (
            role == STORAGE and instance.template == "diskless"
        ):
            yield f"{instance.name} has no {role}; what its tags require of one is ignored"
    for name, role in zip(names, _ROLES, strict=False):
        node = cluster.node(name)
        reason = evaluator.node(requirements, instance.template, node, role)
        if reason is not None:
            yield _against(instance, node, role, reason.text)


def _notes_on_ends(instance: Instance, rules: MembershipRules, clock: Clock) -> Iterator[str]:
    """Aggregates it requests that were meant to be used until a day that is over."""
    if not rules.until:
        return
    for name in sorted(read_requirements(rules, instance).requirements.wanted):
        if ended(rules.until, name, clock):
            yield f"{instance.name} requests {name}, which ended on {rules.until[name]}"


def _against(instance: Instance, node: Node, role: str, text: str) -> str:
    """A node that does not comply; it was not chosen now where the instance is there."""
    verb = "stays" if node.name in instance.nodes else "is placed"
    return f"{instance.name} {verb} on {node.name} as {role}, against the rules: {text}"
