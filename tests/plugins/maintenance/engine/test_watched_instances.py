"""Instances that are down though their node is up: what is reported, and that nothing is done.

Expectations come from the definition: Ganeti's watcher starts them each 5 minutes, 5 times.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import Any, Final

import pytest
from asserting import some
from small_repair import plan
from thorough import often
from worlds import NOW, SECOND, incident, instance, node, uuid_of, world

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.model.cluster import HYPERVISOR_FIGURES
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.decision import Decision, Inputs, Lasting, Recent
from ganeti_steward.plugins.maintenance.engine.step import step
from ganeti_steward.plugins.maintenance.repairs.planner import PluginRoutine
from ganeti_steward.plugins.model.incident import NOTED, PENDING, Submission
from ganeti_steward.plugins.model.routine import RoutineJob
from ganeti_steward.plugins.model.world import Reported, Starts, Watcher, World

NODES: Final = ("n1", "n2", "n3", "n4")
STATUSES: Final = ("running", "ERROR_down", "ERROR_down", "ERROR_nodedown", "ERROR_up", "USER_down")
WORDS: Final = {"down", "crash-loop"}
CONFIG: Final = Maintd(mode="act", routine=("harep", "rebalance"), hold_time=0, storm_share=1)
MINUTE: Final = 60 * SECOND
SEEDS: Final = often(20, 100, 20)
_SILENT: Final[Any] = {
    **dict.fromkeys(("memory", "disk", "cpus"), 0),
    "missing": HYPERVISOR_FIGURES,
}


@cache
def routine() -> PluginRoutine:
    return PluginRoutine(Config({"maintd": CONFIG}))


def decided(seen: World, since: dict[str, int]) -> Decision:
    # The score was too high for long enough.
    uneven = {"rebalance": Lasting({"group g1": 0})}
    inputs = Inputs(seen, since=uneven, recent=Recent(down=since))
    return step(inputs, CONFIG, plan, routine())


def words_of(decision: Decision) -> dict[str, str]:
    """Instance -> word."""
    found = [one for one in decision.held if one.brake in WORDS]
    assert len({one.subject for one in found}) == len(found)
    return {one.subject: one.brake for one in found}


class Made:
    """A world with any instances, nodes, incidents, jobs, and starts of the watcher."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.dead = {name for name in NODES[1:] if rng.random() < 0.2}
        repaired = rng.sample(NODES[1:], rng.choice([0, 1, 1]))
        self.pending = {name for name in repaired if rng.random() < 0.5}
        self.instances = [
            instance(
                f"i{at}",
                *rng.sample(NODES, rng.choice([1, 2])),
                template="",
                up=rng.random() < 0.8,
                status=rng.choice(STATUSES),
                tags=("ganeti:watcher:autorepair:failover",) if rng.random() < 0.5 else (),
            )
            for at in range(12)
        ]
        names = [one.name for one in self.instances]
        self.used = set(rng.sample(names, 2))
        first, second = sorted(self.used)
        open_one = Submission("s1", "move", (), (first,), NOW, jobs=(5,))
        incidents = [
            incident(
                name,
                status=PENDING if name in self.pending else NOTED,
                jobs=(5,) if name in self.pending else (),
                open=(open_one,) if name in self.pending else (),
            )
            for name in repaired
        ]
        if not self.pending:
            self.used.remove(first)
        job = RoutineJob(7, "rebalance", "move", "group g1", (), (second,), status="running")
        nodes = [
            node(name, master=name == "n1", **(_SILENT if name in self.dead else {}))
            for name in NODES
        ]
        numbers = {name: rng.choice([0, 0, 1, 4, 5, 6]) for name in names}
        self.starts = {
            name: Starts(number, NOW - 90 * MINUTE, NOW - rng.choice([1, 9, 11]) * MINUTE, 9)
            for name, number in numbers.items()
            if number
        }
        self.since = {
            name: NOW - rng.choice([0, 9, 10, 300]) * MINUTE for name in names if rng.random() < 0.9
        }
        self.paused = rng.random() < 0.2
        found = {name: Reported(b'{"status":"Ok"}', "Ok", "", NOW) for name in NODES}
        for one in incidents:
            found[one.node_name] = Reported(one.original, one.action, "", NOW)
        self.world = world(nodes, self.instances, incidents, found, routine=(job,))
        self.watched = self.world._replace(
            watcher=Watcher(self.starts, NOW + MINUTE if self.paused else 0)
        )

    def expected(self, decision: Decision) -> dict[str, str]:
        """By the definition; what the decision deals with is left to it."""
        found = {}
        begun = {one.node_name for one in decision.records if one.status == PENDING}
        tasks = (*decision.started, *decision.routine)
        used = self.used.union(*(one.task.instances for one in tasks))
        for one in self.instances:
            primary = one.nodes[0]
            if one.state != "up" or one.sent.text("status") != "ERROR_down":
                continue
            if primary in self.dead | self.pending | begun or one.name in used:
                continue
            loop = one.name in self.starts and self.starts[one.name].number >= 5
            long = NOW - self.since.get(one.name, NOW) >= 10 * MINUTE
            if loop and not self.paused:
                found[one.name] = "crash-loop"
            elif loop or long:
                found[one.name] = "down"
        return found


