"""What a simulation has shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ganeti_steward.core.maintenance.incident import STATUSES
from ganeti_steward.core.model.opcodes import MOVES
from ganeti_steward.plugins.maintenance.simulation.assumptions import HOUR, Assumptions
from ganeti_steward.plugins.maintenance.simulation.measured import Brake, Levels, Measured

#: Parts of the time that are drawn.
SPANS: Final = 400


class Results(NamedTuple):
    """The figures of one simulation."""

    assumed: Assumptions
    nodes: int
    instances: int
    """those that are meant to run"""
    availability: float
    """share of the instances' time in which they ran"""
    downtime: Mapping[str, float]
    """cause -> hours, summed over the instances"""
    deaths: int
    """nodes that died"""
    deaths_in_use: int
    """those of them on which instances ran"""
    moves: Mapping[str, int]
    """command of gnt-instance -> moves that succeeded"""
    copied: float
    """GiB of disks"""
    failed_jobs: int
    incidents: int
    """new ones"""
    states: Mapping[str, int]
    """state -> how often an incident reached it"""
    left: Mapping[str, int]
    """status -> incidents at the end"""
    stuck: int
    """incidents without progress for longer than ``stuck-after``"""
    most_under_repair: int
    """nodes at the same time"""
    brakes: Mapping[str, Brake]
    """brake -> how much it held, most first"""
    rounds: int
    """rounds of the daemon that could decide something new"""
    faults: tuple[str, ...]
    """why rounds of the daemon failed"""
    spans: tuple[Levels, ...]
    """the highest levels in each of equal parts of the time"""

    def json(self) -> dict[str, Any]:
        """The figures as data; times in hours, shares as numbers up to 1."""
        brakes = {
            name: {"subjects": one.subjects, "hours": one.held / HOUR}
            for name, one in self.brakes.items()
        }
        return {
            **self._asdict(),
            "assumed": self.assumed._asdict(),
            "brakes": brakes,
            "spans": [one._asdict() for one in self.spans],
        }


class Spans:
    """The highest levels in each of equal parts of the time."""

    def __init__(self) -> None:
        self._found: list[Levels] = []
        self._last = Levels(0, 0, 0, 0)

    def note(self, share: float, now: Levels) -> None:
        """The levels from now on; ``share``: of the time that is over."""
        at = min(int(share * SPANS), SPANS - 1)
        self._fill(at + 1)
        self._found[at] = Levels(*map(max, self._found[at], now))
        self._last = now

    def _fill(self, length: int) -> None:
        self._found += [self._last] * (length - len(self._found))

    def all(self) -> tuple[Levels, ...]:
        """All of them, once the time is over."""
        self._fill(SPANS)
        return tuple(self._found)


def results(
    assumed: Assumptions,
    measured: Measured,
    downtime: Mapping[str, int],
    sizes: tuple[int, int],
    left: Mapping[str, int],
    spans: Spans,
) -> Results:
    """Put the figures together.

    ``downtime``: cause -> ns; ``sizes``: nodes and instances; ``left``: status -> incidents.
    """
    nodes, instances = sizes
    hours = {cause: spent / HOUR for cause, spent in sorted(downtime.items())}
    whole = instances * assumed.days * 24
    return Results(
        assumed=assumed,
        nodes=nodes,
        instances=instances,
        availability=1 - sum(hours.values()) / whole if whole else 1.0,
        downtime=hours,
        deaths=measured.deaths,
        deaths_in_use=measured.deaths_in_use,
        moves={one.command: measured.moves[kind] for kind, one in MOVES.items()},
        copied=measured.copied / 1024,
        failed_jobs=measured.failed_jobs,
        incidents=measured.incidents,
        states=dict(sorted(measured.states.items())),
        left={status: left[status] for status in STATUSES if left.get(status)},
        stuck=len(measured.stuck),
        most_under_repair=measured.most_under_repair,
        brakes=measured.brakes(),
        rounds=measured.rounds,
        faults=tuple(measured.faults),
        spans=spans.all(),
    )
