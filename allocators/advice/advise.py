"""What would make a refused request succeed: all suggestions of one refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from time import process_time
from typing import Final, NamedTuple

from ganeti_steward.allocators.advice.case import (
    Case,
    Engine,
    Trier,
    alone,
    instances_of,
    names_of,
    unplaced,
)
from ganeti_steward.allocators.advice.dropped_rules import (
    without_limits_of_the_request,
    without_site_rules,
    without_soft_rules,
    without_tags,
)
from ganeti_steward.allocators.advice.limits import other_limits
from ganeti_steward.allocators.advice.make_room import make_room
from ganeti_steward.allocators.advice.more_nodes import more_nodes
from ganeti_steward.allocators.advice.smaller import smaller
from ganeti_steward.allocators.advice.suggestion import (
    REQUEST,
    TAG,
    USUAL_LIMIT,
    Suggestion,
)

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
        if search is without_site_rules and tags:
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
    without_limits_of_the_request,
    without_tags,
    without_site_rules,
    other_limits,
    without_soft_rules,
    more_nodes,
    _moves,
)
