"""Balancing by the load that agents report: when it acts, what it says, and that it ends."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from asserting import some
from by_load_site import CPUS, SETTINGS, Loads, Site, even_world
from thorough import seeds

from ganeti_steward.core.model.context import Context
from ganeti_steward.plugins.maintenance.config import Rebalance
from ganeti_steward.plugins.maintenance.rebalance.by_load import Rounds
from ganeti_steward.plugins.maintenance.rebalance.plugin import Rebalancing
from ganeti_steward.plugins.model.task import Task

NODES, EACH = 6, 8


def noisy(seed: int, level: float, swing: float, hot: str = "", since: int = 0) -> Loads:
    """Each instance's load is noise around a level of its own; ``hot``: those of one node.

    ``level``: busy CPUs of a node; those of the hot node are three times as busy.
    """
    own = random.Random(seed)
    levels = {
        f"i{at}-{number}": level / EACH * own.uniform(0.7, 1.3)
        for at in range(1, NODES + 1)
        for number in range(EACH)
    }

    @cache
    def load(name: str, minute: int) -> float:
        noise = random.Random(f"{seed} {name} {minute}").gauss(1, swing)
        busy = 3 if hot and name.startswith(f"i{hot}-") and minute >= since else 1
        return max(levels[name] * busy * noise, 0.0)

    return load


def imbalance(site: Site) -> float:
    """Over the next quarter of an hour."""
    names = [one.name for one in site.world.cluster.nodes]
    busy = np.zeros(len(names))
    for _ in range(15):
        site.run(1)
        busy += [site.share(name) / 15 for name in names]
    return float(busy.std() / busy.mean())


def moved_back(site: Site) -> list[str]:
    """Instances that were moved again within an hour."""
    found = []
    for at, one in enumerate(site.moves):
        for other in site.moves[at + 1 :]:
            if other.instance == one.instance and other.minute - one.minute < 60:
                found.append(f"{one.instance}: minutes {one.minute} and {other.minute}")
    return found


@pytest.mark.parametrize("seed", seeds(4, 40))
@pytest.mark.parametrize("level", [0.2, 2.0, 5.0])
def test_noise_moves_nothing(level: float, seed: int) -> None:
    site = Site(even_world(NODES, EACH), noisy(seed, level, 0.8))
    site.run(500)
    assert site.moves == []


@pytest.mark.parametrize("period", [1, 5])
@pytest.mark.parametrize("seed", seeds(4, 40))
def test_a_hot_node_is_relieved(seed: int, period: int) -> None:
    hot, since = str(1 + seed % NODES), 60
    loads = noisy(seed, 1.6, 0.5, hot, since)
    site = Site(even_world(NODES, EACH), loads, period=period)
    site.run(since)
    assert site.moves == []
    site.run(440)
    # One after the other; where those went may be busier than was known of them.
    away = [one for one in some(site.moves) if one.source == f"n{hot}"]
    assert site.moves[0] in away
    assert len(site.moves) <= len(away) + 2
    assert moved_back(site) == []
    assert imbalance(site) < SETTINGS.load_threshold
    # The first moves wait until averages and rounds have shown it.
    assert site.moves[0].minute > since + 2 * period


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_loads_that_wander_make_no_ping_pong(seed: int) -> None:
    """Each instance's load doubles and halves at random times."""
    rng = random.Random(seed)
    names = [f"i{at}-{number}" for at in range(1, NODES + 1) for number in range(EACH)]
    phases = {
        name: (rng.uniform(30, 300), rng.uniform(0, 7), rng.uniform(0.2, 2)) for name in names
    }

    @cache
    def load(name: str, minute: int) -> float:
        period, phase, most = phases[name]
        noise = random.Random(f"{seed} {name} {minute}").gauss(1, 0.5)
        busy: float = (1 + np.sin(minute / period + phase)) * most / 2
        return max(busy * noise, 0.0) * CPUS / 16

    site = Site(even_world(NODES, EACH), load)
    site.run(500)
    assert moved_back(site) == []
    assert len(site.moves) <= 60


