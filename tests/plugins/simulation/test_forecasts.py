"""A forecast is the execution: the steps it names are those that the daemon does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest
from fault_world.checks import Checks
from fault_world.clock import SECOND
from fault_world.faults import Fault
from fault_world.ganeti import Ganeti
from fault_world.world import START, Given
from fault_world.world import World as FaultWorld
from thorough import seeds

from ganeti_steward.core.config.values import Config
from ganeti_steward.plugins.maintenance.config import ACT, Maintd, Rebalance
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.forecast.steps import Forecast
from ganeti_steward.plugins.model.task import TAG, UNTAG
from ganeti_steward.plugins.model.world import World
from ganeti_steward.plugins.simulation.forecast import CALM, forecast

#: s that a reboot takes.
REBOOT = 120
#: Node and step.
Step = tuple[str, str]


class Watching(Checks):
    """Writes down what the daemon begins, and how the world was when all was requested."""

    def __init__(self, world: FaultWorld, requests: int) -> None:
        super().__init__(world)
        self.most_nodes = world.settings.most_nodes
        self.requests, self.start = requests, None
        self.done: list[Step] = []
        self.ends: dict[str, str] = {}

    start: World | None

    def round(self, daemon: Any, outcome: Round) -> None:
        super().round(daemon, outcome)
        world = outcome.world
        if world and self.start is None and len(world.incidents) == self.requests:
            self.start = world
        for one in outcome.started:
            if one.task.step not in (TAG, UNTAG):
                name = outcome.incidents[one.incident].node_name
                self.done.append((name, one.task.step))
        for change in outcome.changes:
            if change.after and not change.after.active:
                self.ends.setdefault(change.after.node_name, change.after.status)


class Quick(FaultWorld):
    """Each reboot takes the same time."""

    def reboot(self, node: str) -> None:
        self.ganeti.power_off(node)
        self.clock.after(REBOOT, partial(self.ganeti.power_on, node))


def drawn(seed: int) -> tuple[Ganeti, Config, Iterator[Fault]]:
    """A cluster, a configuration, and the maintenance of some nodes."""
    random = Random(f"forecast {seed}")
    nodes = [f"node{number}" for number in range(1, random.randint(4, 7))]
    ganeti = Ganeti(nodes)
    for number in range(random.randint(2, 12)):
        ganeti.draw_instance(f"inst{number}", random)
    ganeti.promote()
    settings = Maintd(
        mode=ACT,
        most_nodes=random.randint(1, 2),
        moves_at_once=random.randint(1, 4),
        blocked_limit=random.choice((60, 600)),
    )
    config = Config(sections={"maintd": settings, "rebalance": Rebalance()})
    choice = random.choice(("refuse", "stop", "move"))
    # Where copies of two nodes at once find places depends on which comes first.
    full = random.choice(("", ",full")) if settings.most_nodes == 1 else ""
    detail = f"{choice},command:reboot{full}"
    chosen = random.sample(nodes[1:], random.randint(1, len(nodes) - 1))
    return ganeti, config, (Fault(1, "maintenance-requested", name, 60, detail) for name in chosen)


def played(seed: int) -> tuple[Watching, Forecast]:
    """What the daemon does in the world of the histories, and what was forecast."""
    ganeti, config, faults = drawn(seed)
    requests = [*faults]
    world = Quick(f"forecast {seed}", given=Given(ganeti, config))
    world.checks = watching = Watching(world, len(requests))
    world.faults.of_command = lambda: "succeed"  # type: ignore[method-assign]
    try:
        for fault in requests:
            world.clock.after(fault.at, partial(world.happen, fault))
        world.run_until(START + 8 * 3600 * SECOND)
    finally:
        world.end()
    assert watching.broken is None
    assert watching.start is not None
    start = watching.start
    assumed = CALM._replace(reboot_minutes=REBOOT / 60)
    return watching, forecast(start, config, assumed, start.incidents.values())


@pytest.mark.parametrize("seed", seeds(8, 200))
def test_a_forecast_names_the_steps_that_are_done(seed: int) -> None:
    """Where two nodes are away at once, their order depends on how long jobs take."""
    watching, found = played(seed)
    ends = {one.node: one.state for one in found.outcomes if one.at}
    assert ends == watching.ends
    steps = [(one.node, one.step) for one in found.steps]
    if watching.most_nodes == 1:
        assert steps == watching.done
    assert {name for name, _ in steps} == {name for name, _ in watching.done}
