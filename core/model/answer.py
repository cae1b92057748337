"""What an allocator returns: an answer or a refusal (None means "not handled")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.core.model.explanation import Explained

#: Node names; one node name; ``[placed, failed]`` of a batch; ``[moved, failed, jobs]`` (allocation
#: 10); or the count and the placements of ``capacity``.
Result = list[str] | str | list[list[object]] | Mapping[str, object]


class Answer(NamedTuple):
    """A placement. ``info`` is shown to the user behind "Request successful: "."""

    result: Result
    info: str
    explanations: tuple[Explained, ...] = ()


class Refusal(NamedTuple):
    """No placement. ``info`` is shown to the user behind "Request failed: "."""

    info: str
    explanations: tuple[Explained, ...] = ()
    left_out: int = 0
    """number of instances of a batch that have no place, where the others have one"""


Outcome = Answer | Refusal
