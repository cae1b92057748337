"""What the program has to know of a request type; each type describes itself in one module.

The module of a type has its name and lies in `ganeti_steward.core.iallocator.request_types`;
only that of the request at hand is imported.  The value of a type, its name and its hook are
in `ganeti_steward.core.model.requests`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.model.requests import TYPE_NAMES

if TYPE_CHECKING:
    from ganeti_steward.core.iallocator.placed import Placed
    from ganeti_steward.core.json_reader import Section
    from ganeti_steward.core.model.cluster import Cluster
    from ganeti_steward.core.model.requests import Request

_PACKAGE: Final = "ganeti_steward.core.iallocator.request_types"


class RequestType:
    """How requests of one type are read, and their results checked and summed up.

    The functions get values of their own type; a result they get was accepted by ``is_result``.
    A plain class: making it takes a tenth of the time of a NamedTuple, in every allocation.
    """

    __slots__ = ("instances", "is_result", "leaves_out", "placed", "read", "summary")

    read: Final[Callable[[Section, Section, Cluster], Request]]
    """from the request's section and the message's; faults are noted in the section"""
    is_result: Final[Callable[[Any, Any, Cluster], bool]]
    """whether a result has the right shape and names what exists (allocation 10); result, request,
    cluster.  Raises AttributeError, KeyError, TypeError or ValueError for other shapes"""
    instances: Final[Callable[[Any], Sequence[str]]]
    """the names of the instances a request is about"""
    placed: Final[Callable[[Any, Any, Cluster], list[Placed]] | None]
    """the instances where a result puts them; result, request, cluster.  None: it only counts"""
    summary: Final[Callable[[Any, Any, Cluster], str] | None]
    """a result in one word; None: the nodes of the one instance it places"""
    leaves_out: Final[bool]
    """whether the second list of a result names instances without a place (allocation 10)"""

    def __init__(
        self,
        *,
        read: Callable[[Section, Section, Cluster], Request],
        is_result: Callable[[Any, Any, Cluster], bool],
        instances: Callable[[Any], Sequence[str]],
        placed: Callable[[Any, Any, Cluster], list[Placed]] | None,
        summary: Callable[[Any, Any, Cluster], str] | None = None,
        leaves_out: bool = False,
    ) -> None:
        self.read, self.is_result, self.instances = read, is_result, instances
        self.placed, self.summary, self.leaves_out = placed, summary, leaves_out


def request_type(name: str) -> RequestType:
    """The description of a type, by its name on the wire."""
    found: RequestType = import_module(f"{_PACKAGE}.{name.replace('-', '_')}").TYPE
    return found


def type_of(request: Request) -> RequestType:
    """The description of a request's type."""
    return request_type(TYPE_NAMES[type(request)])
