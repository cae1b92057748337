"""``gnt-instance add``: Steward, the cluster's default allocator, chooses the nodes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from .cluster import ADD, DEFAULT_GROUP, DRBD, RACK2, Lab, op, tagged, until


@dataclass(frozen=True)
class Add:
    """Options, and what they make Ganeti send."""

    name: str
    options: str
    template: str
    disks: list[int]
    space: int


@pytest.mark.parametrize(
    "case",
    [
        Add("less.lab", "-t diskless", "diskless", [], 0),
        Add("file.lab", "-t file --disk 0:size=1G --disk 1:size=512M", "file", [1024, 512], 1536),
        Add("shared.lab", "-t sharedfile --disk 0:size=1G", "sharedfile", [1024], 1024),
        Add("ext.lab", "-t ext --disk 0:size=1G,provider=labext", "ext", [1024], 1024),
    ],
    ids=lambda case: case.template,
)
def test_disk_templates(lab: Lab, case: Add) -> None:
    done = lab.add(case.options, case.name)

    request = done.call.request
    assert request["disk_template"] == case.template
    assert [disk["size"] for disk in request["disks"]] == case.disks
    assert request["disk_space_total"] == case.space
    assert request["required_nodes"] == len(done.call.nodes) == 1
    assert done.call.nodes[0] in DEFAULT_GROUP + RACK2
    assert done.call.info.startswith("Request successful: Selected group: ")


def test_named_group(lab: Lab) -> None:
    done = lab.add("-t diskless --node-group rack2", "group.lab")

    assert done.call.request["group_name"] == "rack2"
    assert done.call.nodes[0] in RACK2
    assert done.call.info.startswith("Request successful: Group rack2 (preferred): ")


def test_opportunistic_locking_restricts_to_the_locked_nodes(lab: Lab) -> None:
    # A job that holds the locks of one whole group while the other one is free.
    held = " ".join(f"-n {node}" for node in RACK2)
    job = lab.ok(f"gnt-debug delay --submit --no-master {held} 120").text.split()[-1]
    try:
        _wait_until_running(lab, job)
        done = lab.add("-t diskless --opportunistic-locking", "locks.lab")
    finally:
        lab.ok(f"gnt-job cancel --kill --yes-do-it {job}")

    restriction = done.call.request["restrict-to-nodes"]
    assert set(restriction).isdisjoint(RACK2)
    assert set(restriction) >= {*DEFAULT_GROUP}
    assert done.call.nodes[0] in DEFAULT_GROUP


def _wait_until_running(lab: Lab, job: str) -> None:
    until(lambda: lab.job(job) == "running")


def test_exclusion_tags(lab: Lab) -> None:
    """An instance keeps away from others with a tag that the cluster says excludes."""
    lab.do(
        tagged("instance", "drbd2.lab", "web:a"),
        tagged("instance", "drbd4.lab", "web:a"),
        tagged("cluster", "", "htools:iextags:web"),
    )
    try:
        call = lab.add("-t diskless --node-group rack2 --tags=web:a,plain", "tags.lab").call
    finally:
        lab.do(op("TAGS_DEL", kind="cluster", name="", tags=["htools:iextags:web"]))

    assert call.message["cluster_tags"] == ["htools:iextags:web"]
    assert sorted(call.request["tags"]) == ["plain", "web:a"]
    primaries = {DRBD[name][0] for name in ("drbd2.lab", "drbd4.lab")}
    assert call.nodes == sorted(set(RACK2) - primaries)


def test_no_nics(lab: Lab) -> None:
    done = lab.add("-t diskless --no-nics --no-start", "nonic.lab")

    assert done.call.request["nics"] == []


def test_routed_nic(lab: Lab) -> None:
    done = lab.add("-t diskless --net 0:mode=routed,link=100,ip=10.98.0.5", "routed.lab")

    (nic,) = done.call.request["nics"]
    assert nic["nicparams"] == {"mode": "routed", "link": "100"}
    assert nic["ip"] == "10.98.0.5"


def test_refusal_reaches_the_user(lab: Lab) -> None:
    done = lab.fails(f"{ADD} -B memory=32000 -t diskless --node-group rack2 big.lab")

    assert done.call.status == 0
    assert done.call.answer["success"] is False
    assert done.call.answer["result"] == []
    assert "0/3 nodes fit: 3 memory (" in done.call.info
    assert "error type: insufficient_resources" in done.text
    assert f"Can't compute nodes using iallocator 'steward': {done.call.info}\n" in done.text
    assert "big.lab" not in lab.instances()


def test_drbd(lab: Lab) -> None:
    """Ganeti takes the pair and fails only when it creates the volumes, which do not exist."""
    done = lab.fails(f"{ADD} -t drbd --disk 0:size=1G mirror.lab")

    assert done.call.request["required_nodes"] == 2
    assert done.call.request["disk_space_total"] == 1024 + 128
    primary, secondary = done.call.nodes
    assert {primary, secondary} < set(DEFAULT_GROUP) or {primary, secondary} < set(RACK2)
    assert f"instance mirror.lab via iallocator steward: {primary}, {secondary}" in done.text
    assert "there are no real logical volumes here (lvcreate)" in done.text


def test_plain(lab: Lab) -> None:
    done = lab.fails(f"{ADD} -t plain --disk 0:size=1G volume.lab")

    assert done.call.request["disk_template"] == "plain"
    (node,) = done.call.nodes
    assert f"instance volume.lab via iallocator steward: {node}\n" in done.text
    assert "there are no real logical volumes here (lvcreate)" in done.text
