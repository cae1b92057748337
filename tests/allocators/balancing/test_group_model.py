"""Group models: their numbers are those of states, their rules those with sentences."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import orjson
import pytest
from asserting import some
from clusters import generate
from reserves import reserving
from spreading import spread_out
from thorough import seeds
from volume_groups import divided

from ganeti_steward.allocators.balancing.group_model import GroupModel
from ganeti_steward.allocators.balancing.planning.group import movable
from ganeti_steward.allocators.balancing.preferences import CopyPrice, SitePreferences
from ganeti_steward.allocators.balancing.single_moves import SingleMoves
from ganeti_steward.allocators.balancing.swaps import PairFinder, Swaps
from ganeti_steward.allocators.rules.candidates import terms_of
from ganeti_steward.allocators.rules.move_kinds import DRBD_MOVES, FAILOVER, MoveKind
from ganeti_steward.allocators.rules.move_rules import MoveRules
from ganeti_steward.allocators.score.score import Scorer
from ganeti_steward.allocators.state import quantity
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.state.state import State
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Balance
from ganeti_steward.core.model.site_rules import NoSiteRules

FEATURES: Final = (
    ("--offline=1",),
    ("--drained=1",),
    ("--excl-tags=.3",),
    ("--location-tags",),
    ("--desired-location=.3",),
    ("--migration-tags",),
    ("--exclusive-storage",),
    ("--missing-mem=2000",),
    ("--forthcoming=.1",),
    ("--down=.2", "--admin-offline=.1"),
    ("--hypervisor=kvm",),
    ("--fill=.9", "--per-node=14"),
    ("--excl-tags=.3", "--location-tags", "--forthcoming=.1"),
    ("--desired-location=.3", "--drained=1"),
    (),
)
MIXES: Final = ("drbd=1", "drbd=7,plain=2,ext=1", "drbd=5,ext=5")


class Case:
    """One group of a generated cluster, as a state and as a model."""

    def __init__(self, seed: int, *more: str) -> None:
        self.rng = random.Random(seed)
        message: Any = generate(
            f"--nodes={self.rng.choice([3, 5, 8, 12])}",
            f"--mix={self.rng.choice(MIXES)}",
            "--request=none",
            f"--choices={self.rng.choice([1, 3])}",
            f"--seed={seed}",
            "--per-node=8",
            *(more or FEATURES[seed % len(FEATURES)]),
        )
        message["request"] = {"type": "balance"}
        if seed % 4 == 3:
            message = divided(message, seed)
        if seed % 4 == 1:
            message, _ = spread_out(message, seed)
        if seed % 5 == 2:
            message = reserving(message, seed)
        self.read(read_message(orjson.dumps(message))[0])

    def read(self, cluster: Cluster) -> None:
        """Begin again with a cluster."""
        self.state = load(cluster, None, 4096)
        self.members = self.state.frame.group == 0
        self.nodes = np.flatnonzero(self.members)
        self.residents = movable(self.state, self.members, Balance())
        self.model = GroupModel(self.state, self.nodes, self.residents)
        self.moves = SingleMoves(self.model, Balance(), {})

    def score(self, state: State) -> float:
        return Scorer(state, self.members).score

    def cluster_nodes(self, primary: int, secondary: int) -> tuple[int, int]:
        return int(self.nodes[primary]), int(self.nodes[secondary]) if secondary >= 0 else -1


@pytest.mark.parametrize("seed", seeds(30, 60))
def test_moves_gain_what_they_say(seed: int) -> None:
    case = Case(seed)
    before = case.model.score
    assert before == pytest.approx(case.score(case.state), abs=1e-8)
    found = case.moves.best(np.arange(len(case.residents)))
    for instance in np.argsort(-found.gain)[:6].tolist():
        if found.gain[instance] == -np.inf:
            continue
        place = int(found.primary[instance]), int(found.secondary[instance])
        home = int(case.model.primary[instance]), int(case.model.secondary[instance])
        resident = case.residents[instance]
        there = case.state.removed(resident).placed(resident.demand, *case.cluster_nodes(*place))
        score = case.score(there)
        assert before - found.gain[instance] == pytest.approx(score, abs=1e-8)
        case.model.move(instance, *place)
        assert case.model.score == pytest.approx(score, abs=1e-8)
        case.model.move(instance, *home)
        assert case.model.score == pytest.approx(before, abs=1e-8)


def _charged(case: Case, price: CopyPrice) -> float:
    """What the present places cost beside the score, by site rules and copies."""
    model = case.model
    copies = price.copies(np.arange(len(case.residents)), model.primary, model.secondary)
    mib = model.figures.all_disk * model.figures.drbd * model.figures.real
    copied = float(np.maximum(copies, price.free) @ mib)
    return case.moves.preferences.site_total() + price.per_mib * copied


@pytest.mark.parametrize("seed", seeds(30, 60))
def test_what_places_cost_is_in_every_figure(seed: int) -> None:
    """In the gains of moves, in the cost of one move and in that of all places."""
    case = Case(seed)
    rng, size = np.random.default_rng(seed), len(case.nodes)

    def costs() -> tuple[Any, Any]:
        return (rng.uniform(-2, 2, size).round(1), rng.uniform(-2, 2, size).round(1))

    free = (np.zeros(size, np.bool_), np.zeros(size, np.bool_))
    some_of_them = np.flatnonzero(rng.random(len(case.residents)) < 0.4).tolist()
    sites = {instance: SitePreferences(free, costs()) for instance in some_of_them}
    case.moves = SingleMoves(case.model, Balance(), sites)
    paid = rng.integers(0, 2, len(case.residents))
    home = case.model.primary.copy(), case.model.secondary.copy()
    price = case.moves.preferences.price = CopyPrice(1e-6, home, paid)
    for _ in some(range(3)):
        score, charged = case.model.score, _charged(case, price)
        found = case.moves.best(np.arange(len(case.residents)))
        for instance in np.flatnonzero(found.gain > -np.inf).tolist()[:6]:
            here = case.model.place(instance)
            place = int(found.primary[instance]), int(found.secondary[instance])
            cost = case.moves.preferences.site_cost(instance, *place)
            case.model.move(instance, *place)
            more = _charged(case, price) - charged
            assert cost == pytest.approx(more, abs=1e-8)
            assert found.gain[instance] == pytest.approx(score - case.model.score - more, abs=1e-8)
            case.model.move(instance, *here)
        best = int(found.gain.argmax())
        if found.gain[best] > -np.inf:
            # The next round begins where the disks of one were copied already.
            case.model.move(best, int(found.primary[best]), int(found.secondary[best]))


@pytest.mark.parametrize("seed", seeds(30, 60))
def test_what_a_group_model_allows_the_rules_allow(seed: int) -> None:
    """And the other way round, but for what a model sees more narrowly."""
    case = Case(seed)
    allowed = refused = 0
    paired = np.flatnonzero(case.model.figures.drbd)
    for instance in case.rng.sample(paired.tolist(), min(8, len(paired))):
        for kind, mine, fits in both_verdicts(case, instance):
            if mine:
                assert fits, kind
                allowed += 1
            else:
                refused += not fits
    assert allowed + refused > 0 or not len(paired)


def both_verdicts(case: Case, instance: int) -> Iterator[tuple[MoveKind, bool, bool]]:
    """Each move of an instance with a secondary: whether the model and the rules allow it."""
    resident = case.residents[instance]
    terms = terms_of(case.state.frame, resident.demand.instance, NoSiteRules())
    usable = case.members & case.state.frame.usable
    rules = MoveRules(case.state.removed(resident), resident, terms, usable)
    for kind in DRBD_MOVES:
        everywhere = np.arange(len(case.nodes))
        targets = everywhere if kind is not FAILOVER else case.model.secondary[[instance]]
        legal = np.broadcast_to(
            case.moves.legality.drbd(kind, np.full(len(targets), instance), targets), len(targets)
        )
        verdicts = rules.check(kind)
        role = verdicts.roles[1 if kind.secondary_is_new else 0]
        for target, mine in zip(targets.tolist(), legal.tolist(), strict=True):
            yield kind, mine, not verdicts.blocked and bool(role.fits[int(case.nodes[target])])


@pytest.mark.parametrize("key", ["memory", "disk", "volume-group:ssd"])
@pytest.mark.parametrize("seed", seeds(8, 60))
def test_a_group_model_keeps_reserves(seed: int, key: str) -> None:
    """Each node's reserve is about what it has free: moves are legal as the rules have it."""
    case = Case(4 * seed + 3, "--fill=.4")
    case.read(with_reserves(case.state, key, case.rng))
    refused = 0
    paired = np.flatnonzero(case.model.figures.drbd).tolist()
    for instance in paired[:12]:
        for kind, mine, fits in both_verdicts(case, instance):
            assert fits or not mine, (kind, instance)
            refused += not fits
    assert refused or not paired


