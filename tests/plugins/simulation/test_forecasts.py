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
from worlds import instance, node, world

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.config.values import Config
from ganeti_steward.plugins.maintenance.config import ACT, OBSERVE, Maintd, Rebalance
from ganeti_steward.plugins.maintenance.daemon.parts import Round
from ganeti_steward.plugins.maintenance.forecast.steps import Forecast
from ganeti_steward.plugins.model.incident import Maintenance
from ganeti_steward.plugins.model.task import TAG, UNTAG
from ganeti_steward.plugins.model.works import requested
from ganeti_steward.plugins.model.world import Observation, Reported, Silent, World
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


def evacuated(status: str, template: str = "drbd", **settings: Any) -> Forecast:
    """What is done about a node that reports a status, or is dead."""
    found = world(
        [node(f"node{number}.lab", master=number == 1) for number in (1, 2, 3, 4)],
        [
            instance("inst1.lab", "node2.lab", "node3.lab"),
            instance("inst2.lab", "node2.lab", template=template),
        ],
    )
    uuid = found.cluster.node("node2.lab").uuid
    seen: Observation = Silent(found.now, "nothing answers", gone=True)
    if status:
        seen = Reported(canonical({"status": status, "details": "x"}), status, "", found.now)
    config = Config(sections={"maintd": Maintd(mode=OBSERVE, **settings), "rebalance": Rebalance()})
    return forecast(found._replace(observations={uuid: seen}), config, CALM, ())


def test_an_evacuation_to_its_end() -> None:
    """Though the mode is observe."""
    found = evacuated("evacuate", "diskless")
    assert [one.step for one in found.steps] == ["drain", "move", "move", "final-role"]
    assert [move.words for one in found.steps for move in one.moves] == [
        "inst2.lab:migrate:node4.lab",
        "inst1.lab:migrate:node3.lab",
        "inst1.lab:replace-disks:node1.lab",
    ]
    (end,) = found.outcomes
    assert (end.node, end.state, end.at) == ("node2.lab", "completed", found.end)


def test_what_cannot_leave_is_named_before_anything_begins() -> None:
    (end,) = evacuated("evacuate", "plain").outcomes
    assert end.state == "failed"
    assert "inst2.lab" in end.reason


def test_a_request_that_would_be_late_does_not_begin() -> None:
    """The forecast says so, and all others end."""
    nodes = [node(f"node{number}.lab", master=number == 1) for number in (1, 2, 3, 4)]
    found = world(nodes, [instance("inst1.lab", "node2.lab", "node3.lab")])
    incidents = [
        requested(
            found.cluster.node(f"node{number}.lab"),
            Maintenance("refuse", deadline=found.now + left * SECOND, expected=900),
            found.now + number,
            f"uuid-{number}",
            "",
        )
        for number, left in ((2, 1200), (3, 1200), (4, 3600))
    ]
    config = Config(sections={"maintd": Maintd(), "rebalance": Rebalance()})
    played = forecast(found, config, CALM, incidents)
    ends = {
        one.node: (one.state, "would end after its deadline" in one.reason)
        for one in played.outcomes
    }
    assert ends == {
        "node2.lab": ("completed", False),
        "node3.lab": ("noted", True),
        "node4.lab": ("completed", False),
    }
    assert {one.node for one in played.steps} == {"node2.lab", "node4.lab"}
    assert played.end == 0
    own = played.of_nodes({"node2.lab"})
    assert {one.node for one in (*own.steps, *own.outcomes)} == {"node2.lab"}
    assert own.seconds == {"node2.lab": (own.end - own.steps[0].begun) // SECOND}


def test_a_dead_node() -> None:
    """It waits for a person, or is switched off where that is configured."""
    (end,) = evacuated("", "diskless", dead_after=60).outcomes
    assert (end.at, end.node) == (0, "node2.lab")
    assert "gnt-node power status node2.lab" in end.reason
    found = evacuated("", "diskless", dead_after=60, fence="act", failover_unsynced=True)
    assert [one.step for one in found.steps][:2] == ["power-off", "final-role"]
    assert [one.state for one in found.outcomes] == ["completed"]
