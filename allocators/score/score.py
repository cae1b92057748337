"""The cluster score (allocation 5): how uneven and how unsafe a placement is.

Smaller is better.  A `Scorer` is made once for a state and a set of nodes (the whole
cluster or one group) and then gives the score after changing one node or a pair of them
for all candidates at once: a spread changes by what its changed nodes add, so a candidate
costs the same on any cluster size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.frame import Demand, Frame
from ganeti_steward.core.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ganeti_steward.allocators.state.arrays import Floats, Ints, Mask
    from ganeti_steward.allocators.state.state import State


# Rows of `shares`: components measured as standard deviation over the online nodes.  Those that
# end in _F count forthcoming instances, too.
FREE_MEM: Final = 0
FREE_DISK: Final = 1
RESERVED_MEM: Final = 2
VCPU_RATIO: Final = 3
CPU_LOAD: Final = 4
PRIMARIES: Final = 5
INSTANCES: Final = 6
SPINDLES: Final = 7
FREE_MEM_F: Final = 8
FREE_DISK_F: Final = 9
VCPU_RATIO_F: Final = 10
SPINDLES_F: Final = 11

#: By row: hail's names of the component, and its weight for each name.  Without given loads those
#: of memory and network are both the number of primaries (allocation 3.4).
SPREADS: Final = (
    (("free_mem_cv",), 0.5),
    (("free_disk_cv",), 0.5),
    (("reserved_mem_cv",), 1.0),
    (("vcpu_ratio_cv",), 0.5),
    (("cpu_load_cv",), 1.0),
    (("mem_load_cv", "net_load_cv"), 1.0),
    (("disk_load_cv",), 1.0),
    (("spindles_cv",), 0.5),
    (("free_mem_cv_forth",), 0.5),
    (("free_disk_cv_forth",), 0.5),
    (("vcpu_ratio_cv_forth",), 0.5),
    (("spindles_cv_forth",), 0.5),
)
#: The same where loads are given; the row of the network is then the last of all.
_GIVEN_SPREADS: Final = (*SPREADS[:PRIMARIES], (("mem_load_cv",), 1.0), *SPREADS[INSTANCES:])
_NETWORK_SPREAD: Final = (("net_load_cv",), 1.0)
#: The weight of each row.
SPREAD_WEIGHTS: Final = np.array([weight * len(names) for names, weight in SPREADS])
#: Rows that a new secondary changes as well as the primary; the N+1 reserve is changed by the
#: secondary alone.
SHARED_SPREADS: Final = (
    FREE_DISK,
    INSTANCES,
    SPINDLES,
    FREE_DISK_F,
    SPINDLES_F,
)

N1_WEIGHT: Final = 1.0
OFFLINE_WEIGHT: Final = 4.0
OFFLINE_PRIMARY_WEIGHT: Final = 16.0
TAGS_WEIGHT: Final = 2.0
LOCATION_WEIGHT: Final = 1.0
RESERVED_TOTAL_WEIGHT: Final = 0.25

#: The components that are 0 where nothing is wrong; the others say how even a group is.
FAULTS: Final = (
    "n1_cnt",
    "offline_all_cnt",
    "offline_pri_cnt",
    "pri_tags_score",
    "location_score",
    "location_exclusion_score",
    "spread_score",
)

#: Pairs scored at once; small enough for their figures to stay in the processor's cache.
_CHUNK: Final = 32768


#: What a component of `SPREADS` becomes for a volume group apart from the cluster's: its two rows.
POOL_SPREADS: Final = (FREE_DISK, FREE_DISK_F)


#: By row of `shares`: the quantity whose share it is.
QUANTITIES: Final = np.array(
    [
        quantity.UNALLOCATED,
        quantity.DISK,
        quantity.RESERVED,
        quantity.VCPUS,
        quantity.CPU_LOAD,
        quantity.PRIMARIES,
        quantity.PRIMARIES,
        quantity.SPINDLE_USE,
        quantity.MEMORY_F,
        quantity.DISK_F,
        quantity.VCPUS_F,
        quantity.SPINDLE_USE_F,
    ]
)


def quantities(frame: Frame) -> Ints:
    """By row of `shares`: the quantity whose share it is; the last are those of ``Frame.pools``,
    and the network's where loads are given."""
    if not (frame.pools or frame.loads):
        return QUANTITIES
    found = np.append(QUANTITIES, np.arange(quantity.ROWS, len(frame.wholes)))
    if frame.loads:
        found[[PRIMARIES, INSTANCES]] = quantity.MEM_LOAD, quantity.DISK_LOAD
        found = np.append(found, quantity.NET_LOAD)
    return found


