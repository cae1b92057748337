"""Planned reboots of all nodes in simulations, alone and beside failures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from simulations import HARD, Checked, configured
from thorough import seeds

from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.simulation.assumptions import Assumptions
from ganeti_steward.plugins.simulation.cluster import REBOOT
from ganeti_steward.plugins.simulation.made_cluster import made_world

if TYPE_CHECKING:
    from front import Front

CALM = Assumptions(
    days=3, deaths=0, ailments=0, repairable=0, flaps=0, storms=0, job_failures=0, roll_days=2
)


class Rolling(Checked):
    """Fails where a node is rebooted that runs something, or of whose instances the others are."""

    def check(self, outcome: Round) -> None:
        super().check(outcome)
        away = self.cluster.rebooted
        for one in self.cluster.instances.values():
            assert len(away.intersection(one.nodes)) < 2
            assert one.primary not in away
        assert not any(node.master and node.name in away for node in self.cluster.nodes.values())


def test_a_roll_is_not_noticed() -> None:
    simulation = Rolling(made_world(5, 20, 1), configured(), CALM)
    before = {name: one.primary for name, one in simulation.cluster.instances.items()}
    found = simulation.run()
    assert found.rolls == (1, 0, 0, 5, 0, 0, 0, 5, found.rolls.longest)
    assert 1 < found.rolls.longest < 24
    assert found.moves["migrate"] == 2 * len(before)
    assert (found.availability, found.downtime, found.copied) == (1, {}, 0)
    assert (found.incidents, found.states, found.left) == (0, {}, {})
    assert {name: one.primary for name, one in simulation.cluster.instances.items()} == before
    assert not any(node.drained for node in simulation.cluster.nodes.values())


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_rolls_beside_failures(seed: int) -> None:
    assumed = HARD._replace(seed=seed, roll_days=0.5, repairable=60)
    config = configured(most_nodes=1 + seed % 2, storm_share=1)
    found = Rolling(made_world(6, 18, seed), config, assumed).run()
    rolls = found.rolls
    assert not found.faults
    assert rolls.done or rolls.open
    assert REBOOT not in found.downtime
    assert rolls.rolls + rolls.skipped == 5
    ended = rolls.done + rolls.failed + rolls.canceled + rolls.open
    assert ended + rolls.left_out == 6 * rolls.rolls


def test_nodes_that_come_back_too_late() -> None:
    assumed = CALM._replace(reboot_minutes=60, days=30, roll_days=1, operator_hours=5)
    found = Rolling(made_world(3, 6, 1), configured(), assumed).run()
    assert found.rolls.failed
    assert not found.rolls.done
    assert found.rolls.skipped
    assert found.rolls.longest > 24


def test_the_figures(front: Front) -> None:
    arguments = (
        "simulate", "--act", "--nodes", "4", "--instances", "8", "--days", "3", "--roll-days", "2",
    )  # fmt: skip
    done = front(*arguments, "--seed", "3")
    assert (done.status, done.err) == (0, "")
    assert "\nrolls                1; the longest took " in done.out
    assert "\nnodes of rolls       4 done; 4 reboots\n" in done.out
    found = json.loads(front(*arguments, "--seed", "3", "--json").out)
    assert (found["rolls"]["done"], found["assumed"]["roll_days"]) == (4, 2)
    assert "rolls" not in front(*arguments[:-2]).out
