"""Nodes that die or lose their network: what is down, and that no instance runs twice."""

from __future__ import annotations

from typing import Final

import pytest
from asserting import some
from simulations import HARD, Checked, configured
from thorough import seeds

from ganeti_steward.plugins.model.world import Reported, Silent
from ganeti_steward.plugins.simulation.assumptions import DAY, HOUR, SECOND, Assumptions
from ganeti_steward.plugins.simulation.hardware import CUT_OFF, DEATH, Failure
from ganeti_steward.plugins.simulation.made_cluster import made_world
from ganeti_steward.plugins.simulation.results import Results

NODE: Final = "node0002"
#: 17 s after a poll.
AT: Final = 5 * HOUR + 17 * SECOND
#: No failure but those of the test, and no operator.
CALM: Final = Assumptions(
    days=(AT + 8 * HOUR) / DAY,
    deaths=0,
    ailments=0,
    repairable=0,
    flaps=0,
    storms=0,
    cut_offs=0,
    oob_fails=0,
    job_failures=0,
    operator_hours=10**6,
)


class Watched(Checked):
    """Looks after each event for instances that left a node on which they still run."""

    def _happen(self, at: int) -> None:
        cluster = self.cluster
        before, cut = {name: one.primary for name, one in cluster.instances.items()}, {*cluster.cut}
        super()._happen(at)
        left = {name for name, old in before.items() if cluster.instances[name].primary != old}
        assert not [name for name in left if before[name] in cut & cluster.cut]


def played(kind: str, assumed: Assumptions = CALM, **settings: object) -> Results:
    """One failure of a node with instances, for three hours where it ends by itself."""
    simulation = simulated(kind, assumed, **settings)
    return simulation.run()


def simulated(kind: str, assumed: Assumptions = CALM, **settings: object) -> Watched:
    config = configured(**{"fence": "act", "routine": ("check-disks",), **settings})
    simulation = Watched(made_world(5, 20, 1), config, assumed)
    simulation.expect(Failure(AT, NODE, kind, 0, lasts=3 * HOUR))
    return simulation


#: Instances that the node runs, as many as are moved at a time.
RUNNING: Final = len([one for one in made_world(5, 20, 1).cluster.instances if one.primary == NODE])


def hours(found: Results) -> float:
    """For which each instance of the node was down."""
    return sum(found.downtime.values()) / RUNNING


def test_the_node_runs_as_many_instances_as_move_at_once() -> None:
    assert 1 < RUNNING <= 4


@pytest.mark.parametrize(("dead_after", "known"), [(300, 300), (60, 210)])
def test_a_death_with_and_without_power_off(dead_after: float, known: float) -> None:
    """By hand: silent from a poll on, known to be dead and not linked, switched off, failed over.

    Without it the instances are down until the operator comes, which here is the end.
    """
    off, waits = (played(DEATH, fence=wanted, dead_after=dead_after) for wanted in ("act", "off"))
    polled, jobs = 43, 30
    least = known + CALM.failover_seconds
    assert least <= hours(off) * 3600 <= polled + least + jobs
    assert hours(waits) == pytest.approx(8)
    assert (off.switched_off, off.switched_off_running) == (1, 0)
    assert (waits.switched_off, waits.deaths, off.deaths) == (0, 1, 1)


def test_a_cut_off_node_that_is_switched_off_is_down_until_its_instances_run_elsewhere() -> None:
    off, waits = (played(CUT_OFF, fence=wanted) for wanted in ("act", "off"))
    assert CALM.failover_seconds <= hours(off) * 3600 <= CALM.failover_seconds + 30
    assert (off.switched_off, off.switched_off_running, off.cut_offs) == (1, 1, 1)
    assert off.moves["failover"] == RUNNING
    assert (waits.downtime, waits.switched_off, waits.cut_offs) == ({}, 0, 1)


def test_copies_that_were_not_checked_are_not_started() -> None:
    """A node that is switched off for nothing: its instances wait for the operator."""
    found = played(CUT_OFF, routine=())
    assert (found.switched_off, found.moves["failover"]) == (1, 0)
    assert 7.8 < hours(found) < 8


@pytest.mark.parametrize("kind", [DEATH, CUT_OFF])
def test_nothing_is_started_elsewhere_while_the_out_of_band_program_fails(kind: str) -> None:
    simulation = simulated(kind, CALM._replace(oob_fails=1))
    found = simulation.run()
    assert (found.switched_off, found.moves["failover"], found.run_twice) == (0, 0, ())
    assert hours(found) == pytest.approx(8 if kind == DEATH else 0)
    assert not simulation.cluster.nodes[NODE].offline
    assert some(one for one in found.brakes if one == "attempt")


def test_the_operator_leaves_a_node_alone_that_answers_again() -> None:
    """He comes when the repair has failed, which has done nothing."""
    found = played(CUT_OFF, CALM._replace(oob_fails=1, operator_hours=0.1))
    assert found.states["failed"] == 1
    assert (found.downtime, found.left) == ({}, {})


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_no_instance_ever_runs_twice(seed: int) -> None:
    """Among all other failures, with out-of-band programs that often fail."""
    assumed = HARD._replace(
        seed=seed, days=2, cut_offs=150, cut_off_hours=1, oob_fails=seed % 2 / 2, storms=0
    )
    config = configured(fence="act", routine=("check-disks",), most_nodes=2, storm_share=1)
    found = Watched(made_world(6, 18, seed), config, assumed).run()
    assert found.run_twice == ()
    assert found.cut_offs > 0
    assert found.switched_off_running <= min(found.switched_off, found.cut_offs)


def test_many_cut_off_nodes_are_switched_off() -> None:
    """What the test before sees: otherwise it would show nothing."""
    assumed = HARD._replace(days=3, cut_offs=150, oob_fails=0, ailments=0, storms=0)
    config = configured(fence="act", routine=("check-disks",), most_nodes=2, storm_share=1)
    found = Watched(made_world(6, 18, 1), config, assumed).run()
    assert found.switched_off_running > 1
    assert found.moves["failover"] > 1


def test_the_peers_of_a_node_report_its_connections() -> None:
    simulation = simulated(CUT_OFF)
    cluster, hardware = simulation.cluster, simulation.hardware
    address = {name: node.primary_ip for name, node in cluster.nodes.items()}
    assert len({*address.values()} - {""}) == 5
    pairs = {frozenset(one.nodes) for one in cluster.instances.values()}
    for cut in ((), (NODE,)):
        for name in cut:
            cluster.cut_off(name, is_cut=True)
        seen = hardware.observations()
        for name, node in cluster.nodes.items():
            found = seen[node.uuid]
            if name in cut:
                assert isinstance(found, Silent)
                assert found.gone
                continue
            assert isinstance(found, Reported)
            peers = {one for one in address if {one, name} in pairs} - {*cut, name}
            assert found.linked == tuple(sorted(address[one] for one in some(peers)))