def with_reserves(state: State, key: str, rng: random.Random) -> Cluster:
    """The cluster with reserves that leave little of what each node has free."""
    nodes = []
    for at, node in enumerate(state.frame.cluster.nodes):
        free = state.now[quantity.UNALLOCATED if key == "memory" else quantity.DISK, at]
        group = (node.volume_groups or {}).get("ssd")
        if key.startswith("volume-group"):
            free = np.int64(group.free if group else 0)
        kept = max(int(free) - rng.choice([-1000, 1000, 4000, 12000]), 0)
        nodes.append(node._replace(tags=(*node.tags, f"steward:reserve:{key}:{kept // 4 * 4}m")))
    return state.frame.cluster.replace(nodes=nodes)


#: What may stop real instances: tags and memory; disks; spindles of nodes with dedicated ones.
FULL: Final = (
    ("--excl-tags=.6", "--fill=.8"),
    ("--drained=2", "--shape=400000,1200000,40,16"),
    ("--drained=2", "--shape=400000,2400000,40,8", "--exclusive-storage"),
)


@pytest.mark.parametrize("full", FULL, ids=lambda options: options[0])
@pytest.mark.parametrize("seed", seeds(8, 60))
def test_an_announced_instance_may_move_as_the_rules_allow(
    seed: int, full: tuple[str, ...]
) -> None:
    """Only what counts announced instances stops it: no tag, no N+1, nothing in use."""
    case = Case(seed, "--forthcoming=.4", *full)
    figures = case.model.figures
    announced = np.flatnonzero(figures.drbd & ~figures.real).tolist()
    for instance in some(announced):
        for kind, mine, fits in some(both_verdicts(case, instance)):
            assert mine == fits, (kind, instance)


