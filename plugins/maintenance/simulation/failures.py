"""Which hardware fails when: drawn for each node by itself, whatever the daemon does.

So two simulations with one seed and different configurations meet the same failures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

from ganeti_steward.core.model.finding import EVACUATE, EVACUATE_FAILOVER, LIVE_REPAIR
from ganeti_steward.plugins.maintenance.simulation.assumptions import (
    DAY,
    HOUR,
    YEAR,
    Assumptions,
)

DEATH: Final = "death"
AILMENT: Final = "ailment"
REPAIRABLE: Final = "repairable"
FLAP: Final = "flap"
STORM: Final = "storm"

#: Of the ailments, those that allow no migration.
_NO_MIGRATION: Final = 0.3
#: h that a flap and a storm last.
_LASTS: Final = 3


class Failure(NamedTuple):
    """Something that happens to a node."""

    at: int
    """ns after the start"""
    node: str
    """name"""
    kind: str
    number: int
    """distinguishes the failures of a node"""
    status: str = ""
    """what the node reports; empty: nothing"""
    lasts: int = 0
    """ns until it dies of an ailment, or until a flap or storm is over"""
    period: int = 0
    """ns from one change of a flapping report to the next"""


def drawn(nodes: Sequence[str], assumed: Assumptions) -> list[Failure]:
    """All failures of a simulation by their times; ``nodes``: names."""
    found = [one for node in nodes for one in _of_node(node, assumed)]
    return sorted([*found, *_storms(nodes, assumed)])


def _of_node(node: str, assumed: Assumptions) -> Iterator[Failure]:
    rates = {
        DEATH: assumed.deaths,
        AILMENT: assumed.ailments,
        REPAIRABLE: assumed.repairable,
        FLAP: assumed.flaps,
    }
    for kind, rate in rates.items():
        random = Random(f"{kind} {node} {assumed.seed}")
        for number, at in enumerate(_times(rate, assumed.days, random)):
            hard = random.random() < _NO_MIGRATION
            ill = EVACUATE_FAILOVER if hard else EVACUATE
            hours = assumed.ailing_hours if kind == AILMENT else _LASTS
            status = {DEATH: "", REPAIRABLE: LIVE_REPAIR}.get(kind, ill)
            lasts = int(random.expovariate(1) * hours * HOUR)
            period = int(random.uniform(0.05, 0.5) * HOUR)
            yield Failure(at, node, kind, number, status, lasts, period)


def _storms(nodes: Sequence[str], assumed: Assumptions) -> Iterator[Failure]:
    random = Random(f"{STORM} {assumed.seed}")
    for number, at in enumerate(_times(assumed.storms, assumed.days, random)):
        lasts = int(random.expovariate(1) * _LASTS * HOUR)
        for node in random.sample(nodes, round(len(nodes) * assumed.storm_nodes)):
            yield Failure(at, node, STORM, number, EVACUATE, lasts)


def _times(rate: float, days: float, random: Random) -> Iterator[int]:
    """Times (ns after the start) of something that happens so often per year."""
    at, end = 0.0, days * DAY
    while rate > 0:
        at += random.expovariate(rate / YEAR)
        if at >= end:
            return
        yield int(at)
