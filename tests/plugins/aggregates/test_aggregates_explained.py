"""Why a node is refused, told for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from message_tags import RESERVING, ask_for, put

from ganeti_steward.core.answer import Answer

if TYPE_CHECKING:
    from sites import Capture, Site


def test_explained(site: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    message["cluster_tags"].extend(RESERVING)
    put(message, "reservation:r1", "node1.lab")
    put(message, "old", "node4.lab")
    ask_for(message, "steward:member-of:not:old", "steward:member-of.secondary:not:new")
    outcome = site.ask(message, explain=True)
    assert isinstance(outcome, Answer)
    explanation: Any = outcome.explanations[0]
    told = {(v.node, v.role): v for group in explanation.groups for v in group.nodes}
    assert (told["node1.lab", "primary"].rule, told["node1.lab", "primary"].reason) == (
        "reserved (reservation:*)",
        "it is in aggregate reservation:r1; an instance must ask for one of reservation:*",
    )
    assert told["node4.lab", "secondary"].reason == "it is in aggregate old, which is forbidden"
