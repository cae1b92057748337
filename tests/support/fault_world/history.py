"""Plays histories: faults from a seed, then calm, until every incident has ended."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from fault_world.checks import Broken
from fault_world.clock import SECOND
from fault_world.drawn.swarm import drawn_faults, drawn_hours
from fault_world.faults import Fault
from fault_world.world import START, World

#: Hours of calm until every incident has to have ended.
_CALM: Final = 6.0
#: Seconds between looks whether they have, and until nothing may be left.
_LOOK: Final = 60
_REST: Final = 240


class Played(NamedTuple):
    """One history."""

    seed: str
    rounds: int
    faults: tuple[Fault, ...]
    narrative: tuple[str, ...]
    broken: Broken | None
    """the first invariant that did not hold"""


def only_play() -> None:
    """Prepare a process that does nothing but to play histories: nothing is logged."""
    logging.disable(logging.CRITICAL)
    # What was imported is no garbage; what a history leaves is collected in few passes.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def play(seed: str, faults: Sequence[Fault] | None = None) -> Played:
    """Play one history; ``faults``: None: those of the seed."""
    narrative: list[str] = []
    world, hours = World(seed, narrative.append), drawn_hours(seed)
    try:
        found = drawn_faults(seed, hours, world) if faults is None else faults
        for fault in found:
            world.clock.after(fault.at, partial(world.happen, fault))
        world.run_until(START + int(hours * 3600 * SECOND))
        if not world.checks.broken:
            world.calm()
            _end(world)
    finally:
        world.end()
    return Played(seed, world.rounds, tuple(found), tuple(narrative), world.checks.broken)


def _end(world: World) -> None:
    """Until every incident has ended, or waits for a person."""
    last = world.clock.now + int(_CALM * 3600 * SECOND)
    while not world.checks.broken:
        world.run_until(world.clock.now + _LOOK * SECOND)
        open_ = [one for one in world.checks.incidents.values() if one.active]
        if not open_:
            _rest(world)
            return
        if world.clock.now > last:
            text = ", ".join(f"{one.uuid} ({one.status}: {one.note})" for one in open_)
            world.checks.require("ends", False, text)


def _rest(world: World) -> None:
    """Some more rounds, and then nothing may be left."""
    world.checks.rest()
    world.run_until(world.clock.now + _REST * SECOND)
    if not any(one.active for one in world.checks.incidents.values()):
        world.checks.end()
