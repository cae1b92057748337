"""Instances that are down though their node is up: what Ganeti's watcher does about them, in words.

The watcher starts them, and the daemon never does: two programs that start the same instance, or
one that starts what the other has given up, would be in each other's way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.plugins.model.incident import Incident
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.model.world import WATCHER_MEMORY, Starts, World
from ganeti_steward.plugins.texts import utc_time

_SECOND: Final = 10**9

#: Seconds from one run of the watcher to the next, in the line of cron that Ganeti comes with.
_INTERVAL: Final = 300
#: ns in which the watcher has certainly run.
_RUN: Final = 2 * _INTERVAL * _SECOND
#: Starts without success after which the watcher gives up (MAXTRIES).
_TRIES: Final = 5
_NONE: Final = Starts(0, 0, 0, 0)


def down_since(world: World, before: Mapping[str, int]) -> dict[str, int]:
    """`Recent.down`; ``before``: that of the round before."""
    names = (one.name for one in world.down_on_live_nodes())
    return {name: min(before.get(name, world.now), world.now) for name in names}


def down_instances(
    world: World, incidents: Mapping[str, Incident], since: Mapping[str, int]
) -> Iterator[Held]:
    """What the watcher does about each instance that has been down for long, or crashes again.

    ``world``: with what is reserved; ``incidents``: uuid -> incident as it is now; ``since``: see
    `Recent.down`.  What the daemon itself works on is left out.
    """
    repaired = {one.node for one in incidents.values() if one.state.under_repair}
    for one in world.down_on_live_nodes():
        node = world.node(one.primary)
        if node and node.uuid not in repaired and one.name not in world.reserved_instances:
            yield from _held(world, one, since[one.name])


def _held(world: World, one: Instance, since: int) -> Iterator[Held]:
    starts = world.watcher.starts.get(one.name, _NONE)
    what, values = f"{one.name} is down though {one.primary} answers", (("starts", starts.number),)
    again = starts.number >= _TRIES
    if not (again or world.now - since >= _RUN):
        return
    failed = f"; its last job, {starts.job}, failed: {starts.error}" if starts.error else ""
    if left := _left_alone(world, one):
        yield Held(one.name, "down", f"{what}: {left}", values, since)
    elif again:
        sentence = f"{what}: {_crashes(starts, world.now)}{failed}"
        yield Held(one.name, "crash-loop", sentence, values, since)
    else:
        yield Held(one.name, "down", f"{what}: {_tries(starts, world.now)}{failed}", values, since)


def _left_alone(world: World, one: Instance) -> str:
    """Why the watcher does not start an instance at all; empty: it does."""
    if world.watcher.paused > world.now:
        until = utc_time(world.watcher.paused)
        return f"ganeti-watcher, which would start it, is paused until {until}"
    if len({node.group for name in one.nodes if (node := world.node(name))}) > 1:
        return "ganeti-watcher ignores it because its nodes are in different groups"
    return ""


def _crashes(starts: Starts, now: int) -> str:
    count = f"it {starts.number} times since {utc_time(starts.first)}"
    if now - starts.last < _RUN:
        return f"ganeti-watcher has started {count}"
    hours = WATCHER_MEMORY // 3600
    return f"ganeti-watcher has given up for {hours} hours: it has started {count}"


def _tries(starts: Starts, now: int) -> str:
    if not starts.number:
        return "ganeti-watcher, which runs each 5 minutes, has not started it"
    count = f"{starts.number} times" if starts.number > 1 else "once"
    done = f"ganeti-watcher has started it {count} since {utc_time(starts.first)}"
    if now - starts.last < _RUN:
        return f"{done}; the next try is at most 5 minutes away"
    return f"{done}, and not again since {utc_time(starts.last)}"
