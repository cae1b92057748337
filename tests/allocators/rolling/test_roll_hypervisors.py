"""Which migrations QEMU or a CPU troubles, and plans that have as few of them as is possible."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

import pytest
from rolled import faults
from thorough import seeds
from worlds import instance, node, world

from ganeti_steward.allocators.rolling import roll as rolls
from ganeti_steward.allocators.rolling.hypervisors import (
    NOT_REPORTED,
    Hypervisor,
    Hypervisors,
    Running,
)
from ganeti_steward.allocators.rolling.roll import Roll, RollOptions, plan_roll
from ganeti_steward.allocators.rolling.rounds import RoundLimits
from ganeti_steward.core.model.cluster import Cluster

#: Machine types of the versions of QEMU in Debian 12 and 13.
OLD: Final = {"pc": "pc-i440fx-7.2", "pc-i440fx-7.2": ""}
NEW: Final = {"pc": "pc-i440fx-10.0", "pc-i440fx-10.0": "", "pc-i440fx-7.2": ""}
FLAGS: Final = ("avx", "avx2", "fpu", "sse2")


def old(**running: Running) -> Hypervisor:
    return Hypervisor("7.2.22", OLD, "CPU", FLAGS, running)


def new(**running: Running) -> Hypervisor:
    return Hypervisor("10.0.7", NEW, "CPU", FLAGS, running)


def ran(machine: str, *, host_cpu: bool = False) -> Running:
    return Running(machine, host_cpu)


def sentence(nodes: Mapping[str, Hypervisor]) -> str:
    """The trouble with the migration of web to node2."""
    trouble = Hypervisors(nodes).trouble("web", "node2")
    return trouble.sentence if trouble else ""


@pytest.mark.parametrize(
    ("here", "there", "trouble"),
    [
        (
            new(web=ran("pc-i440fx-10.0")),
            old(),
            "QEMU 7.2.22 on node2 does not have the machine type pc-i440fx-10.0: the "
            "migration fails",
        ),
        # It was started before its node got another QEMU, or its machine_version says so.
        (new(web=ran("pc-i440fx-7.2")), old(), ""),
        (old(web=ran("pc-i440fx-7.2")), new(), ""),
        # QEMU removes old machine types, too.
        (
            old(web=ran("pc-i440fx-1.4")),
            new(),
            "QEMU 10.0.7 on node2 does not have the machine type pc-i440fx-1.4: the "
            "migration fails",
        ),
        (
            old(web=ran("pc")),
            new(),
            "the machine type pc is pc-i440fx-7.2 on node1 and pc-i440fx-10.0 on node2: it may "
            "crash",
        ),
        (old(web=ran("pc")), old(), ""),
        (
            old(web=ran("pc-i440fx-7.2", host_cpu=True)),
            old()._replace(flags=("fpu", "sse2", "xtopology")),
            "the CPU of node2 lacks avx, avx2, which that of node1 has, and cpu_type is host: it "
            "may crash",
        ),
        # What a newer kernel alone shows is nothing that instances use.
        (
            old(web=ran("pc-i440fx-7.2", host_cpu=True))._replace(flags=(*FLAGS, "cpuid_fault")),
            old(),
            "",
        ),
        (old(web=ran("pc-i440fx-7.2")), old()._replace(flags=()), ""),
        # What is not known is no trouble.
        (old(), old(), ""),
        (old(web=ran("pc")), Hypervisor(), ""),
        (Hypervisor(running={"web": ran("pc", host_cpu=True)}), new(), ""),
    ],
)
def test_trouble(here: Hypervisor, there: Hypervisor, trouble: str) -> None:
    assert sentence({"node1": here, "node2": there}) == trouble


def test_of_what_nothing_is_known() -> None:
    found = Hypervisors({"node1": old(web=ran("pc")), "node2": old(), "node3": Hypervisor()})
    known = [found.knows("web", name) for name in ("node1", "node2", "node3", "node4")]
    assert known == [True, True, False, False]
    assert not found.knows("other", "node2")
    assert found.trouble("other", "node2") is found.trouble("web", "node4") is None


def test_shared_storage_goes_where_qemu_takes_it() -> None:
    """Even where another node has more memory; not where that is the only one with room."""
    nodes = [node("node1"), node("node2"), node("node3", memory=32768)]
    cluster = world(nodes, [instance("web", "node1", template="rbd")]).cluster
    reported = {"node1": new(web=ran("pc-i440fx-10.0")), "node2": new(), "node3": old()}
    assert target(cluster, NOT_REPORTED) == "node3"
    assert target(cluster, Hypervisors(reported)) == "node2"
    assert target(cluster, Hypervisors(reported | {"node2": old()})) == "node3"
    suspect = cluster.replace(
        one._replace(suspect="reports suspect") if one.name == "node2" else one
        for one in cluster.nodes
    )
    assert target(suspect, Hypervisors(reported)) == "node3"


def target(cluster: Cluster, hypervisors: Hypervisors) -> str:
    (one,) = plan_roll(cluster, ["node1"], hypervisors=hypervisors).rounds
    return one.leaves[0].target


def test_the_oldest_node_comes_first() -> None:
    """After its maintenance it may have the QEMU that the others need."""
    cluster = world(
        [node("node1"), node("node2")],
        [instance("web", "node1", "node2"), instance("db", "node2", "node1")],
    ).cluster
    reported = Hypervisors(
        {
            "node1": new(web=ran("pc-i440fx-10.0")),
            "node2": old(db=ran("pc-i440fx-7.2")),
        }
    )
    assert [one.nodes for one in plan_roll(cluster, ["node1", "node2"]).rounds] == [
        ("node1",),
        ("node2",),
    ]
    roll = plan_roll(cluster, ["node1", "node2"], hypervisors=reported)
    assert [one.nodes for one in roll.rounds] == [("node2",), ("node1",)]
    (one,) = roll.in_trouble(reported)
    assert (one.round, one.leave.instance, one.earlier) == (2, "web", 1)
    # Another CPU is not brought by any work.
    lacking = old()._replace(flags=("fpu",))
    hosts = Hypervisors({"node1": old(web=ran("pc", host_cpu=True)), "node2": lacking})
    (one,) = plan_roll(cluster, ["node1", "node2"], hypervisors=hosts).in_trouble(hosts)
    assert (one.leave.instance, one.earlier) == ("web", 0)


def made(rng: Random) -> tuple[Cluster, Hypervisors]:
    """A cluster in the middle of an upgrade."""
    names = [f"node{n}" for n in range(rng.randint(2, 6))]
    instances, running = [], dict[str, dict[str, Running]]()
    for number in range(rng.randint(1, 8)):
        here, other = rng.sample(names, 2)
        drbd = rng.random() < 0.7
        kind = {} if drbd else {"template": "rbd"}
        size = rng.choice([512, 2048, 6000])
        places = (here, other) if drbd else (here,)
        instances.append(instance(f"i{number}", *places, memory=size, **kind))  # type: ignore[arg-type]
        running.setdefault(here, {})[f"i{number}"] = ran(
            rng.choice(["pc", "pc-i440fx-7.2", "pc-i440fx-10.0"]), host_cpu=rng.random() < 0.3
        )
    reported = {
        name: rng.choice([old, new])(**running.get(name, {}))._replace(
            flags=rng.choice([FLAGS, FLAGS[1:]])
        )
        for name in names
        if rng.random() < 0.9
    }
    nodes = [node(name, master=name == "node0", suspect="") for name in names]
    return world(nodes, instances).cluster, Hypervisors(reported)


def open_troubles(roll: Roll, hypervisors: Hypervisors) -> int:
    return len([one for one in roll.in_trouble(hypervisors) if not one.earlier])


@pytest.mark.parametrize("seed", seeds(8, 300))
def test_never_more_rounds_and_never_more_trouble(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The search for fewer rounds takes seconds where there are none.
    monkeypatch.setattr(rolls, "EFFORT", 100)
    rng = Random(seed)
    cluster, hypervisors = made(rng)
    names = [one.name for one in cluster.nodes]
    for at_once in (0, 1):
        for returns, full in ((True, False), (False, False), (True, True)):
            options = RollOptions(limits=RoundLimits(at_once), returns=returns, full=full)
            plain = plan_roll(cluster, names, options)
            found = plan_roll(cluster, names, options, hypervisors=hypervisors)
            assert len(found.impossible) <= len(plain.impossible)
            if len(found.impossible) == len(plain.impossible):
                assert len(found.rounds) <= len(plain.rounds)
            if returns and not full:
                assert not faults(cluster, found, names)
            if [*map(len, found)] == [*map(len, plain)]:
                assert open_troubles(found, hypervisors) <= open_troubles(plain, hypervisors)
