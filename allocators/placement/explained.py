"""The outcome of placements, with explanations where the caller wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.placement.info import refusal_text, success_text
from ganeti_steward.core.model.answer import Answer, Outcome, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ganeti_steward.allocators.placement.placing import Placement
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explanation


def one_place(
    context: Context,
    placement: Placement | Refusal,
    result: Callable[[Sequence[str]], Any],
    text: Callable[[Placement], str] = success_text,
) -> Outcome:
    """The outcome of a request for one place.

    ``result``: the answer's result, from the names of the nodes; ``text``: its sentence.
    """
    if isinstance(placement, Refusal):
        return placement
    explanations = explained(context, placement)
    if placement.chosen is None:
        return Refusal(refusal_text(placement), explanations)
    return Answer(result(placement.nodes()), text(placement), explanations)


def explained(context: Context, *placements: Placement) -> tuple[Explanation, ...]:
    """An explanation of each placement, where the call requests explanations."""
    if not context.explain:
        return ()
    from ganeti_steward.allocators.placement.explain import explain  # not on Ganeti's path

    return tuple(explain(placement) for placement in placements)
