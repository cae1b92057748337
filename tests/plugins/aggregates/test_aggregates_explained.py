"""Why a node is refused, for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from message_tags import RESERVING, ask_for, group_tag, put

from ganeti_steward.core.model.answer import Answer

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
    verdicts = {(v.node, v.role): v for group in explanation.groups for v in group.nodes}
    assert (verdicts["node1.lab", "primary"].rule, verdicts["node1.lab", "primary"].reason) == (
        "reserved (reservation:*)",
        "it is in aggregate reservation:r1; an instance must request one of reservation:*",
    )
    assert verdicts["node4.lab", "secondary"].reason == "it is in aggregate old, which is forbidden"


@pytest.mark.parametrize("tags", [("steward:member-of:not:zone2",), ()])
def test_whose_aggregate_it_is(site: Site, capture: Capture, tags: tuple[str, ...]) -> None:
    """A node is refused for what its group is in; that is not called the node's."""
    message = capture("allocate-diskless")
    message["cluster_tags"].append("steward:default-forbidden-prefix:zone")
    group_tag(message, "rack2", "steward:aggregate:zone2")
    put(message, "zone2", "node1.lab")
    ask_for(message, *tags)
    explanation: Any = site.ask(message, explain=True).explanations[0]
    verdicts = {v.node: v.reason for group in explanation.groups for v in group.nodes}
    ending = (
        "in aggregate zone2, which is forbidden"
        if tags
        else "in aggregate zone2; an instance must request one of zone*"
    )
    assert verdicts["node4.lab"] == f"its group is {ending}"
    assert verdicts["node1.lab"] == f"it is {ending}"