def spread_weights(frame: Frame) -> Floats:
    """The weight of each row of `shares`."""
    if not (frame.pools or frame.loads):
        return SPREAD_WEIGHTS
    own = np.outer(frame.pools_used, SPREAD_WEIGHTS[list(POOL_SPREADS)])
    found = np.append(SPREAD_WEIGHTS, own.ravel())
    if frame.loads:
        found[PRIMARIES] = 1.0
        found = np.append(found, _NETWORK_SPREAD[1])
    return found


def shares(frame: Frame, now: Ints, nodes: Ints | slice = slice(None)) -> Floats:
    """rows x nodes: the value of each component; ``now`` has these nodes only."""
    every = now / frame.wholes[:, nodes]
    values: Floats = every[quantities(frame)]
    if not frame.loads:
        values[INSTANCES] += every[quantity.SECONDARIES]
    if frame.dedicated:
        exclusive = frame.exclusive[nodes]
        values[FREE_DISK, exclusive] = every[quantity.SPINDLES, exclusive]
        values[FREE_DISK_F, exclusive] = every[quantity.SPINDLES_F, exclusive]
    no_disk_share = frame.no_disk_share[nodes]
    values[FREE_DISK] += no_disk_share
    values[FREE_DISK_F] += no_disk_share
    if frame.pools:
        last = len(SPREADS) + 2 * len(frame.pools)
        values[len(SPREADS) : last] += frame.pool_shares[:, nodes].repeat(2, axis=0)
    return values


def sum_components(
    primaries: Floats | Ints,
    secondaries: Floats | Ints,
    fails: Ints | Mask,
    reserved_share: Floats,
    tags: Floats | None = None,
    usable: Mask | None = None,
) -> Floats:
    """nodes: what each adds to the score by itself, weighted.

    ``fails``: whether N+1 fails; ``reserved_share``: N+1 reserve by total memory; ``tags``: see
    `tag_components`, None leaves them out; ``usable``: None where all nodes are.
    """
    both = primaries + secondaries
    online = N1_WEIGHT * (fails * both)
    if tags is not None:
        online += tags
    online += RESERVED_TOTAL_WEIGHT * reserved_share
    if usable is None:
        return online
    offline = OFFLINE_WEIGHT * both + OFFLINE_PRIMARY_WEIGHT * primaries
    return np.where(usable, online, offline)


def tag_components(clashes: Floats | Ints, location: Floats | Ints) -> Floats:
    """nodes: the sum components by tags, weighted."""
    tags: Floats = TAGS_WEIGHT * clashes + LOCATION_WEIGHT * location
    return tags


def counts(frame: Frame, now: Ints, nodes: Ints | slice = slice(None)) -> Floats:
    """nodes: the sum components of these nodes, weighted; ``now`` has these nodes only."""
    return sum_components(
        now[quantity.PRIMARIES],
        now[quantity.SECONDARIES],
        now[quantity.FAILS],
        now[quantity.RESERVED] / frame.memory[nodes],
        tag_components(now[quantity.CLASHES], now[quantity.LOCATION]),
        frame.usable[nodes] if frame.conditions else None,
    )


class _Change(NamedTuple):
    """What changing single nodes does to the spreads: per component and candidate."""

    square: Floats
    """components x candidates: change of the mean square"""
    shift: Floats
    """components x candidates: change of the mean"""
    counts: Floats
    """candidates: change of the sum components, weighted"""


