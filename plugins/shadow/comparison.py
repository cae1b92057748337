"""Comparing two answers to one request: the places of the instances, and a summary of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ganeti_steward.core.iallocator.request_type import type_of
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.requests import TYPE_NAMES, Request

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.placed import Placed
    from ganeti_steward.core.model.cluster import Cluster

#: How many instances of a request are named.
_NAMED: Final = 3


def places(answer: Answer, request: Request, cluster: Cluster) -> list[Placed]:
    """The instances where an answer puts them; its result has been checked."""
    placed = type_of(request).placed
    return placed(answer.result, request, cluster) if placed else []


def names(request: Request) -> str:
    """The instances a request is about, in one word."""
    found = type_of(request).instances(request)
    more = [f"+{len(found) - _NAMED}"] if len(found) > _NAMED else []
    return ",".join([*map(word, found[:_NAMED]), *more]) or "-"


def word(text: str) -> str:
    """A name that cannot be mistaken for more than one field of a line."""
    return text if text.isprintable() and text and " " not in text else quoted(text)


def short(outcome: Outcome | None, request: Request, cluster: Cluster) -> str:
    """An outcome in one word: ``node1/node2``, ``placed:5,failed:1``, ``refused``."""
    if outcome is None:
        return "not-mine"
    if not isinstance(outcome, Answer):
        return "refused"
    summary = type_of(request).summary
    if summary:
        return summary(outcome.result, request, cluster)
    (only,) = places(outcome, request, cluster)
    return "/".join(map(word, only.nodes))


def same(ours: Outcome, theirs: Outcome | None, request: Request, cluster: Cluster) -> bool:
    """Whether both put the same instances on the same nodes, or both refuse."""
    if not (isinstance(ours, Answer) and isinstance(theirs, Answer)):
        return theirs is not None and type(ours) is type(theirs)
    if type_of(request).placed is None:
        return short(ours, request, cluster) == short(theirs, request, cluster)
    first, second = (
        sorted((one.instance.name, one.nodes) for one in places(answer, request, cluster))
        for answer in (ours, theirs)
    )
    return first == second


def request_type(request: Request) -> str:
    """The request's type as it is on the wire."""
    return TYPE_NAMES[type(request)]