def test_while_all_nodes_idle_no_difference_matters() -> None:
    site = Site(even_world(NODES, EACH), noisy(1, 0.1, 0.0, "2"))
    site.run(40)
    assert site.moves == []
    assert site.held[-1].startswith("the imbalance of load is not above 0.3: g1 (0.")
    assert imbalance(site) > SETTINGS.load_threshold


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_one_large_instance_is_not_passed_around(seed: int) -> None:
    """Wherever it is it makes the node busy, and shares of a node's load do not show that."""
    rng = random.Random(seed)
    large = f"i{rng.randint(1, NODES)}-{rng.randint(0, 1)}"
    site = Site(even_world(NODES, 2), lambda name, _: 5.0 if name == large else 0.4)
    site.run(500)
    assert moved_back(site) == []
    assert len(site.moves) <= 500 / 60 * NODES


def test_each_wait_has_its_sentence() -> None:
    site = Site(even_world(NODES, EACH), noisy(1, 1.6, 0.0, "2", 0))
    heard = []
    while not site.moves:
        site.run(1)
        heard.append(site.held[-1])
    number = heard[-2].index("for ")
    assert [f"for {at} of 3 rounds" in " ".join(heard) for at in (1, 2)] == [True, True]
    assert heard[-2][:number].startswith("load is unbalanced (0.")
    assert " > 0.3) " in heard[-2]
    assert "load is unbalanced" in heard[-1]
    assert "for 3 of 3 rounds; " in heard[-1]
    assert "planned move" in heard[-1]
    site.held.clear()
    site.run(3)
    assert any("of the last moves ha" in one for one in site.held)
    site.run(2)
    assert any("of n2 still covers a time before job 1 ended" in one for one in site.held)


def test_an_even_group_says_so() -> None:
    site = Site(even_world(NODES, EACH), noisy(1, 2.0, 0.0))
    site.run(5)
    assert site.held[-1].startswith("the imbalance of load is not above 0.3: g1 (0.")


def test_nothing_is_moved_while_one_load_is_not_known() -> None:
    site = Site(even_world(NODES, EACH), noisy(1, 1.6, 0.0, "2", 0))
    site.run(4)
    assert site.held[-1] == (
        "nothing is moved: the CPU load is not known: node 'n2': its agent has not reported "
        "its CPU load"
    )


def test_no_move_of_the_margin() -> None:
    settings = SETTINGS._replace(load_margin=0.9)
    site = Site(even_world(NODES, EACH), noisy(1, 1.6, 0.0, "2", 0), settings)
    site.run(40)
    assert site.moves == []
    waits = site.held[-10:]
    assert any(one.endswith("no move lowers the imbalance by 90 %") for one in waits)
    assert any(one.endswith("no move was found with these reports") for one in waits)


def test_other_load_data_is_refused() -> None:
    site = Site(even_world(NODES, EACH), noisy(1, 1.6, 0.0, "2"), Rebalance(by_load=True))
    site.run(5)
    assert site.moves == []
    assert site.held[-1].startswith("nothing is moved: rebalance.by-load: the load that agents ")


def test_a_preview_takes_the_rounds_as_over() -> None:
    site = Site(even_world(NODES, EACH), noisy(1, 1.6, 0.0, "2"))
    site.run(5)
    plugin = Rebalancing()
    plugin.configure(SETTINGS)

    def tasks(**lasting: int) -> list[str]:
        seen = site.world._replace(since={f"group {name}": at for name, at in lasting.items()})
        plans = plugin.steward_routine(seen, Context())
        return [one.reason for one in plans if isinstance(one, Task)]

    assert tasks() == tasks(g1=site.world.now) == []
    (reason,) = tasks(g1=0)
    assert reason.startswith("move i2-")
    assert ", imbalance of load 0.54 to 0.4" in reason


def test_the_score_decides_about_agents_loads_without_by_load() -> None:
    """The loads count in it as those of Ganeti's daemons do."""
    settings = Rebalance(load_data="agents", hold_time=0, threshold=0.5, copy_per_hour=0)
    site = Site(even_world(NODES, EACH), noisy(1, 1.6, 0.0, "2"), settings)
    site.run(6)
    assert "score 1." in site.held[-1] or site.moves
    even = Site(even_world(NODES, EACH), noisy(1, 1.6, 0.0), settings)
    even.run(6)
    assert even.moves == []


def test_marks_that_are_not_of_the_load() -> None:
    assert Rounds.read({"abc 1": 5}) == Rounds(0, 0)
    for rounds in (Rounds(2, 77), Rounds(3, 5, searched=True)):
        assert Rounds.read({rounds.mark: 1}) == rounds
    assert Rounds(2, 77).counted({}) == Rounds(2, 77)
