"""Plays a scenario."""

from __future__ import annotations

from functools import partial
from typing import Final

from fault_world.clock import SECOND
from fault_world.faults import Fault
from fault_world.ganeti import POOL, Ganeti
from fault_world.scenarios.events import EVENTS
from fault_world.scenarios.narrating import NarratingChecks, readable, state_at_end
from fault_world.scenarios.scenario import Scenario
from fault_world.world import START, Given, World

#: Seconds of an event's duration that are not shown: it lasts for the whole scenario.
_ALWAYS: Final = 10.0**7


def narrative(scenario: Scenario) -> tuple[str, ...]:
    """What happens, line by line."""
    lines: list[str] = []
    world = World(scenario.seed, lines.append, Given(_ganeti(scenario), scenario.config))
    world.checks = NarratingChecks(world)
    try:
        for fault in scenario.events:
            world.clock.after(fault.at, partial(_happen, world, fault))
        world.run_until(START + int(scenario.until * SECOND))
        lines += state_at_end(world, candidates=scenario.candidates is not None)
    finally:
        world.end()
    return readable(lines, _names(world))


def _ganeti(scenario: Scenario) -> Ganeti:
    ganeti = Ganeti([one.name for one in scenario.nodes], scenario.candidates or POOL)
    for node in scenario.nodes:
        row = ganeti.node(node.name)
        row.update(dict.fromkeys(node.flags, True), tags=[*node.tags])
        if node.flags:
            row["master_candidate"] = False
    ganeti.promote()
    for volume in scenario.volumes:
        ganeti.storage.add(*volume)
    for one in scenario.instances:
        sizes = [] if one.template == "diskless" else [one.disk]
        ganeti.add_instance(one.name, one.template, one.nodes, sizes, memory=one.memory, up=one.up)
        ganeti.instance(one.name)["tags"] += one.tags
    return ganeti


def _happen(world: World, fault: Fault) -> None:
    kind = EVENTS[fault.kind]
    words = [fault.kind, fault.subject, fault.detail]
    words += [f"for {fault.lasts:g} s"] if kind.lasts and fault.lasts < _ALWAYS else []
    world.narrate(f"* {' '.join(word for word in words if word)}")
    gone = kind.about and not _is_there(world, fault.subject)
    if gone:
        world.narrate(f"  {fault.subject} is not there any more")
    else:
        kind.event(world, fault)


def _is_there(world: World, name: str) -> bool:
    return any(row["name"] == name for row in (*world.ganeti.nodes, *world.ganeti.instances))


def _names(world: World) -> dict[str, str]:
    rows = [*world.ganeti.nodes, *world.ganeti.instances, *world.ganeti.groups]
    return {row["uuid"][:8]: row["name"] for row in rows}