class Scorer:
    """Scores of one state after placing an instance, for many candidates at once."""

    def __init__(self, state: State, nodes: Mask) -> None:
        """``nodes``: those in the score (allocation 5, "set of nodes")."""
        self.state = state
        self.nodes = nodes
        frame = state.frame
        self.weights = spread_weights(frame)[:, None]
        self._online = frame.usable & nodes
        online_nodes = np.count_nonzero(self._online)
        self._n, self._empty = max(online_nodes, 1), not online_nodes
        values = shares(frame, state.now)
        online = values[:, self._online]
        mean = online.sum(axis=1) / self._n
        self._centred = values - mean[:, None]
        self._mean = mean[:, None]
        centred = self._centred[:, self._online]
        self._variance = (centred * centred).sum(axis=1)[:, None] / self._n
        self._counts = counts(frame, state.now)
        self._base = float(self._counts[nodes].sum())

    @property
    def score(self) -> float:
        """The score of the state as it is."""
        if self._empty:
            return 0.0
        return self._base + self.paired_tags() + float(self._spread(self._variance)[0])

    def _spread(self, variance: Floats) -> Floats:
        """The weighted sum of the standard deviations, one per column."""
        total: Floats = (self.weights * np.sqrt(np.maximum(variance, 0.0))).sum(axis=0)
        return total

    def _change(self, nodes: Ints, after: Ints) -> _Change:
        """``after``: the columns of these nodes as they would become."""
        frame = self.state.frame
        online = self._online[nodes]
        old = self._centred[:, nodes]
        new = shares(frame, after, nodes) - self._mean
        return _Change(
            square=(new * new - old * old) * online / self._n,
            shift=(new - old) * online / self._n,
            counts=counts(frame, after, nodes) - self._counts[nodes],
        )

    def one(self, nodes: Ints, after: Ints, extra: Floats | float = 0.0) -> Floats:
        """The score with one node changed, for each of ``nodes``.

        ``after`` holds the columns of these nodes; ``extra`` is added: what depends on
        more than the node.  Component 19 is left to it altogether.
        """
        if self._empty:
            return np.zeros(len(nodes))
        change = self._change(nodes, after)
        variance = self._variance + change.square - change.shift * change.shift
        return self._base + change.counts + self._spread(variance) + extra

    def pairs(self, first: Ints, after_first: Ints, second: Ints, after_second: Ints) -> PairScores:
        """Scores of all ordered pairs of usable nodes, primaries first."""
        return PairScores(self, first, after_first, second, after_second)

    def tag_costs(self, demand: Demand) -> Floats:
        """What tags add to the score with the instance on each node, beside the node's own figures.

        Component 19: for each pair of a location tag and an exclusion tag, the primaries in it
        beyond the first.  And what crowded places cost.
        """
        frame = self.state.frame
        met = np.zeros(frame.size)
        for tag in demand.exclusion if frame.location_names else ():
            met += frame.locations @ (self._tag_places(tag) > 0)
        if demand.services:
            from ganeti_steward.allocators.state.crowding import added_cost  # few clusters have it

            met += added_cost(self.state, demand)
        return met

    def paired_tags(self) -> float:
        """The same of the state as it is."""
        return self._location_exclusion() + self._spread_cost()

    def _location_exclusion(self) -> float:
        """Component 19."""
        total = 0.0
        for tag in self.state.tag_counts.real if self.state.frame.location_names else ():
            places = self._tag_places(tag)
            total += float(places.sum() - (places > 0).sum())
        return total

    def _spread_cost(self) -> float:
        if not self.state.frame.spread:
            return 0.0
        from ganeti_steward.allocators.state.crowding import total_cost  # as in `tag_costs`

        return total_cost(self.state, self.nodes)

    def _tag_places(self, tag: str) -> Ints:
        """How many primaries with this exclusion tag each location tag has online."""
        locations = self.state.frame.locations
        places = np.zeros(locations.shape[1], np.int64)
        for node, count in self.state.tag_counts.real.get(tag, {}).items():
            if self._online[node]:
                places += locations[node] * count
        return places

    def components(self) -> dict[str, float]:
        """The 20 components by name, weighted, two of each pool, and the spread of services where a
        tag requests it; their sum is the score."""
        now, online = self.state.now, self._online
        offline = self.nodes & ~self.state.frame.usable
        both = now[quantity.PRIMARIES] + now[quantity.SECONDARIES]
        found = {
            "n1_cnt": N1_WEIGHT * float((now[quantity.FAILS] * both)[online].sum()),
            "offline_all_cnt": OFFLINE_WEIGHT * float(both[offline].sum()),
            "offline_pri_cnt": OFFLINE_PRIMARY_WEIGHT
            * float(now[quantity.PRIMARIES, offline].sum()),
            "pri_tags_score": TAGS_WEIGHT * float(now[quantity.CLASHES, online].sum()),
            "location_score": LOCATION_WEIGHT * float(now[quantity.LOCATION, online].sum()),
            "location_exclusion_score": self._location_exclusion(),
            "reserved_mem_rtotal": RESERVED_TOTAL_WEIGHT
            * float((now[quantity.RESERVED] / self.state.frame.memory)[online].sum()),
        }
        if self.state.frame.spread:
            found["spread_score"] = self._spread_cost()
        spread = np.sqrt(np.maximum(self._variance[:, 0], 0.0))
        for (names, weight), value in zip(self._named_spreads(), spread.tolist(), strict=True):
            found.update(dict.fromkeys(names, weight * value))
        return dict.fromkeys(found, 0.0) if self._empty else found

    def _named_spreads(self) -> list[tuple[tuple[str, ...], float]]:
        kinds = [SPREADS[row] for row in POOL_SPREADS]
        pools = self.state.frame.pools
        more = [((f"{names[0]}:{pool}",), weight) for pool in pools for names, weight in kinds]
        if self.state.frame.loads:
            return [*_GIVEN_SPREADS, *more, _NETWORK_SPREAD]
        return [*SPREADS, *more]


