"""Nodes that may not take instances, and of which Ganeti reports less."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cluster import ADD, DEFAULT_GROUP, NOT_VM_CAPABLE, Lab, op

#: What Ganeti leaves out of nodes it cannot or need not ask.
RUN_TIME_KEYS = {"total_memory", "free_memory", "total_disk", "free_disk", "total_cpus"}


@pytest.fixture(scope="module", autouse=True)
def _ailing(lab: Lab) -> Iterator[None]:
    """Of the second rack one node is drained and one offline, with instances on both."""
    lab.do(
        op("NODE_SET_PARAMS", node_name="node6.lab", drained=True),
        op("NODE_SET_PARAMS", node_name="node7.lab", offline=True),
    )
    yield
    lab.do(
        op("NODE_SET_PARAMS", node_name="node7.lab", offline=False, force=True),
        op("NODE_SET_PARAMS", node_name="node6.lab", drained=False),
    )


def test_unusable_nodes(lab: Lab) -> None:
    call = lab.add("-t file --disk 0:size=1G --node-group rack2", "rest.lab").call

    nodes = call.message["nodes"]
    assert nodes["node6.lab"]["drained"] is True
    assert nodes["node7.lab"]["offline"] is True
    assert nodes[NOT_VM_CAPABLE]["vm_capable"] is False
    assert nodes["node6.lab"].keys() >= RUN_TIME_KEYS
    assert nodes["node7.lab"].keys().isdisjoint(RUN_TIME_KEYS)
    assert nodes[NOT_VM_CAPABLE].keys().isdisjoint(RUN_TIME_KEYS)
    assert call.nodes == ["node5.lab"]


def test_drbd_with_an_offline_secondary(lab: Lab) -> None:
    """One dead node that still is a secondary node stops hail, and not Steward."""
    wanted = "-t drbd --disk 0:size=1G twin.lab"

    hail = lab.fails(f"{ADD} -I hail {wanted}")
    assert "Can't compute nodes using iallocator 'hail': Request failed: " in hail.text

    done = lab.fails(f"{ADD} {wanted}")

    assert set(done.call.nodes) < set(DEFAULT_GROUP)
    assert "there are no real logical volumes here (lvcreate)" in done.text
