"""200 instances with DRBD that are created at once, judged by Ganeti's configuration.

Ganeti records a new instance as stopped, and as running when its operating system is installed.
Meanwhile its nodes are free for other jobs, and no message has the memory of the instance.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from .cluster import NODES, until
from .conftest import lacking
from .drbd_lab import DrbdLab

pytestmark = pytest.mark.thorough

SYSTEM: Final = "/srv/ganeti/os/slow"
#: How long each operating system is installed, s.
INSTALLATION: Final = 25
NUMBER: Final = 200
#: Of each instance, MiB: all of them fit, but not so that any one node may fail afterwards.
MEMORY: Final = 832
#: How often what failed for a while only is tried, and Ganeti's word for that.
TRIES: Final = 12
LATER: Final = "temp_insufficient_resources"


@pytest.fixture(scope="module", autouse=True)
def _as_found() -> None:
    """In place of the fixture of that name for the usual lab, which is not needed here."""


@pytest.fixture
def storm() -> Iterator[DrbdLab]:
    """A lab whose instances take their time to be installed."""
    if reason := lacking():
        pytest.skip(reason)
    lab = DrbdLab("storm", NODES)
    try:
        lab.make()
        lab.install_steward()
        lab.configure("[allocators]\nrecent = 300\n")
        # Memory alone limits where they can be.
        lab.ok("gnt-cluster modify --ipolicy-spindle-ratio=1000 --ipolicy-vcpu-ratio=1000")
        script = lab.directory / "create"
        script.write_text(f"#!/bin/sh\nsleep {INSTALLATION}\n")
        script.chmod(0o755)
        make = f"mkdir -p {SYSTEM} && cp -rL /usr/share/ganeti/os/noop/. {SYSTEM}"
        for node in lab.nodes:
            lab.ok(f"-n {node} sh -c '{make} && cp {script} {SYSTEM}/create'")
        yield lab
    finally:
        lab.down()


def created(lab: DrbdLab, allocator: str) -> Counter[str]:
    """How the jobs ended that create all at once.

    One that finds the nodes locked that it needs fails with a word that says: try again later.
    """
    names, ended = [f"many{number}.lab" for number in range(NUMBER)], Counter[str]()
    for _ in range(TRIES):
        if not names:
            break
        jobs = [[_creation(lab, name, allocator)] for name in names]
        numbers = [int(number) for _, number in lab.luxi.call("SubmitManyJobs", jobs)]
        until(lambda at=numbers: all(one.ended for one in lab.luxi.states(at)), 3600, every=5)
        states = dict(zip(names, lab.luxi.states(numbers), strict=True))
        names = [name for name, one in states.items() if LATER in str(one)]
        ended += Counter(one.status for name, one in states.items() if name not in names)
    return ended + Counter(later=len(names))


def refused(lab: DrbdLab) -> list[str]:
    """Why jobs have failed, some examples."""
    rows = lab.rows("job", "status", "opresult")
    return sorted({str(results) for status, results in rows if status == "error"})[:3]


def _creation(lab: DrbdLab, name: str, allocator: str) -> dict[str, Any]:
    more = {
        "os_type": "slow",
        "beparams": {"memory": MEMORY, "vcpus": 1},
        "disks": [{"size": 128}],
        "iallocator": allocator,
        "opportunistic_locking": True,
    }
    found = lab.create(name, "", "drbd", **more)
    del found["pnode"]
    return found


class Room(NamedTuple):
    """What Ganeti's configuration says of all nodes."""

    overcommitted: list[str]
    """nodes whose instances have more memory than the node"""
    no_failover: list[str]
    """nodes whose instances do not all fit on their secondaries"""


def room(lab: DrbdLab) -> Room:
    """Whether all have room, from the file of the configuration alone."""
    left = {name: total - own for name, total, own in lab.rows("node", "name", "mtotal", "mnode")}
    need: dict[str, Counter[str]] = defaultdict(Counter)
    file = lab.directory / "nodes" / lab.master / "var-lib-ganeti/config.data"
    configuration: dict[str, Any] = json.loads(file.read_text())
    names = {uuid: node["name"] for uuid, node in configuration["nodes"].items()}
    disks = configuration["disks"]
    for instance in configuration["instances"].values():
        size, primary = instance["beparams"]["maxmem"], names[instance["primary_node"]]
        left[primary] -= size
        (disk,) = instance["disks"]
        (secondary,) = {names[uuid] for uuid in disks[disk]["logical_id"][:2]} - {primary}
        need[primary][secondary] += size
    return Room(
        sorted(name for name, free in left.items() if free < 0),
        sorted(
            name
            for name, sizes in need.items()
            if any(size > left[other] for other, size in sizes.items())
        ),
    )


@pytest.mark.parametrize("allocator", ["steward", "hail"])
def test_a_storm_leaves_room(storm: DrbdLab, allocator: str) -> None:
    """With places of the last minutes nothing is overcommitted and each node may fail."""
    ended = created(storm, allocator)
    found = room(storm)
    # Of what the other allocator does only the figures are wanted.
    print(f"{allocator}: {dict(ended)}, {found}, refused: {refused(storm)}")
    if allocator == "steward":
        assert found == Room([], [])
        # The others would not have left room for the failure of a node.
        assert ended["success"] > NUMBER / 2