class PairScores:
    """Scores of pairs, made row by row: one primary with all secondaries.

    Most components change by the primary or by the secondary alone and are added up
    beforehand; those that both change are put together per pair.
    """

    def __init__(
        self, scorer: Scorer, first: Ints, after_first: Ints, second: Ints, after_second: Ints
    ) -> None:
        self._scorer = scorer
        one, two = scorer._change(first, after_first), scorer._change(second, after_second)
        variance, weights = scorer._variance, scorer.weights
        alone = np.maximum(variance + one.square - one.shift * one.shift, 0.0)
        shared = [*SHARED_SPREADS, *range(len(SPREADS), len(weights))]
        by_first = weights * np.sqrt(alone)
        by_first[[RESERVED_MEM, *shared]] = 0.0
        self.first: Floats = scorer._base + one.counts + by_first.sum(axis=0)
        self.plain: Floats = self._second_part(two)
        self.second: Floats = self.plain.copy()
        """``plain`` with whatever the caller adds"""
        self._spreads = _merged(
            [
                (
                    float(weights[row, 0]),
                    variance[row] + one.square[row] - one.shift[row] * one.shift[row],
                    two.square[row] - two.shift[row] * two.shift[row],
                    2.0 * one.shift[row],
                    two.shift[row],
                )
                for row in shared
            ]
        )

    def _second_part(self, change: _Change) -> Floats:
        variance = self._scorer._variance[RESERVED_MEM] + change.square[RESERVED_MEM]
        variance = np.maximum(variance - change.shift[RESERVED_MEM] ** 2, 0.0)
        part: Floats = change.counts + self._scorer.weights[RESERVED_MEM] * np.sqrt(variance)
        return part

    def second_part(self, nodes: Ints, after: Ints) -> Floats:
        """What these secondaries add by themselves, their columns being ``after``."""
        return self._second_part(self._scorer._change(nodes, after))

    def rows(self, which: slice | Ints) -> Floats:
        """The scores of these primaries (positions in ``first``) with every secondary."""
        total = self.first[which, None] + self.second
        for weight, first, second, cross, shift in self._spreads:
            part = np.multiply.outer(cross[which], shift)
            np.subtract(first[which, None], part, out=part)
            part += second
            np.maximum(part, 0.0, out=part)
            np.sqrt(part, out=part)
            part *= weight
            total += part
        return total

    @property
    def chunk(self) -> int:
        """How many primaries to do at once."""
        return max(1, _CHUNK // max(len(self.second), 1))


_PairSpread = tuple[float, "Floats", "Floats", "Floats", "Floats"]


def merged_rows(
    weights: Iterable[float], equal: Callable[[int, int], bool]
) -> list[tuple[int, float]]:
    """Rows that are equal are kept once, with their weights added: (row, weight) each."""
    kept: list[tuple[int, float]] = []
    for row, weight in enumerate(weights):
        for at, (known, total) in enumerate(kept):
            if equal(known, row):
                kept[at] = (known, total + weight)
                break
        else:
            kept.append((row, weight))
    return kept


def _merged(spreads: list[_PairSpread]) -> list[_PairSpread]:
    """Components that change alike are computed once.

    Without forthcoming instances the figures that count them equal the real ones.
    """

    def equal(one: int, other: int) -> bool:
        pairs = zip(spreads[one][1:], spreads[other][1:], strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    rows = merged_rows((spread[0] for spread in spreads), equal)
    return [(weight, *spreads[row][1:]) for row, weight in rows]
