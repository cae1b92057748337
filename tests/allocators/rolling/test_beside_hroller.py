"""Rounds of planned maintenance beside those of the real hroller, on made clusters."""

from __future__ import annotations

import random
from pathlib import Path

import make_cluster
import pytest
from clusters import generate
from installed import need
from rolled import MODES, faults, hroller, shape
from thorough import seeds

from ganeti_steward.allocators.rolling.away import Away
from ganeti_steward.allocators.rolling.fleet import MOVE, STOP, Fleet
from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll
from ganeti_steward.allocators.rolling.rounds import RoundLimits, find_rounds
from ganeti_steward.allocators.state.names import named
from ganeti_steward.allocators.text_format import read_text


def accepted(fleet: Fleet, rounds: list[list[str]]) -> bool:
    """Whether hroller's rounds keep our conditions: memory, vcpus, tags, who may take what."""
    nodes = fleet.cluster.nodes
    for names in rounds:
        away = Away.none(fleet)
        for name in names:
            (full,) = named(nodes, name)
            found = away.with_node(fleet.cluster.node_index[full])
            if not isinstance(found, Away):
                return False
            away = found
    return True


@pytest.mark.parametrize("seed", seeds(40, 250))
def test_never_more_rounds_than_hroller(seed: int, tmp_path: Path) -> None:
    """On the same conditions; and every round is legal by a check of its own."""
    need("hroller")
    text = make_cluster.to_text(generate(*shape(seed)))
    (tmp_path / "cluster.data").write_text(text)
    theirs = hroller(tmp_path / "cluster.data", MODES[seed % 5][1])
    cluster = read_text(text)
    names = [node.name for node in cluster.nodes]
    choice = STOP if MODES[seed % 5][1] else MOVE
    roll = plan_roll(cluster, names, RollOptions(choice))
    assert faults(cluster, roll, names) == []
    # hroller leaves out drained nodes.
    same = [full for one in theirs for name in one for full in named(cluster.nodes, name)]
    roll = plan_roll(cluster, same, RollOptions(choice))
    assert len(roll.rounds) <= len(theirs) or not accepted(Fleet(cluster, choice), theirs)


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_limits_and_the_way_without_a_return(seed: int) -> None:
    """Rounds are no larger than requested, and each is legal after those before it."""
    cluster = read_text(make_cluster.to_text(generate(*shape(seed))))
    names = [node.name for node in cluster.nodes]
    limits = RoundLimits(at_once=1 + seed % 3, keep_n1=seed % 2 == 0)
    roll = plan_roll(cluster, names, RollOptions(STOP, limits))
    assert faults(cluster, roll, names) == []
    assert max((len(one.nodes) for one in roll.rounds), default=0) <= limits.at_once
    assert not limits.keep_n1 or not any(one.shortages for one in roll.rounds)


def test_more_effort_finds_no_more_rounds() -> None:
    """The search is bounded by what it tries, not by a clock."""
    cluster = read_text(make_cluster.to_text(generate("--nodes=60", "--mix=drbd=7,ext=3")))
    fleet = Fleet(cluster)
    found = find_rounds(fleet, range(60), RoundLimits(), random.Random(0))
    quick = find_rounds(fleet, range(60), RoundLimits(), random.Random(0), effort=0)
    assert len(found.rounds) <= len(quick.rounds) <= 9
