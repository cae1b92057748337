"""gnt-node evacuate and gnt-instance change-group: jobs that Ganeti accepts and carries out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from asserting import some
from thorough import often

from .cluster import DEFAULT_GROUP, RACK2, Done, Lab, op

#: Holds the secondary of a pretended drbd instance and nothing else.
NODE = "node7.lab"
TEMPLATES = {"shared.lab": "sharedfile", "bare.lab": "diskless"}


@pytest.fixture
def residents(lab: Lab) -> Iterator[list[str]]:
    """Two instances that can be moved, created on one node without an allocator."""
    lab.do(*(lab.create(name, NODE, template, nics=[{}]) for name, template in TEMPLATES.items()))
    yield sorted(TEMPLATES)
    lab.remove(*TEMPLATES)


def _moved(done: Done) -> dict[str, list[str]]:
    """Instance -> nodes, from the answer."""
    moved, failed, _ = done.call.answer["result"]
    assert done.call.answer["success"] is True
    assert failed == []
    return {name: nodes for name, _, nodes in moved}


def test_evacuate_primaries(lab: Lab, residents: list[str]) -> None:
    done = lab.ok(f"gnt-node evacuate -f -p -I steward {NODE}")

    assert done.call.request["evac_mode"] == "primary-only"
    assert sorted(done.call.request["instances"]) == residents
    moved = _moved(done)
    for name in residents:
        assert lab.nodes_of(name) == moved[name]
        assert moved[name][0] in set(RACK2) - {NODE}
    # Both kinds count alike: one to each of the other nodes.
    assert len({nodes[0] for nodes in moved.values()}) == 2
    assert "All instances evacuated successfully." in done.text


def test_evacuate_nothing_when_one_cannot_go(lab: Lab, residents: list[str]) -> None:
    """Ganeti then moves none of them, and prints the reason."""
    lab.do(lab.create("local.lab", NODE, "file"))
    try:
        done = lab.fails(f"gnt-node evacuate -f -p -I steward {NODE}")
        assert "Unable to evacuate instances local.lab" in done.text
        assert "its disks exist only on " in done.text
        assert sorted(name for name, _, _ in done.call.answer["result"][0]) == residents
        assert [lab.nodes_of(name) for name in residents] == [[NODE], [NODE]]
    finally:
        lab.remove("local.lab")


def test_evacuate_secondaries(lab: Lab) -> None:
    """Ganeti takes the plan; the jobs fail when they look for the disk in the kernel."""
    done = lab.fails("gnt-node evacuate -f -s -I steward node6.lab")

    assert done.call.request["evac_mode"] == "secondary-only"
    assert done.call.request["instances"] == ["drbd2.lab"]
    assert _moved(done) == {"drbd2.lab": ["node5.lab", "node7.lab"]}
    assert "/proc/drbd cannot be opened, check if the module is loaded" in done.text


def test_evacuate_drbd_primaries(lab: Lab) -> None:
    done = lab.run("gnt-node evacuate -f -p -I steward node6.lab")

    assert done.call.request["instances"] == ["drbd4.lab"]
    assert _moved(done) == {"drbd4.lab": ["node7.lab", "node6.lab"]}
    ((operation,),) = done.call.answer["result"][2]
    assert operation["OP_ID"] == "OP_INSTANCE_MIGRATE"
    assert done.status == 1, str(done)


@pytest.mark.parametrize("to", ["--to default", ""][: often(1, 2)])
def test_change_group(lab: Lab, residents: list[str], to: str) -> None:
    for name in some(residents):
        done = lab.ok(f"gnt-instance change-group -I steward {to} {name}")

        assert done.call.request["type"] == "change-group"
        assert done.call.request["instances"] == [name]
        ((_, group, nodes),), _, _ = done.call.answer["result"]
        assert group == "default"
        assert nodes[0] in DEFAULT_GROUP
        assert lab.nodes_of(name) == nodes


def test_change_group_of_drbd(lab: Lab) -> None:
    done = lab.fails("gnt-instance change-group -I steward drbd2.lab")

    assert done.call.request["instances"] == ["drbd2.lab"]
    (job,) = done.call.answer["result"][2]
    assert [operation["OP_ID"] for operation in job] == [
        "OP_INSTANCE_REPLACE_DISKS",
        "OP_INSTANCE_MIGRATE",
        "OP_INSTANCE_REPLACE_DISKS",
    ]
    ((_, group, nodes),), _, _ = done.call.answer["result"]
    assert group == "default"
    assert set(nodes) < set(DEFAULT_GROUP)


def test_reason_when_no_group_takes_it(lab: Lab, residents: list[str]) -> None:
    lab.do(op("GROUP_SET_PARAMS", group_name="default", alloc_policy="unallocable"))
    try:
        done = lab.fails(f"gnt-instance change-group -I steward {residents[0]}")
        assert f"{residents[0]} (group default: the group is unallocable)" in done.text
    finally:
        lab.do(op("GROUP_SET_PARAMS", group_name="default", alloc_policy="preferred"))
