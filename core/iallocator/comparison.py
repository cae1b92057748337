"""Two answers to one request, side by side: who would go where, and in how many words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.core.json_reader import quoted
from ganeti_steward.core.model.answer import Answer, Outcome
from ganeti_steward.core.model.requests import (
    TYPE_NAMES,
    Allocate,
    AllocateSecondary,
    Capacity,
    MultiAllocate,
    Relocate,
    Request,
)

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance

#: How many instances of a request are named.
_NAMED: Final = 3


class Settled(NamedTuple):
    """An instance where an answer puts it."""

    instance: Instance
    nodes: tuple[str, ...]
    """primary first"""


def settled(result: Any, request: Request, cluster: Cluster) -> list[Settled]:
    """Who lives where after an answer; the result has been checked.  Nobody for ``capacity``."""
    if isinstance(request, Capacity):
        return []
    if isinstance(request, Allocate):
        return [Settled(request.instance, tuple(result))]
    if isinstance(request, MultiAllocate):
        bodies = {(i.instance.name, i.required_nodes): i.instance for i in request.items}
        return [Settled(bodies[name, len(nodes)], tuple(nodes)) for name, nodes in result[0]]
    if isinstance(request, Relocate | AllocateSecondary):
        instance = cluster.instances[cluster.instance_index[request.name]]
        if isinstance(request, AllocateSecondary):
            return [Settled(instance._replace(template="drbd"), (*instance.nodes[:1], result))]
        kept = tuple(node for node in instance.nodes if node not in request.relocate_from)
        return [Settled(instance, (*kept, *result))]
    moved = {name: tuple(nodes) for name, _, nodes in result[0]}
    return [
        Settled(cluster.instances[cluster.instance_index[name]], nodes)
        for name, nodes in moved.items()
    ]


def names(request: Request) -> str:
    """The instances a request is about, in one word."""
    if isinstance(request, Allocate):
        found: Sequence[str] = (request.instance.name,)
    elif isinstance(request, Capacity):
        found = (request.item.instance.name,)
    elif isinstance(request, MultiAllocate):
        found = [item.instance.name for item in request.items]
    elif isinstance(request, Relocate | AllocateSecondary):
        found = (request.name,)
    else:
        found = getattr(request, "instances", ())
    more = [f"+{len(found) - _NAMED}"] if len(found) > _NAMED else []
    return ",".join([*map(word, found[:_NAMED]), *more]) or "-"


def word(text: str) -> str:
    """A name that cannot be mistaken for more than one field of a line."""
    return text if text.isprintable() and text and " " not in text else quoted(text)


def short(outcome: Outcome | None, request: Request, cluster: Cluster) -> str:
    """What an answer comes to, in one word: ``node1/node2``, ``placed:5,failed:1``, ``refused``."""
    if outcome is None:
        return "not-mine"
    if not isinstance(outcome, Answer):
        return "refused"
    result: Any = outcome.result
    if isinstance(request, Capacity):
        return f"count:{result['count']}"
    if isinstance(request, Allocate | Relocate | AllocateSecondary):
        (only,) = settled(result, request, cluster)
        return "/".join(map(word, only.nodes))
    verb = "placed" if isinstance(request, MultiAllocate) else "moved"
    return f"{verb}:{len(result[0])},failed:{len(result[1])}"


def same(ours: Outcome, theirs: Outcome | None, request: Request, cluster: Cluster) -> bool:
    """Whether both put the same instances on the same nodes, or both refuse."""
    if not (isinstance(ours, Answer) and isinstance(theirs, Answer)):
        return theirs is not None and type(ours) is type(theirs)
    if isinstance(request, Capacity):
        return short(ours, request, cluster) == short(theirs, request, cluster)
    places = [
        sorted((one.instance.name, one.nodes) for one in settled(answer.result, request, cluster))
        for answer in (ours, theirs)
    ]
    return places[0] == places[1]


def request_type(request: Request) -> str:
    """The request's type as it is on the wire."""
    return TYPE_NAMES[type(request)]
