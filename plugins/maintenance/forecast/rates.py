"""How fast moves are on this cluster: read from the jobs that are in Ganeti's queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import mean, median
from typing import Any, Final, NamedTuple

from ganeti_steward.allocators.rolling.pace import Pace
from ganeti_steward.core.json_reader import counted
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.job_state import SUCCESS
from ganeti_steward.core.model.opcodes import (
    FAILOVER,
    MIGRATE,
    REMOVE_TAGS,
    REPLACE_DISKS,
    SET_TAGS,
)
from ganeti_steward.plugins.model.operations import ACTIVATE_DISKS, SET_NODE_PARAMS

_COLUMNS: Final = ("ops", "opstatus", "opexec", "opend")
#: Fields of luxid's jobs that `learned` reads.
FIELDS: Final = (*_COLUMNS, "received_ts")
_MOVES: Final = (MIGRATE, REPLACE_DISKS, FAILOVER)
#: What the daemon does beside them.
_SHORT: Final = (SET_TAGS, REMOVE_TAGS, SET_NODE_PARAMS, ACTIVATE_DISKS)
#: Pairs of jobs of different sizes from which a speed is taken; with fewer the usual one is.
_PAIRS: Final = 10
#: Two sizes are different from this ratio on.
_DIFFERENT: Final = 1.5


class Sample(NamedTuple):
    """One operation that has succeeded."""

    size: float
    """MiB of memory or disks"""
    seconds: float


class Learned(NamedTuple):
    """How fast moves are, and from how many jobs that is known."""

    pace: Pace
    migrations: int = 0
    copies: int = 0
    failovers: int = 0
    given: tuple[str, ...] = ()
    """fields of the pace that the user has given"""

    @property
    def sentence(self) -> str:
        """The rates, and where they are from."""
        pace = self.pace
        kinds = {
            "migrated_per_second": ("MiB of memory a second", self.migrations, "migration"),
            "copied_per_second": ("MiB of disks a second", self.copies, "disk replacement"),
            "failover_seconds": ("s for a failover", self.failovers, "failover"),
        }
        rates = [
            f"{getattr(pace, field):g} {text} ({self._basis(field, number, kind)})"
            for field, (text, number, kind) in kinds.items()
        ]
        return (
            f"{', '.join(rates)}, {pace.set_up_seconds:g} s for each move beside what it copies, "
            f"{pace.short_seconds:g} s for any other operation"
        )

    def _basis(self, field: str, number: int, kind: str) -> str:
        if field in self.given:
            return "as given"
        return f"by {counted(number, kind)} in the job queue" if number else "no such job is known"


def learned(rows: Iterable[Mapping[str, Any]], cluster: Cluster, usual: Pace) -> Learned:
    """What jobs show; ``rows``: with `FIELDS`.  What none shows stays as ``usual`` has it.

    An instance is taken to have had the memory and disks then that it has now.
    """
    found: dict[str, list[Sample]] = {kind: [] for kind in (*_MOVES, *_SHORT)}
    for row in rows:
        for kind, sample in _samples(row, cluster):
            found[kind].append(sample)
    migrations, copies, failovers = (found[kind] for kind in _MOVES)
    # A tag is set more often and faster than a node is drained: each kind has the same weight.
    short = [median(one.seconds for one in found[kind]) for kind in _SHORT if found[kind]]
    migrated = _speed(migrations, usual.migrated_per_second)
    copied = _speed(copies, usual.copied_per_second)
    set_up = usual.set_up_seconds
    # Most jobs are migrations; they show it best.
    for samples, speed in ((copies, copied), (migrations, migrated)):
        if samples:
            set_up = max(0.0, median(one.seconds - one.size / speed for one in samples))
    failover = median(one.seconds for one in failovers) if failovers else usual.failover_seconds
    pace = usual._replace(
        migrated_per_second=_rounded(migrated),
        copied_per_second=_rounded(copied),
        failover_seconds=_rounded(failover),
        set_up_seconds=_rounded(set_up),
        short_seconds=_rounded(mean(short)) if short else usual.short_seconds,
    )
    return Learned(pace, len(migrations), len(copies), len(failovers))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _samples(row: Mapping[str, Any], cluster: Cluster) -> Iterator[tuple[str, Sample]]:
    columns = (row[field] or () for field in _COLUMNS)
    submitted = row["received_ts"]
    for operation, status, begun, ended in zip(*columns, strict=False):
        kind, name = operation.get("OP_ID"), operation.get("instance_name")
        if not (begun and ended) or status != SUCCESS:
            continue
        seconds = _time(ended) - _time(begun)
        # The first operation has the time that the job has waited in the queue.
        waited = _time(begun) - _time(submitted) if submitted else 0
        submitted = None
        if seconds <= 0:
            continue
        if kind in _SHORT:
            yield kind, Sample(0, seconds + waited)
        elif kind in _MOVES and name in cluster.instance_index:
            one = cluster.instances[cluster.instance_index[name]]
            yield kind, Sample(one.disk_space if kind == REPLACE_DISKS else one.memory, seconds)


def _time(value: Sequence[int]) -> float:
    """Seconds since the epoch; ``value``: those, and microseconds."""
    seconds, micro = value
    return seconds + micro / 10**6


def _speed(samples: Sequence[Sample], usual: float) -> float:
    """MiB a second: the median over pairs of jobs of different sizes."""
    slopes = [
        (two.seconds - one.seconds) / (two.size - one.size)
        for one, two in combinations(sorted(samples)[:200], 2)
        if one.size > 0 and two.size >= _DIFFERENT * one.size
    ]
    slope = median(slopes) if len(slopes) >= _PAIRS else 0
    return 1 / slope if slope > 0 else usual
