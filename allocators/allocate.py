"""Request type ``allocate``: one new instance (allocation 6 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti_steward.allocators.load import load
from ganeti_steward.allocators.placing import Placer
from ganeti_steward.allocators.reasons import explained, refusal_text, success_text
from ganeti_steward.core.answer import Answer, Outcome, Refusal

if TYPE_CHECKING:
    from ganeti_steward.core.context import Context
    from ganeti_steward.core.model import Cluster
    from ganeti_steward.core.request import Allocate


def allocate(request: Allocate, cluster: Cluster, context: Context) -> Outcome:
    """Answer with the best legal place, or with the reasons why there is none."""
    state = load(cluster, request.instance.template, context.options.kvm_memory)
    placer = Placer(state, context)
    placement = placer.place(state, request, request.group_name, placer.terms(request))
    told = explained(context, placement)
    if placement.chosen is None:
        return Refusal(refusal_text(placement), told)
    return Answer(list(placement.nodes()), success_text(placement), told)
