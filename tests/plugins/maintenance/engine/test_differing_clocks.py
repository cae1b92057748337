"""The clocks of nodes that differ from the master's are named, and nothing is done about them."""

from __future__ import annotations

from typing import Final

import pytest
from small_repair import plan
from worlds import NOW, node, world

from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.decision import Decision, Inputs
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.model.world import Observation, Refused, Reported, Silent

NODES: Final = [node("n1", master=True), node("n2"), node("n3"), node("n4")]


def decided(limit: float = 30, **seen: Observation) -> Decision:
    return step(
        Inputs(world(NODES, observations=seen)), Maintd(mode="act", clock_limit=limit), plan
    )


def reports(ahead: int | None) -> Reported:
    return Reported(b'{"status":"Ok"}', "Ok", "", NOW, ahead=ahead)


def named(decision: Decision) -> dict[str, str]:
    return {one.subject: one.sentence for one in decision.held if one.brake == "clock"}


def test_the_clocks_that_differ() -> None:
    found = decided(n1=reports(0), n2=reports(31), n3=reports(-86400), n4=reports(30))
    assert named(found) == {
        "n2": "the clock of n2 is 31 s ahead of this node's: Ganeti takes 150 s at most",
        "n3": "the clock of n3 is 86400 s behind this node's: Ganeti takes 150 s at most",
    }
    assert not found.started
    assert not found.records


@pytest.mark.parametrize(
    "seen", [reports(None), Silent(NOW, "no answer"), Refused(NOW, "from the future")]
)
def test_a_clock_that_is_not_known(seen: Observation) -> None:
    assert named(decided(n2=seen)) == {}


def test_without_a_limit() -> None:
    assert named(decided(0, n2=reports(100))) == {}