def edges(case: Case, instance: int, node: int) -> Iterator[dict[str, int]]:
    """Figures of a node with which a limit is kept, reached or missed by 1 MiB or spindle."""
    demand = case.residents[instance].demand
    primary, needed = case.model.primary[instance], case.model.needed[node]
    kept = case.model.reserved[node, primary] + demand.reserve
    reserves = case.state.frame.reserves
    least = 0 if reserves is None else int(reserves.memory[case.nodes[node]])
    for more in (-1, 0, 1, *range(least - 1, least + 2 if least else least - 1)):
        for memory in (demand.use, demand.use + needed, demand.reserve, kept, kept + demand.use):
            yield {"free_memory": max(int(memory) + more, 0)}
        yield {"free_disk": max(demand.disk + more, 0)}
        yield {"free_spindles": max(demand.spindles + more, 0)}


#: Limits that soft rules have, too, because of what is announced.
TIGHT: Final = ((), ("--drained=1",), ("--exclusive-storage", "--forthcoming=.4", "--drained=2"))


@pytest.mark.parametrize("seed", seeds(21, 60))
def test_at_each_limit_a_group_model_and_the_rules_agree(seed: int) -> None:
    case = Case(seed, "--fill=.5", *TIGHT[seed % len(TIGHT)])
    cluster, tried = case.state.frame.cluster, 0
    paired = np.flatnonzero(case.model.figures.drbd).tolist()
    for instance in case.rng.sample(paired, min(2, len(paired))):
        others = [int(case.model.secondary[instance]), case.rng.randrange(len(case.nodes))]
        for node in others:
            for figures in edges(case, instance, node):
                at = int(case.nodes[node])
                nodes = list(cluster.nodes)
                nodes[at] = nodes[at]._replace(**figures)
                case.read(cluster.replace(nodes=nodes))
                for kind, mine, fits in both_verdicts(case, instance):
                    assert mine == fits, (kind, instance, node, figures)
                    tried += 1
            case.read(cluster)
    assert tried or not paired


@pytest.mark.parametrize("seed", seeds(30, 60))
def test_exchanges_gain_what_they_say(seed: int) -> None:
    case = Case(seed)
    if case.model.tags.carried or case.model.tags.crowds:
        # Two instances that carry the same tag are checked one by one.
        return
    swaps, before = Swaps(case.moves), case.model.score
    everyone = np.arange(len(case.residents))
    tried = 0
    for kind in swaps.kinds():
        for instance in case.rng.sample(everyone.tolist(), min(4, len(everyone))):
            gains = swaps.gains(kind, np.full(len(everyone), instance), everyone)
            possible = np.flatnonzero(np.isfinite(gains)).tolist()
            for other in case.rng.sample(possible, min(4, len(possible))):
                pair = (instance, other)
                home = [(int(case.model.primary[g]), int(case.model.secondary[g])) for g in pair]
                for one, place in zip(pair, swaps.places(kind, instance, other), strict=True):
                    case.model.move(one, *place)
                assert case.model.score == pytest.approx(before - gains[other], abs=1e-8)
                tried += 1
                for one, place in zip(pair, home, strict=True):
                    case.model.move(one, *place)
    assert tried


def test_estimates_find_good_exchanges() -> None:
    """Where an exchange gains anything the estimate finds one, mostly the very best."""
    tried = hits = 0
    for seed in range(14, 75, 15):
        case = Case(seed)
        swaps, finder = Swaps(case.moves), PairFinder(case.model)
        everyone = np.arange(len(case.residents))
        for kind in swaps.kinds():
            first, second = (axis.ravel() for axis in np.meshgrid(everyone, everyone))
            gains = swaps.gains(kind, first, second)
            if gains.max() <= 0:
                continue
            found = finder.best(kind, 64, everyone, everyone)
            best = swaps.gains(kind, found.instances, found.others).max()
            assert best > 0
            tried += 1
            hits += best >= gains.max() - 1e-9
    assert hits > tried / 2 > 3
