"""Moving what exists: relocate, allocate-secondary, and disks made again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cluster import DEFAULT_GROUP, RACK2, Lab, op


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ("-t sharedfile --disk 0:size=1G", "migrate"),
        ("-t ext --disk 0:size=1G,provider=labext", "failover"),
    ],
    ids=["migrate sharedfile", "failover ext"],
)
def test_move(lab: Lab, options: str, command: str) -> None:
    name = f"{command}.lab"
    (source,) = lab.add(options, name).call.nodes

    done = lab.ok(f"gnt-instance {command} -f -I steward {name}")

    assert done.call.request == {
        "type": "relocate",
        "name": name,
        "disk_space_total": 1024,
        "required_nodes": 1,
        "relocate_from": [source],
    }
    assert lab.nodes_of(name) == done.call.nodes
    (target,) = done.call.nodes
    group = DEFAULT_GROUP if source in DEFAULT_GROUP else RACK2
    assert target in set(group) - {source}


def test_new_secondary(lab: Lab) -> None:
    """Ganeti takes the node and fails only when it looks for the disk in the kernel."""
    primary, secondary = lab.nodes_of("drbd1.lab")

    done = lab.fails("gnt-instance replace-disks -I steward drbd1.lab")

    assert done.call.request["type"] == "relocate"
    assert done.call.request["relocate_from"] == [secondary]
    assert done.call.nodes == sorted(set(DEFAULT_GROUP) - {primary, secondary})
    assert f"Selected new secondary for instance '{_uuid(lab, 'drbd1.lab')}': " in done.text
    assert f"Can't find disk/0 on node {primary}: " in done.text
    assert "/proc/drbd cannot be opened, check if the module is loaded" in done.text


def test_plain_to_drbd(lab: Lab) -> None:
    (primary,) = lab.nodes_of("drbd5.lab")
    lab.ok("gnt-instance shutdown --timeout=0 drbd5.lab")

    done = lab.fails("gnt-instance modify -t drbd -I steward drbd5.lab")

    assert done.call.request == {"type": "allocate-secondary", "name": "drbd5.lab"}
    assert done.call.answer["success"] is True
    chosen = done.call.answer["result"]
    assert chosen in set(DEFAULT_GROUP) - {primary}
    assert f"steward choose {chosen} as new secondary" in done.text
    assert "there are no real logical volumes here (lvcreate)" in done.text


@pytest.fixture
def default_as_last_resort(lab: Lab) -> Iterator[None]:
    """Every new instance that may go anywhere goes to rack2."""
    lab.do(op("GROUP_SET_PARAMS", group_name="default", alloc_policy="last_resort"))
    yield
    lab.do(op("GROUP_SET_PARAMS", group_name="default", alloc_policy="preferred"))


@pytest.mark.usefixtures("default_as_last_resort")
def test_recreate_disks(lab: Lab) -> None:
    """Ganeti sends the request of a new instance, with the name of the existing one.

    It has locked that one's group only, and breaks when it is sent to another.
    """
    lab.ok("gnt-instance shutdown --timeout=0 drbd3.lab")

    done = lab.fails("gnt-instance recreate-disks -I steward drbd3.lab")

    assert done.call.request["type"] == "allocate"
    assert done.call.request["name"] == "drbd3.lab"
    assert done.call.request["group_name"] is None
    assert "drbd3.lab" in done.call.message["instances"]
    assert len(done.call.nodes) == 2
    assert set(done.call.nodes) < set(DEFAULT_GROUP)
    assert lab.nodes_of("drbd3.lab") == done.call.nodes
    assert "Internal assertion error" not in done.text
    assert "there are no real logical volumes here (lvcreate)" in done.text


def _uuid(lab: Lab, instance: str) -> str:
    (uuid,) = lab.query(f"gnt-instance list -o uuid {instance}")
    return uuid
