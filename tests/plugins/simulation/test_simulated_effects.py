"""What operations do to a simulated cluster: those that its runs seldom have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from worlds import GROUP, after, changed, instance, node, uuid_of, world

from ganeti_steward.allocators.jobs.operations import failover
from ganeti_steward.plugins.maintenance.repairs.disk_gate import VERIFY_DISKS
from ganeti_steward.plugins.model.operations import (
    copy_to,
    out_of_band,
    promote,
    repair_storage,
    set_allocatable,
    set_role,
    take_back,
)
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.effects import QUERY_STORAGE, QUERY_VOLUMES, Effects
from ganeti_steward.plugins.simulation.jobs import JobFailed

NODES: Final = [node("n1", master=True), node("n2"), node("n3")]
START: Final = world(
    NODES,
    [
        instance("a", "n1", "n2"),
        instance("b", "n2", template="plain"),
        instance("c", "n2", template="plain", up=False),
    ],
)
VERIFY: Final = {"OP_ID": VERIFY_DISKS, "group_name": GROUP}


def result(operation: Mapping[str, Any], *dead: str) -> Any:
    cluster = SimulatedCluster(START, lambda: START.now)
    for name in dead:
        cluster.power(name, dead=True)
    return Effects(cluster).run(operation)


@pytest.mark.parametrize("name", ["b", "c"])
def test_disks_that_are_copied_to_another_node(name: str) -> None:
    moved = after(START, [[copy_to(name, "n3")]])
    one, before = moved.cluster.instance(name), START.cluster.instance(name)
    assert one == before._replace(nodes=("n3",))
    free = moved.cluster.node("n3")
    assert free.free_disk == NODES[2].free_disk - one.disk_space
    assert free.free_memory == NODES[2].free_memory - (one.memory if one.uses_memory else 0)


@pytest.mark.parametrize(
    ("operation", "dead", "text"),
    [
        (copy_to("a", "n3"), "", "Instance disk 0 has disk type drbd and is not suitable for"),
        (copy_to("b", "n2"), "", "Instance b is already on the node n2"),
        (copy_to("b", "n3"), "n2", "Can't contact node n2"),
        (copy_to("b", "n3"), "n3", "Can't contact node n3"),
        (set_allocatable("n3", "/dev/sda", False), "n3", "Can't contact node n3"),
        (repair_storage("n4", "xenvg"), "", "Node 'n4' not known"),
        ({**VERIFY, "group_name": "g2"}, "", "Group 'g2' not known"),
    ],
)
def test_what_is_refused(operation: Mapping[str, Any], dead: str, text: str) -> None:
    with pytest.raises(JobFailed, match=text):
        result(operation, *filter(None, [dead]))


@pytest.mark.parametrize(
    "operation",
    [
        set_allocatable("n3", "/dev/sda", False),
        repair_storage("n3", "xenvg"),
        {"OP_ID": QUERY_STORAGE, "storage_type": "lvm-pv", "nodes": ["n1", "n3"]},
        {"OP_ID": QUERY_VOLUMES, "nodes": ["n3"]},
    ],
    ids=lambda operation: operation["OP_ID"],
)
def test_nothing_is_known_of_physical_volumes(operation: Mapping[str, Any]) -> None:
    assert result(operation) == []


@pytest.mark.parametrize(
    ("dead", "silent", "down"), [((), (), []), (("n1",), ("n1",), ["a"]), (("n2",), ("n2",), [])]
)
def test_disks_of_a_node_group(
    dead: tuple[str, ...], silent: tuple[str, ...], down: list[str]
) -> None:
    """Only disks with a copy can be activated; no volume is ever missing."""
    found = result(VERIFY, *dead)
    assert found == [
        {uuid_of(name): "Error 7: Failed to connect" for name in silent},
        down,
        {},
    ]


@pytest.mark.parametrize(
    ("state", "twice"), [("runs", set()), ("dead", set()), ("off", set()), ("cut", {"a"})]
)
def test_an_instance_that_still_runs_on_its_old_node_is_noted(state: str, twice: set[str]) -> None:
    """Ganeti stops nothing on a node that is marked offline, whether it runs or not."""
    cluster = SimulatedCluster(START, lambda: START.now)
    effects = Effects(cluster)
    if state == "dead":
        cluster.power("n2", dead=True)
    elif state != "runs":
        cluster.cut_off("n2", is_cut=True)
    if state == "off":
        effects.run(out_of_band("n2", "power-off"))
    cluster.place("a", ("n2", "n1"), live=True)
    if state != "runs":
        cluster.set_roles("n2", offline=True)
    effects.run(failover("a"))
    assert cluster.instances["a"].nodes == ("n1", "n2")
    assert cluster.run_twice == twice


@pytest.mark.parametrize("name", ["n2", "n3"])
def test_the_power_of_a_node(name: str) -> None:
    cluster = SimulatedCluster(START, lambda: START.now)
    effects = Effects(cluster)

    def status() -> Any:
        return effects.run(out_of_band(name, "power-status"))

    cluster.cut_off(name, is_cut=True)
    assert status() == [[[0, name], [0, {"powered": True}]]]
    for _ in range(2):
        assert effects.run(out_of_band(name, "power-off")) == [[[0, name], [0, None]]]
    assert status() == [[[0, name], [0, {"powered": False}]]]
    assert (cluster.switch_offs, cluster.cut) == ({True: 1}, set())


def test_a_node_that_a_person_has_switched_off_stays_so() -> None:
    cluster = SimulatedCluster(START, lambda: START.now)
    cluster.power("n3", out=True)
    Effects(cluster).run(out_of_band("n3", "power-off"))
    assert (cluster.out, cluster.dead, cluster.switch_offs) == ({"n3"}, set(), {})


def _roles(pool: int, operations: list[Mapping[str, Any]]) -> tuple[list[Any], list[str]]:
    """The results of operations on nodes, the first of which are candidates; the roles then."""
    nodes = [
        changed(one, master_candidate=number < pool) for number, one in enumerate([*NODES, LATER])
    ]
    start = world(nodes, [])._replace(candidate_pool_size=pool)
    cluster = SimulatedCluster(start, lambda: start.now)
    results = [Effects(cluster).run(one) for one in operations]
    found = cluster.nodes.values()
    return results, [one.name for one in found if one.master_candidate]


LATER: Final = node("n4")
DRAIN: Final = set_role("n2", "drained")


@pytest.mark.parametrize(
    ("pool", "operations", "candidates"),
    [
        (2, [DRAIN], ["n1", "n3"]),
        # Another node stands in, so it comes back as a regular one, unless that is requested.
        (2, [DRAIN, take_back("n2")], ["n1", "n3"]),
        (2, [DRAIN, take_back("n2", candidate=True)], ["n1", "n2", "n3"]),
        (4, [DRAIN], ["n1", "n3", "n4"]),
        # It is needed: no other node can be one.
        (4, [DRAIN, take_back("n2")], ["n1", "n2", "n3", "n4"]),
        (1, [take_back("n2")], ["n1"]),
        (2, [set_role("n4", "drained"), take_back("n4")], ["n1", "n2"]),
        (3, [DRAIN, promote("n2")], ["n1", "n2", "n3", "n4"]),
    ],
)
def test_candidates(pool: int, operations: list[Mapping[str, Any]], candidates: list[str]) -> None:
    """A node that is drained loses the role, and Ganeti keeps the pool at its size."""
    assert _roles(pool, operations)[1] == candidates


def test_the_roles_that_have_changed() -> None:
    results, _ = _roles(4, [DRAIN, take_back("n2"), take_back("n2")])
    assert results == [
        [["master_candidate", "False"], ["drained", "True"]],
        [["master_candidate", "True"], ["drained", "False"]],
        [],
    ]


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ({**DRAIN, "offline": True}, "more than one state"),
        ({**DRAIN, "auto_promote": False}, "Not enough master candidates"),
        (take_back("n1"), "only via master-failover"),
    ],
)
def test_roles_that_are_refused(operation: Mapping[str, Any], text: str) -> None:
    with pytest.raises(JobFailed, match=text):
        _roles(2, [operation])