def test_who_is_named() -> None:
    words = []
    for seed in range(SEEDS):
        made = Made(seed)
        decision = decided(made.watched, made.since)
        expected = made.expected(decision)
        assert words_of(decision) == expected, seed
        words += expected.values()
    assert set(some(words)) == WORDS


def test_nothing_else_is_decided() -> None:
    """What the watcher does, and how long something is down, changes nothing that is done."""
    work = Counter[str]()
    for seed in range(SEEDS):
        made = Made(seed)
        one, other = decided(made.watched, made.since), decided(made.world, {})
        rest = [held for held in one.held if held.brake not in WORDS]
        assert rest == [held for held in other.held if held.brake not in WORDS]
        assert one._replace(held=(), recent=Recent()) == other._replace(held=(), recent=Recent())
        assert one.recent._replace(down={}) == other.recent._replace(down={})
        work.update("repair" for _ in one.started)
        work.update(task.plugin for task in one.routine)
    assert {*work} == {"repair", "harep", "rebalance"}


def test_since_when_it_is_down() -> None:
    made = world([node("n1", master=True)], [instance("a", "n1", status="ERROR_down")])
    first = decided(made, {}).recent.down
    assert first == {"a": NOW}
    later = decided(made._replace(now=NOW + MINUTE), {"a": NOW, "gone": NOW}).recent.down
    assert later == first
    back = decided(made._replace(now=NOW - MINUTE), {"a": NOW}).recent.down
    assert back == {"a": NOW - MINUTE}, "the clock was set back"


def sentence(watcher: Watcher, *, minutes: int = 30, groups: tuple[str, str] = ("g1", "g1")) -> str:
    """What is reported of an instance that is down for so long; with its word."""
    nodes = [node("n1", master=True, group=groups[0]), node("n2", group=groups[1])]
    seen = world(nodes, [instance("a", "n1", "n2", status="ERROR_down")], watcher=watcher)
    held = [one for one in decided(seen, {"a": NOW - minutes * MINUTE}).held if one.brake in WORDS]
    for one in held:
        assert one.since == NOW - minutes * MINUTE
        assert one.sentence.startswith("a is down though n1 answers: ")
    return "; ".join(f"{one.brake}: {one.sentence.partition(': ')[2]}" for one in held)


def starts(number: int, last: int, error: str = "") -> Watcher:
    """The first one was an hour ago, the last one so many minutes."""
    return Watcher({"a": Starts(number, NOW - 60 * MINUTE, NOW - last * MINUTE, 17, error)})


#: An hour ago.
FIRST: Final = "2026-01-07 11:00:00 UTC"


@pytest.mark.parametrize(
    ("watcher", "minutes", "text"),
    [
        (Watcher(), 9, ""),
        (Watcher(), 10, "down: ganeti-watcher, which runs each 5 minutes, has not started it"),
        (starts(4, 3), 9, ""),
        (
            starts(3, 3),
            10,
            f"down: ganeti-watcher has started it 3 times since {FIRST}; the next try is at most 5 "
            "minutes away",
        ),
        (
            starts(1, 15),
            10,
            f"down: ganeti-watcher has started it once since {FIRST}, and not again since "
            "2026-01-07 11:45:00 UTC",
        ),
        (
            starts(2, 3, "no bridge"),
            10,
            f"down: ganeti-watcher has started it 2 times since {FIRST}; the next try is at most 5 "
            "minutes away; its last job, 17, failed: no bridge",
        ),
        (starts(5, 3), 1, f"crash-loop: ganeti-watcher has started it 5 times since {FIRST}"),
        (
            starts(5, 15, "no bridge"),
            40,
            "crash-loop: ganeti-watcher has given up for 8 hours: it has started it 5 times since "
            f"{FIRST}; its last job, 17, failed: no bridge",
        ),
        (
            Watcher({}, NOW + 60 * MINUTE),
            10,
            "down: ganeti-watcher, which would start it, is paused until 2026-01-07 13:00:00 UTC",
        ),
        (
            Watcher({}, NOW),
            10,
            "down: ganeti-watcher, which runs each 5 minutes, has not started it",
        ),
    ],
)
def test_the_sentences(watcher: Watcher, minutes: int, text: str) -> None:
    assert sentence(watcher, minutes=minutes) == text


def test_an_instance_in_two_groups() -> None:
    text = "down: ganeti-watcher ignores it because its nodes are in different groups"
    assert sentence(Watcher(), groups=("g1", "g2")) == text


def test_how_long_it_was_down_need_not_be_known() -> None:
    """Another process than the daemon says since when nothing is."""
    seen = world([node("n1", master=True)], [instance("a", "n1", status="ERROR_down")])
    (held,) = (one for one in decided(seen, {"a": 0}).held if one.brake in WORDS)
    assert (held.brake, held.since, held.values) == ("down", 0, (("starts", 0),))


def test_the_uuid_of_a_node_decides_about_its_repair() -> None:
    """An incident of a node of another name is that of the primary when the uuid is its own."""
    down = instance("a", "n2", status="ERROR_down")
    renamed = incident("n2", status=PENDING, node=uuid_of("n2"), node_name="old")
    seen = world([node("n1", master=True), node("n2")], [down], [renamed])
    assert words_of(decided(seen, {"a": 0})) == {}
