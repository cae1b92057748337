"""Instances that are created at once: what nodes have in the end, by Ganeti's configuration.

Ganeti records a new instance as stopped, and as running when its operating system is installed.
Meanwhile the node is free for other jobs, and no message has the memory of the instance.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from .cluster import DEFAULT_GROUP, MASTER, RACK2, Lab, until

SYSTEM: Final = "/srv/ganeti/os/slow"
#: A node of the lab has room for two of them.
MEMORY: Final = 12 * 1024
#: More than fit, so that the last ones must be refused; Ganeti runs 20 jobs at a time.
NUMBER: Final = 18


@pytest.fixture
def _slow_system(lab: Lab) -> Iterator[None]:
    """An operating system whose installation ends when a file is there."""
    wait = f"while [ ! -e {installed(lab)} ]; do sleep 0.2; done"
    script = lab.directory / "create"
    script.write_text(f"#!/bin/sh\n{wait}\n")
    script.chmod(0o755)
    make = f"mkdir -p {SYSTEM} && cp -rL /usr/share/ganeti/os/noop/. {SYSTEM}"
    for node in (*DEFAULT_GROUP, *RACK2):
        lab.ok(f"-n {node} sh -c '{make} && cp {script} {SYSTEM}/create'")
    # The pretended instances could not leave their nodes.
    lab.ok("gnt-cluster modify --default-iallocator-params=-no-capacity-checks")
    yield
    lab.ok("gnt-cluster modify --default-iallocator-params=")
    for node in (*DEFAULT_GROUP, *RACK2):
        lab.ok(f"-n {node} rm -r {SYSTEM}")


def installed(lab: Lab) -> Path:
    return lab.directory / "installed"


def created(lab: Lab) -> Counter[str]:
    """How the jobs ended that create all at once."""
    jobs = [
        [
            lab.create(
                f"many{number}.lab",
                "",
                "file",
                os_type="slow",
                beparams={"memory": MEMORY, "vcpus": 1},
                iallocator="steward",
                opportunistic_locking=True,
            )
        ]
        for number in range(NUMBER)
    ]
    for (one,) in jobs:
        del one["pnode"]
    numbers = [int(number) for _, number in lab.luxi.call("SubmitManyJobs", jobs)]

    def all_placed() -> bool:
        """Each job has an instance that waits for its installation, or was refused."""
        refused = sum(state.ended for state in lab.luxi.states(numbers))
        return len(many(lab)) + refused == NUMBER

    try:
        until(all_placed, every=2)
    finally:
        installed(lab).touch()
    until(lambda: all(state.ended for state in lab.luxi.states(numbers)), every=2)
    return Counter(state.status for state in lab.luxi.states(numbers))


def room(lab: Lab) -> dict[str, int]:
    """Node -> MiB for instances."""
    return {name: total - own for name, total, own in lab.rows("node", "name", "mtotal", "mnode")}


def left_of(room: dict[str, int], lab: Lab) -> dict[str, int]:
    """What each node has left, MiB, by the instances of the configuration alone."""
    free = dict(room)
    file = lab.directory / "nodes" / MASTER / "var-lib-ganeti/config.data"
    configuration: dict[str, Any] = json.loads(file.read_text())
    names = {uuid: node["name"] for uuid, node in configuration["nodes"].items()}
    for instance in configuration["instances"].values():
        if instance["admin_state"] == "up":
            free[names[instance["primary_node"]]] -= instance["beparams"]["maxmem"]
    return free


def many(lab: Lab) -> list[str]:
    return [name for name in lab.instances() if name.startswith("many")]


@pytest.mark.usefixtures("_slow_system")
def test_no_node_is_overcommitted(lab: Lab) -> None:
    """All that fit are created, and the others are refused, whatever the jobs see of each other."""
    lab.configure("[allocators]\nrecent = 300\n")
    empty = room(lab)
    try:
        ended, left = created(lab), left_of(empty, lab)
    finally:
        lab.remove(*many(lab))
    assert min(left.values()) >= 0
    assert ended["success"] == 2 * len(DEFAULT_GROUP + RACK2)
    assert ended["error"] == NUMBER - ended["success"]
