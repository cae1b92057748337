"""Which tag, site rule or soft rule would have to be dropped for a request to succeed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from ganeti_steward.allocators.advice.case import (
    OPTION,
    POLICY,
    REQUEST,
    SITE_RULE,
    TAG,
    Case,
    Suggestion,
    Trier,
    instances_of,
    rule_of,
    with_instance,
)
from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.explanation import Explanation
from ganeti_steward.core.model.requests import Allocate
from ganeti_steward.core.needed import RESERVE_PREFIX

#: How many tags, or site rules, are tried.
_MOST: Final = 20


def without_limits_of_the_request(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """Another group, or other nodes, than the request and the options name."""
    request, options = case.request, case.options
    if isinstance(request, Allocate) and request.group_name is not None:
        yield from _tried(
            Suggestion(
                REQUEST,
                f"in another group than {request.group_name}",
                case._replace(request=request._replace(group_name=None)),
            ),
            trier,
        )
    elif isinstance(request, Allocate):
        for group in case.cluster.groups:
            if group.alloc_policy == "unallocable":
                named = case._replace(request=request._replace(group_name=group.name))
                text = f"in group {group.name}, named in the request, as it is unallocable"
                yield from _tried(Suggestion(REQUEST, text, named), trier)
    restricted = isinstance(request, Allocate) and request.restrict_to is not None
    if restricted or options.restrict_to is not None:
        if isinstance(request, Allocate):
            request = request._replace(restrict_to=None)
        free = case._replace(request=request, options=options._replace(restrict_to=None))
        yield from _tried(Suggestion(REQUEST, "on other nodes than those named", free), trier)


def without_tags(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """Each tag of an instance without which the request succeeds."""
    for instance in instances_of(case):
        for tag in tuple(dict.fromkeys(instance.tags))[:_MOST]:
            tags = tuple(other for other in instance.tags if other != tag)
            changed = with_instance(case, instance._replace(tags=tags))
            text = f"without the tag {tag} of {instance.name}"
            yield from _tried(Suggestion(TAG, text, changed), trier)


def without_reserves(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """Each reserve without which the request succeeds; all together where no single one is enough.

    Those of the configuration are tags of the cluster here.
    """
    found, last = False, case.cluster
    for text, cluster in islice(_without_reserve(case.cluster), _MOST):
        changed = case._replace(cluster=cluster)
        for suggestion in _tried(Suggestion(POLICY, f"without the reserve {text}", changed), trier):
            found = True
            yield suggestion
    while not found and (lower := next(_without_reserve(last), None)):
        last = lower[1]
    if last is not case.cluster:
        every = Suggestion(POLICY, "without any reserve", case._replace(cluster=last))
        yield from _tried(every, trier)


def _without_reserve(cluster: Cluster) -> Iterator[tuple[str, Cluster]]:
    """A reserve in words, and the cluster without it."""
    for what, tags in _without_each(cluster.tags):
        yield f"{what} of the cluster", cluster.replace(tags=tags)
    for group in cluster.groups:
        for what, tags in _without_each(group.tags):
            groups = [
                one if one is not group else group._replace(tags=tags) for one in cluster.groups
            ]
            yield f"{what} of group {group.name}", cluster.replace(groups=groups)
    for node in cluster.nodes:
        for what, tags in _without_each(node.tags):
            nodes = [one if one is not node else node._replace(tags=tags) for one in cluster.nodes]
            yield f"{what} of node {node.name}", cluster.replace(nodes=nodes)


def _without_each(tags: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for tag in tags:
        if tag.startswith(RESERVE_PREFIX):
            yield tag.removeprefix(RESERVE_PREFIX), tuple(one for one in tags if one != tag)


def without_site_rules(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """Each site rule without which the request succeeds."""
    rules, names = trier.context(case).site_rules, dict[str, None]()
    for instance in instances_of(case):
        try:
            bans = rules.bans(case.cluster, instance)
        except PluginError:
            continue
        own = {case.only.node} if case.only else None
        names |= dict.fromkeys(
            rule_of(ban) for ban in bans if own is None or getattr(ban, "node", None) in own
        )
    for name in tuple(names)[:_MOST]:
        changed = case._replace(without=case.without | {name})
        yield from _tried(Suggestion(SITE_RULE, f"without the site rule {name!r}", changed), trier)


def without_soft_rules(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """The options that drop the capacity test, the soft rules, or else both."""
    options, found = case.options, False
    no_test = options._replace(capacity_checks=False)
    forced = options._replace(ignore_soft_errors=True)
    both = no_test._replace(ignore_soft_errors=True)
    for changed, text in (
        (no_test, "without the capacity test (--no-capacity-checks)"),
        (forced, "with the soft rules dropped (--ignore-soft-errors)"),
        (both, "without capacity test and soft rules (--no-capacity-checks --ignore-soft-errors)"),
    ):
        if changed == options or (found and changed is both):
            continue
        suggestion = Suggestion(OPTION, text, case._replace(options=changed))
        for tried in _tried(suggestion, trier):
            found = True
            yield tried._replace(text=f"{text}{_dropped(case, tried, trier)}")


def _tried(suggestion: Suggestion, trier: Trier) -> Iterator[Suggestion]:
    if trier.succeeds(suggestion.case):
        yield suggestion


def _dropped(case: Case, tried: Suggestion, trier: Trier) -> str:
    """What the options drop: what refuses the place that they lead to."""
    request = case.request
    if not isinstance(request, Allocate):
        return ""
    outcome = trier.outcome(tried.case)
    if not isinstance(outcome, Answer) or not isinstance(outcome.result, list):
        return ""
    nodes = tuple(str(name) for name in outcome.result)
    strict = case._replace(request=request._replace(restrict_to=nodes))
    reasons = _refusing(trier.outcome(strict, explain=True), nodes)
    return f": {'; '.join(reasons)}" if reasons else ""


def _refusing(outcome: Outcome, nodes: tuple[str, ...]) -> list[str]:
    """What an explanation has against these nodes, primary first."""
    found = dict[str, None]()
    roles = {*zip(("primary", "secondary"), nodes, strict=False)}
    for one in outcome.explanations:
        for group in one.groups if isinstance(one, Explanation) else ():
            found |= {
                f"{verdict.node}: {verdict.rule}, {verdict.reason}": None
                for verdict in group.nodes
                if verdict.reason and (verdict.role, verdict.node) in roles
            }
            for place in group.places:
                if place.nodes == nodes:
                    found |= dict.fromkeys(place.capacity)
    return list(found)
