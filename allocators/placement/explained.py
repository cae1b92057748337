"""Explanations of placements, made only where the caller wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganeti_steward.allocators.placement.placing import Placement
    from ganeti_steward.core.model.context import Context
    from ganeti_steward.core.model.explanation import Explanation


def explained(context: Context, *placements: Placement) -> tuple[Explanation, ...]:
    """An explanation of each placement, where the call requests explanations."""
    if not context.explain:
        return ()
    from ganeti_steward.allocators.placement.explain import explain  # not on Ganeti's path

    return tuple(explain(placement) for placement in placements)
