"""Draws the faults of one history: which kinds it has at all, how often, and about what.

Where every history has a little of everything, two rare kinds hardly ever meet.  So each history
has about half of the kinds, a few of them much more often, and most of its faults are about one or
two nodes: swarm testing, by Groce and others, 2012.  Each has a story of `stories` as well,
and some have nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from fault_world.drawn.stories import alone, story_faults
from fault_world.faults import Fault
from fault_world.kinds import KINDS, Kind

if TYPE_CHECKING:
    from fault_world.world import World

#: Hours in which faults happen.
_HOURS: Final = (0.15, 0.2, 0.2, 0.25, 0.3, 0.5)
#: How many times more often than their rates all faults happen.
_INTENSITY: Final = (1.0, 1.0, 2.0, 4.0)
#: The share of the histories that have a story and nothing else: in no other is it undisturbed.
_QUIET: Final = 0.3
#: The share of the kinds that a history has.
_SHARE: Final = 0.5
#: How many times more often some of them happen: as many as there are numbers.
_MORE_OFTEN: Final = (5.0, 5.0, 10.0)
#: Kinds that have an effect together only: half of the histories have all of one row, and often.
_TOGETHER: Final = (
    ("master-left-behind", "slow-calls"),
    ("master-failover", "clock-jumps", "daemon-killed"),
    ("loses-power", "noded-hangs", "tag-set", "disk-degrades"),
    ("loses-power", "agent-silent", "tag-set", "power-stays"),
    ("lost-submissions", "archived-at-once", "daemon-killed"),
    ("late-storing", "daemon-killed", "record-deleted"),
    ("late-agents", "daemon-killed", "agent-forgets", "record-deleted"),
    ("disk-degrades", "disk-fails", "resync-stalls", "watcher-runs"),
    ("records-fail", "record-restored", "record-edited"),
    ("failing-operations", "no-effect", "locks-held"),
    ("maintenance-requested", "tag-set", "master-failover", "record-restored"),
    ("record-pauses", "master-failover", "daemon-killed"),
    ("node-removed", "node-taken-back", "results-removed"),
)
_SO_OFTEN: Final = 8.0
#: Without it nothing is repaired: nearly every history has it.
_CAUSE: Final = "falls-ill"
#: The share of the faults that is about the nodes a history is about, and their instances.
_FOCUS: Final = 0.6


def drawn_hours(seed: str) -> float:
    """For how many hours faults happen."""
    needed = alone(seed)
    return needed.hours if needed else Random(f"{seed} hours").choice(_HOURS)


def drawn_faults(seed: str, hours: float, world: World) -> list[Fault]:
    """The faults of a history by their times."""
    subjects, found = _Subjects(seed, world), [*story_faults(seed, hours, world)]
    if alone(seed) or Random(f"{seed} quiet").random() < _QUIET:
        return sorted(found)
    for name, rate in _rates(Random(f"{seed} swarm")).items():
        random, at = Random(f"{seed} fault {name}"), 0.0
        while (at := at + random.expovariate(rate / 3600)) < hours * 3600:
            found.append(_fault(name, KINDS[name], round(at, 1), subjects, random))
    return sorted(found)


def _fault(name: str, kind: Kind, at: float, subjects: _Subjects, random: Random) -> Fault:
    lasts = round(random.uniform(*kind.lasts), 1)
    return Fault(at, name, subjects.draw(kind.about, random), lasts, random.choice(kind.details))


def _rates(random: Random) -> Mapping[str, float]:
    """Kind -> how many there are in an hour, on average; kinds that do not happen are left out."""
    intensity = random.choice(_INTENSITY)
    chosen = [name for name in KINDS if name != _CAUSE and random.random() < _SHARE]
    often = random.sample(chosen, min(len(_MORE_OFTEN), len(chosen)))
    more = dict(zip(often, _MORE_OFTEN, strict=False))
    rates = {name: KINDS[name].rate * intensity * more.get(name, 1.0) for name in chosen}
    if random.random() < 0.5:
        rates |= {name: KINDS[name].rate * _SO_OFTEN for name in random.choice(_TOGETHER)}
    if random.random() < 0.95:
        rates[_CAUSE] = KINDS[_CAUSE].rate * random.choice((1.0, 2.0, 4.0, 4.0))
    return rates


class _Subjects:
    """What faults are about: mostly one or two nodes, and the instances on them."""

    def __init__(self, seed: str, world: World) -> None:
        random, ganeti = Random(f"{seed} focus"), world.ganeti
        nodes = [row["name"] for row in ganeti.nodes]
        instances = [row["name"] for row in ganeti.instances]
        focus = random.sample(nodes, random.choice((0, 1, 1, 2)))
        there = {row["name"]: None for node in focus for row in ganeti.on(node)}
        self._names: dict[str, tuple[Sequence[str], Sequence[str]]] = {
            "node": (nodes, focus or nodes),
            "instance": (instances, [*there] or instances),
        }

    def draw(self, about: str, random: Random) -> str:
        """The subject of one fault; ``about``: that of its kind."""
        if not about:
            return ""
        return random.choice(self._names[about][random.random() < _FOCUS])
