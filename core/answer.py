"""What an allocator may say: an answer or a refusal (None means "not mine")."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.core.explanation import Explanation

#: Node names; or ``(placed, failed)`` of a batch; or one node name (allocation 10).
Result = list[str] | str | list[list[object]]


class Answer(NamedTuple):
    """A placement. ``info`` is shown to the user behind "Request successful: "."""

    result: Result
    info: str
    explanations: tuple[Explanation, ...] = ()


class Refusal(NamedTuple):
    """No placement. ``info`` is shown to the user behind "Request failed: "."""

    info: str
    explanations: tuple[Explanation, ...] = ()


Outcome = Answer | Refusal
