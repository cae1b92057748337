"""How much an attacker has the daemon do in a day with default settings, in mode ``act``.

The figures are those of the table on the security page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from maintained import EVACUATE, OK, Maintained, diagnose

from ganeti_steward.plugins.maintenance.config import ACT, Maintd
from ganeti_steward.plugins.maintenance.engine.decision import CommandResult

#: Seconds between two rounds, and how many there are in an hour and in all.
ROUND: Final = 60
HOUR: Final = 60
ROUNDS: Final = 24 * HOUR
NODES: Final = tuple(f"node{i}" for i in range(1, 11))
#: The attacker's own node.
OWN: Final = "node2"


class Done(NamedTuple):
    """What the daemon did in a day."""

    out: set[str]
    """nodes that it drained or set offline"""
    out_in_an_hour: int
    """the most that it took out of service within an hour"""
    moved: set[str]
    """instances that it moved"""
    commands: dict[str, int]
    """node -> how many repair commands it ran in the worst hour"""


Attack = Callable[[Maintained, int], None]


def a_day(attack: Attack) -> Done:
    """Rounds of a day, before each of which the attacker does something; all jobs succeed."""
    cluster = Maintained(nodes=10, instances=30, config=Maintd(mode=ACT))
    homes = {name: one.primary for name, one in cluster.instances.items()}
    out: dict[str, int] = {}
    commands: Counter[tuple[str, int]] = Counter()
    for number in range(ROUNDS):
        for node in NODES:
            cluster.report(node, OK)
        attack(cluster, number)
        cluster.wait(ROUND - 1)
        cluster.round()
        for job in cluster.pending_jobs():
            cluster.end(job)
        for submission in set(cluster.commands) - set(cluster.results):
            commands[cluster.commands[submission][0], number // HOUR] += 1
            cluster.results[submission] = CommandResult(True, "exit status 0")
        for one in cluster.nodes.values():
            if one.drained or one.offline:
                out.setdefault(one.name, number)
    worst: Counter[str] = Counter()
    for (name, _), count in commands.items():
        worst[name] = max(worst[name], count)
    hours = (sum(at <= one < at + HOUR for one in out.values()) for at in out.values())
    moved = {name for name, one in cluster.instances.items() if one.primary != homes[name]}
    return Done({*out}, max(hours, default=0), moved, dict(worst))


def evacuate(number: int) -> bytes:
    """An object that was never reported before."""
    return diagnose("evacuate", details=str(number))


def acknowledge(cluster: Maintained) -> None:
    """A writer of tags removes all results."""
    for incident in cluster.records.values():
        if incident.node in cluster.nodes:
            cluster.untag(incident.node.removeprefix("uuid-"), incident.tag)


def test_who_writes_tags_and_rules_only() -> None:
    """Healthy nodes stay, whatever is done to tags."""

    def attack(cluster: Maintained, number: int) -> None:
        acknowledge(cluster)
        for node in NODES[1:]:
            cluster.tag(node, f"maintd:stopped:uuid-{node}")
            cluster.tag(node, f"maintd:repairready:{number % 10}")

    assert a_day(attack) == Done(set(), 0, set(), {})


def own_node_evacuates(cluster: Maintained, number: int) -> None:
    cluster.report(OWN, evacuate(number // 6))


def own_node_and_tags(cluster: Maintained, number: int) -> None:
    own_node_evacuates(cluster, number)
    acknowledge(cluster)


@pytest.mark.parametrize("attack", [own_node_evacuates, own_node_and_tags])
def test_one_node(attack: Attack) -> None:
    """It loses its own instances, and no other node is touched."""
    done = a_day(attack)
    before = {name for name, one in Maintained(10, 30).instances.items() if one.primary == OWN}
    assert done == Done({OWN}, 1, before, {})


def test_one_node_with_repair_commands() -> None:
    """The agent has limits of its own, and a command must be one of the node's administrator."""

    def attack(cluster: Maintained, number: int) -> None:
        cluster.report(OWN, diagnose("live-repair", command="fix-nic", details=str(number // 6)))

    done = a_day(attack)
    assert (done.out, done.moved) == (set(), set())
    assert set(done.commands) == {OWN}
    assert done.commands[OWN] <= 4


def test_the_same_report_all_the_time_with_repair_commands() -> None:
    """Its record and its tag are removed once the command has run, as a writer of rules can do."""

    def attack(cluster: Maintained, number: int) -> None:
        cluster.report(OWN, diagnose("live-repair", command="fix-nic"))
        acknowledge(cluster)
        cluster.records = {uuid: one for uuid, one in cluster.records.items() if one.active}

    done = a_day(attack)
    assert done.commands == {OWN: 1}


def test_the_holder_of_the_key() -> None:
    """As many nodes as ``most-waiting``, until a person acknowledges one."""

    def attack(cluster: Maintained, number: int) -> None:
        healthy = [one for one in NODES[1:] if not out_of_service(cluster, one)]
        for node in healthy[:1]:
            cluster.report(node, EVACUATE)

    done = a_day(attack)
    assert len(done.out) == Maintd().most_waiting
    assert done.out_in_an_hour <= Maintd().most_waiting


def test_the_holder_of_the_key_who_writes_tags() -> None:
    """With the power to acknowledge, one node after the other goes, each after the hold time."""

    def attack(cluster: Maintained, number: int) -> None:
        acknowledge(cluster)
        healthy = [one for one in NODES[1:] if not out_of_service(cluster, one)]
        for node in healthy[:1]:
            cluster.report(node, EVACUATE)

    done = a_day(attack)
    assert "node1" not in done.out
    assert done.out_in_an_hour <= 3600 / Maintd().hold_time


def out_of_service(cluster: Maintained, node: str) -> bool:
    facts = cluster.nodes[f"uuid-{node}"]
    return facts.drained or facts.offline


def test_all_nodes_at_once() -> None:
    """A storm: nothing is done."""

    def attack(cluster: Maintained, number: int) -> None:
        for node in NODES:
            cluster.report(node, evacuate(number // 6))

    assert a_day(attack) == Done(set(), 0, set(), {})
