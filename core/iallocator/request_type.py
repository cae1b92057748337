"""What the program has to know of a request type; each type describes itself in one module.

The module of a type has its name and lies in `ganeti_steward.core.iallocator.request_types`;
only that of the request at hand is imported.  The value of a type, its name and its hook are
in `ganeti_steward.core.model.requests`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganeti_steward.core.model.requests import TYPE_NAMES

if TYPE_CHECKING:
    from ganeti_steward.core.json_reader import Section
    from ganeti_steward.core.model.cluster import Cluster, Instance
    from ganeti_steward.core.model.requests import Request

_PACKAGE: Final = "ganeti_steward.core.iallocator.request_types"


class Placed(NamedTuple):
    """An instance where an answer puts it."""

    instance: Instance
    nodes: tuple[str, ...]
    """primary first"""


class RequestType(NamedTuple):
    """How requests of one type are read, and their results checked and summed up.

    The functions get values of their own type; a result they get was accepted by ``is_result``.
    """

    read: Callable[[Section, Section, Cluster], Request]
    """from the request's section and the message's; faults are noted in the section"""
    is_result: Callable[[Any, Any, Cluster], bool]
    """whether a result has the right shape and names what exists (allocation 10); result, request,
    cluster.  Raises AttributeError, KeyError, TypeError or ValueError for other shapes"""
    instances: Callable[[Any], Sequence[str]]
    """the names of the instances a request is about"""
    placed: Callable[[Any, Any, Cluster], list[Placed]] | None
    """the instances where a result puts them; result, request, cluster.  None: it only counts"""
    summary: Callable[[Any, Any, Cluster], str] | None = None
    """a result in one word; None: the nodes of the one instance it places"""
    all_or_nothing: bool = False
    """whether Ganeti moves no instance when the result names one as failed (allocation 10)"""


def request_type(name: str) -> RequestType:
    """The description of a type, by its name on the wire."""
    found: RequestType = import_module(f"{_PACKAGE}.{name.replace('-', '_')}").TYPE
    return found


def type_of(request: Request) -> RequestType:
    """The description of a request's type."""
    return request_type(TYPE_NAMES[type(request)])
