"""What would make a refused request succeed: all suggestions of one refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from time import process_time
from typing import Final, NamedTuple

from ganeti_steward.allocators.advice import dropped_rules
from ganeti_steward.allocators.advice.case import (
    REQUEST,
    TAG,
    USUAL_LIMIT,
    Case,
    Engine,
    Only,
    Suggestion,
    Trier,
    alone,
    instances_of,
    is_complete,
    names_of,
    unplaced,
)
from ganeti_steward.allocators.advice.limits import more_nodes, other_limits
from ganeti_steward.allocators.advice.make_room import make_room
from ganeti_steward.allocators.advice.smaller import smaller
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.explanation import Explanation
from ganeti_steward.core.model.requests import (
    PRIMARY_ONLY,
    SECONDARY_ONLY,
    Allocate,
    AllocateSecondary,
    NodeEvacuate,
    Relocate,
)
from ganeti_steward.core.model.site_rules import PRIMARY, ROLES, SECONDARY

#: For how many single instances of a request, and how many suggestions for each.
_SINGLE: Final = 5
_OF_EACH: Final = 3


class Advice(NamedTuple):
    """The suggestions for one refusal."""

    suggestions: tuple[Suggestion, ...]
    """each tried by the engine"""
    tried: int
    """number of changes that were tried"""
    bounded: bool
    """whether the search ended before everything was tried"""


def advise(
    case: Case,
    engine: Engine,
    limit: float = USUAL_LIMIT,
    clock: Callable[[], float] = process_time,
) -> Advice:
    """Suggestions for a request that the engine refuses, or answers in part only.

    ``limit``: seconds by ``clock`` after which nothing more is tried.
    """
    trier = Trier(engine, limit, clock)
    found = list(_suggestions(case, trier)) or list(_each_alone(case, trier))
    return Advice(tuple(found), trier.tried, trier.bounded)


def _suggestions(case: Case, trier: Trier) -> Iterator[Suggestion]:
    tags = False
    for search in _SEARCHES:
        if search is dropped_rules.without_site_rules and tags:
            continue
        for suggestion in search(case, trier):
            tags = tags or suggestion.kind == TAG
            yield suggestion


def _each_alone(case: Case, trier: Trier) -> Iterator[Suggestion]:
    """What would help single instances, where nothing helps all instances of a request."""
    if len(names_of(case.request)) < 2:
        return
    failed = unplaced(trier.outcome(case), case.request)
    for instance in [one for one in instances_of(case) if one.name in failed][:_SINGLE]:
        single, text = alone(case, instance), f"for {instance.name} alone"
        if trier.succeeds(single):
            yield Suggestion(REQUEST, text, single)
            continue
        for one in islice(_suggestions(single, trier), _OF_EACH):
            yield one._replace(text=f"{text} {one.text}")


def _moves(case: Case, trier: Trier) -> Iterator[Suggestion]:
    found = make_room(case, trier)
    if found is not None:
        yield found


#: The cheap searches first, so that the last one has what effort they leave.
_SEARCHES: Final[tuple[Callable[[Case, Trier], Iterator[Suggestion]], ...]] = (
    smaller,
    dropped_rules.without_limits_of_the_request,
    dropped_rules.without_tags,
    dropped_rules.without_site_rules,
    dropped_rules.without_reserves,
    other_limits,
    dropped_rules.without_soft_rules,
    more_nodes,
    _moves,
)


#: How many instances of a request are looked at.
MOST: Final = 20


class NotThere(NamedTuple):
    """What keeps an instance from a node in one role."""

    instance: str
    role: str
    rule: str
    """the rule that refuses the node; empty where it would do"""
    reason: str
    advice: Advice | None = None
    """what would remove it; None where nothing has to be removed"""


def why_not(
    case: Case,
    node: str,
    engine: Engine,
    limit: float = USUAL_LIMIT,
    clock: Callable[[], float] = process_time,
) -> Iterator[NotThere]:
    """For each instance of the request and each role the node could have.

    ``limit``: seconds by ``clock`` in which suggestions for one of them are looked for.
    """
    trier = Trier(engine, limit, clock)
    for instance in instances_of(case)[:MOST]:
        single = alone(case, instance)
        for role in _roles(single, instance):
            if instance.nodes and node == instance.nodes[0 if role == PRIMARY else -1]:
                reason = f"it is the {role} now, which the request is to change"
                yield NotThere(instance.name, role, "its node now", reason)
                continue
            forced = single._replace(only=Only(instance.name, node, role))
            outcome = trier.outcome(forced, explain=True)
            if is_complete(outcome, forced.request):
                reason = _comparison(outcome, trier.outcome(single, explain=True), node, role)
                yield NotThere(instance.name, role, "", reason)
            else:
                rule, reason = _obstacle(forced, outcome)
                advice = advise(forced, engine, limit, clock)
                yield NotThere(instance.name, role, rule, reason, advice)


def _roles(case: Case, instance: Instance) -> tuple[str, ...]:
    """The roles in which the request may give the instance a node."""
    request, drbd = case.request, instance.template == "drbd"
    if isinstance(request, AllocateSecondary):
        return (SECONDARY,)
    if isinstance(request, Allocate):
        return ROLES[: request.required_nodes]
    if isinstance(request, Relocate):
        return (SECONDARY,) if drbd else (PRIMARY,)
    mode = request.mode if isinstance(request, NodeEvacuate) else ""
    if not drbd or mode == PRIMARY_ONLY:
        return (PRIMARY,)
    return (SECONDARY,) if mode == SECONDARY_ONLY else ROLES


def _obstacle(case: Case, outcome: Outcome) -> tuple[str, str]:
    """The rule that refuses the node, and the sentence."""
    only = case.only
    assert only is not None
    node = case.cluster.nodes[case.cluster.node_index[only.node]]
    group = case.cluster.groups[case.cluster.group_index[node.group]].name
    found = [
        verdict
        for one in outcome.explanations
        if isinstance(one, Explanation)
        for part in one.groups
        if part.name == group
        for verdict in (part.nodes or (part.summary,))
    ]
    for verdict in found:
        if isinstance(verdict, str):
            return "node group", f"group {group}: {verdict}"
        if verdict.reason and (verdict.node, verdict.role) == (only.node, only.role):
            return verdict.rule, verdict.reason
    explained = [one for one in outcome.explanations if isinstance(one, Explanation)]
    if explained and not any(one.groups for one in explained):
        return "request", "; ".join(note for one in explained for note in one.notes)
    if explained and not found:
        return "node group", f"group {group} is not among those the request allows"
    return "the other node" if _has_two(case) else "capacity", _failure_text(outcome)


def _has_two(case: Case) -> bool:
    """Whether the instance has a second node, which may be what is missing."""
    request = case.request
    return not isinstance(request, Allocate) or request.required_nodes == 2


def _failure_text(outcome: Outcome) -> str:
    """Why nothing was found, in the engine's words."""
    if isinstance(outcome, Answer) and isinstance(outcome.result, list):
        failed = outcome.result[1]
        if isinstance(failed, list) and failed and isinstance(failed[0], list):
            return str(failed[0][1])
    return outcome.info


def _comparison(forced: Outcome, free: Outcome, node: str, role: str) -> str:
    """The scores of the best place with the node and of the place that was chosen."""
    mine, best = _best(forced), _best(free)
    if not mine or not best:
        return "fits"
    if mine[0] == best[0]:
        return "chosen"
    name, other = "/".join(mine[0]), "/".join(best[0])
    return f"fits, but {other} scores better ({best[1]:.8f} against {mine[1]:.8f} of {name})"


def _best(outcome: Outcome) -> tuple[tuple[str, ...], float] | None:
    """The chosen nodes, and their score."""
    for one in outcome.explanations:
        if isinstance(one, Explanation) and one.chosen:
            for place in (place for group in one.groups for place in group.places):
                if place.nodes == one.chosen:
                    return one.chosen, place.score
    return None
