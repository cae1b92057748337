"""Small simulations, and what must hold after each round of the daemon in them."""

from __future__ import annotations

from random import Random
from typing import Any

from ganeti_steward.allocators.jobs.operations import nodes_after
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.model.opcodes import MOVES, REMOVE_TAGS, REPLACE_DISKS, SET_TAGS
from ganeti_steward.plugins.maintenance.config import ACT, OBSERVE, Maintd
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.engine.brake_case import is_under_repair
from ganeti_steward.plugins.maintenance.engine.decision import Started
from ganeti_steward.plugins.maintenance.engine.reservations import avoided_nodes
from ganeti_steward.plugins.model.incident import CANCELED, FAILED
from ganeti_steward.plugins.model.task import FINAL_ROLE, MOVE, TAG, UNTAG
from ganeti_steward.plugins.model.world import World
from ganeti_steward.plugins.simulation.assumptions import Assumptions
from ganeti_steward.plugins.simulation.made_cluster import made_world
from ganeti_steward.plugins.simulation.run import Simulation

#: A year of failures in some days.
HARD = Assumptions(
    days=3,
    deaths=4,
    ailments=30,
    ailing_hours=12,
    repairable=30,
    flaps=20,
    storms=30,
    cut_offs=20,
    operator_hours=3,
    repair_hours=5,
    job_failures=0.03,
)


def configured(**settings: Any) -> Config:
    return Config(sections={"maintd": Maintd(**{"mode": ACT, **settings})})


def drawn_case(seed: int) -> Simulation:
    """A cluster and a configuration that depend on the seed."""
    random = Random(seed)
    nodes = random.randint(3, 9)
    settings = {
        "mode": random.choice([ACT] * 9 + [OBSERVE]),
        "most_nodes": random.randint(1, 3),
        "storm_share": random.choice([0.2, 0.5, 1.0]),
        "hold_time": random.choice([0, 300, 3600]),
        "healthy_delay": random.choice([0, 900, 7200]),
        "moves_at_once": random.randint(1, 5),
        "moves_in_cluster": random.choice([0, 0, 2]),
        "windows": random.choice([(), (), ("22:00-06:00",), ("Mon-Thu 08:00-12:00",)]),
        "final_role": random.choice(["offline", "drained"]),
        "fence": random.choice(["off", "act"]),
        "routine": random.choice([(), ("check-disks",)]),
        "dead_after": random.choice([0, 60, 300]),
    }
    start = made_world(nodes, nodes * random.randint(1, 6), seed)
    return Checked(start, configured(**settings), HARD._replace(seed=seed))


class Checked(Simulation):
    """Fails where the daemon does what it never may."""

    def __init__(self, start: World, config: Config, assumed: Assumptions) -> None:
        super().__init__(start, config, assumed)
        self.config = config.section(Maintd)
        self.observers.append(self.check)
        self.submissions = set[str]()
        self.ended = set[str]()
        """uuids of incidents that were canceled or have failed"""

    def check(self, outcome: Round) -> None:
        assert not outcome.fault
        assert outcome.world is not None
        assert not self.cluster.run_twice
        under_repair = [one for one in outcome.incidents.values() if is_under_repair(one)]
        for planned in (False, True):
            nodes = {one.node for one in under_repair if bool(one.maintenance) == planned}
            assert len(nodes) <= self.config.most_nodes
        started = [one for one in outcome.started if one.task.step not in (TAG, UNTAG)]
        assert not ((started or outcome.routine) and self.config.mode == OBSERVE)
        self._check_reservations(outcome)
        for one in started:
            assert one.incident not in self.ended, "an action for a canceled or failed incident"
            self._check_task(one, outcome.world._replace(incidents=outcome.incidents))
        decided = outcome.decision.records if outcome.decision else ()
        self.ended |= {one.uuid for one in decided if one.status in (CANCELED, FAILED)}
        self._check_books()

    def _check_reservations(self, outcome: Round) -> None:
        new = {one.submission for one in outcome.started}
        assert not new & self.submissions, "submitted twice"
        self.submissions |= new
        used = {
            name
            for incident in outcome.incidents.values()
            for each in incident.open
            if each.id not in new
            for name in (*each.nodes, *each.instances)
        }
        for one in outcome.started:
            names = one.task.nodes | one.task.instances
            assert not names & used, "a node or an instance is used twice"
            used |= names

    def _check_task(self, started: Started, world: World) -> None:
        node = world.nodes[world.incidents[started.incident].node].name
        if started.task.step == FINAL_ROLE:
            assert not (list(world.instances_on(node)) and self.cluster.alive(node))
        if started.task.step != MOVE:
            return
        barred = {*avoided_nodes(world), *(one.name for one in world.cluster.nodes if not one.live)}
        for job in started.task.jobs:
            moves = [one for one in job if one["OP_ID"] not in (SET_TAGS, REMOVE_TAGS)]
            before = nodes = world.instances[moves[0]["instance_name"]].nodes
            for operation in moves:
                assert operation["OP_ID"] in MOVES
                nodes = nodes_after(nodes, operation)
            assert node in before
            # For a reboot the copy stays, and where it has no other place, which is reported; on a
            # node that is off it is replaced once all instances run.
            kept = (
                world.incidents[started.incident].maintenance
                or "one copy" in started.task.reason
                or not self.cluster.alive(node)
            )
            copied = any(operation["OP_ID"] == REPLACE_DISKS for operation in moves)
            assert node not in (nodes[:1] if kept and not copied else nodes)
            assert not (set(nodes) - set(before)) & barred
            assert nodes[0] == before[0] or nodes[0] not in barred

    def _check_books(self) -> None:
        """What is free is what the instances leave, and no disk is full beyond its size."""
        cluster = self.cluster.cluster
        taken = dict.fromkeys(self.cluster.nodes, 0)
        for one in cluster.instances:
            assert len(set(one.nodes)) == 2
            assert self.cluster.instances[one.name].nodes == one.nodes
            for name in one.nodes:
                taken[name] += one.disk_space
        for node in cluster.nodes:
            if node.live:
                assert node.free_disk == node.total_disk - taken[node.name]
                assert node.free_disk >= 0
