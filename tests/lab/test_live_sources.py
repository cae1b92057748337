"""The same cluster through luxid, through RAPI, and as the message Ganeti sends."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from thorough import often

from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.cluster_reader import read_cluster

from .cluster import DEFAULT_GROUP, DRBD, Lab, op, tagged
from .live import STEWARD, Ways, read

PROBE = "gnt-debug iallocator --dir=out -I steward -m allocate --os-type noop --vcpus 1 --mem 512"


@pytest.fixture(scope="module", autouse=True)
def _all_sorts(lab: Lab) -> Iterator[None]:
    """Nodes and instances in every state there is, tags, a network, and policies."""
    parameters = {"spindle_count": 3, "cpu_speed": 1.5}
    lab.do(
        op("NODE_SET_PARAMS", node_name="node6.lab", drained=True),
        op("NODE_SET_PARAMS", node_name="node7.lab", offline=True),
        op(
            "NODE_SET_PARAMS",
            node_name="node2.lab",
            ndparams=parameters,
        ),
        tagged("node", "node2.lab", "rack:a"),
        tagged("cluster", "", "htools:nlocation:rack"),
        op("NETWORK_ADD", network_name="blue", network="10.99.0.0/24"),
        op(
            "NETWORK_CONNECT",
            network_name="blue",
            group_name="default",
            network_mode="bridged",
            network_link="lab0",
        ),
        op("GROUP_SET_PARAMS", group_name="rack2", alloc_policy="last_resort"),
        lab.create("down.lab", "node1.lab", "diskless", start=False),
    )
    add = "gnt-instance add --no-ip-check --no-name-check -o noop"
    lab.ok(
        f"{add} -t file --disk 0:size=1G --disk 1:size=300 -n node2.lab --tags web "
        "-B minmem=256,maxmem=700,vcpus=3,auto_balance=false,spindle_use=2 "
        "--net 0:network=blue,ip=pool web.lab"
    )
    # A volume group of another size than the file storage has.
    for node in range(1, 8):
        etc = lab.directory / f"nodes/node{node}.lab/etc-ganeti"
        (etc / "lab-vg-size").write_text(f"{500000 + node}\n")
        (etc / "lab-vg-free").write_text(f"{400000 + node}\n")
    yield
    lab.remove("web.lab", "down.lab")
    unset = {"spindle_count": "default", "cpu_speed": "default"}
    lab.do(
        op("GROUP_SET_PARAMS", group_name="rack2", alloc_policy="preferred"),
        op("NETWORK_DISCONNECT", network_name="blue", group_name="default"),
        op("NETWORK_REMOVE", network_name="blue"),
        op("TAGS_DEL", kind="cluster", name="", tags=["htools:nlocation:rack"]),
        op("TAGS_DEL", kind="node", name="node2.lab", tags=["rack:a"]),
        op("NODE_SET_PARAMS", node_name="node2.lab", ndparams=unset),
        op("NODE_SET_PARAMS", node_name="node7.lab", offline=False, force=True),
        op("NODE_SET_PARAMS", node_name="node6.lab", drained=False),
    )
    for node in range(1, 8):
        for name in ("lab-vg-size", "lab-vg-free"):
            (lab.directory / f"nodes/node{node}.lab/etc-ganeti" / name).unlink()


def message(lab: Lab, template: str) -> dict[str, Any]:
    """What Ganeti sends for a new instance."""
    disks = "" if template == "diskless" else "--disks 1024"
    return lab.run(f"{PROBE} -t {template} {disks} probe.lab").call.message


def parts(cluster: Cluster) -> list[tuple[Any, ...]]:
    """Everything, without what messages do not carry."""
    return [
        cluster.groups,
        tuple(node._replace(cpu_speed=1.0) for node in cluster.nodes),
        tuple(i._replace(auto_balance=True, networks=()) for i in cluster.instances),
        cluster.tags,
        cluster.hypervisors,
    ]


def details(cluster: Cluster) -> list[tuple[Any, ...]]:
    """What site rules see of nodes and instances in addition to the figures."""
    nodes = [
        (
            *(node.name, node.primary_ip, node.secondary_ip),
            *(node.master_candidate, node.master_capable),
            *((node.primaries_memory, node.primaries_up_memory) if node.live else ()),
        )
        for node in cluster.nodes
    ]
    instances = [
        (one.name, one.os, one.hypervisor, [nic._replace(network="") for nic in one.nics])
        for one in cluster.instances
    ]
    return [*nodes, *instances]


@pytest.mark.parametrize("template", ["drbd", "file", "diskless"][: often(1, 3)])
def test_snapshots(lab: Lab, to: Ways, template: str) -> None:
    sent = read_cluster(message(lab, template))
    luxi, rapi = read(lab, to.luxi, template), read(lab, to.rapi, template, node=2)
    assert parts(luxi) == parts(rapi) == parts(sent)
    assert details(luxi) == details(rapi) == details(sent)
    # Each template has figures of its own.
    disk = {"drbd": 500001, "file": 1048576, "diskless": 0}[template]
    assert luxi.nodes[0].total_disk == disk


def test_what_messages_do_not_carry(lab: Lab, to: Ways) -> None:
    for options in (to.luxi, to.rapi):
        cluster = read(lab, options)
        web = cluster.instances[cluster.instance_index["web.lab"]]
        assert web.auto_balance is False
        (group,) = [group for group in cluster.groups if group.name == "default"]
        assert {*web.networks} == group.networks
        speeds = {node.name: node.cpu_speed for node in cluster.nodes}
        assert (speeds["node1.lab"], speeds["node2.lab"]) == (1.0, 1.5)


@pytest.mark.parametrize(
    ("options", "template"),
    [
        ("-t drbd --memory 1g -c 2 --disk 0:size=2g --disk 1:size=1g", "drbd"),
        ("-t file -B memory=512,vcpus=1 -s 1g --tags web", "file"),
        ("-t diskless --memory 1g -G rack2", "diskless"),
    ][: often(1, 3)],
    ids=["drbd", "file", "diskless"][: often(1, 3)],
)
def test_place(lab: Lab, to: Ways, options: str, template: str) -> None:
    """The same place, for the same reasons, whatever the cluster is read from."""
    file = lab.directory / "message.json"
    file.write_text(json.dumps(message(lab, template)))
    command = f"{STEWARD} place {options} --json"
    expected = lab.ok(f"{command} --file {file}").text
    assert json.loads(expected)["success"] is True
    assert lab.ok(f"{command} {to.luxi}").text == expected
    assert lab.ok(f"{command} {to.rapi}").text == expected
    assert lab.ok(f"-n 2 {command} {to.rapi}").text == expected
    # On the master no option is needed.
    assert lab.ok(command).text == expected


def test_place_is_where_ganeti_puts_it(lab: Lab, to: Ways) -> None:
    wanted = "-t diskless -B memory=512,vcpus=1"
    answer = json.loads(lab.ok(f"{STEWARD} place {wanted} --json {to.rapi} placed.lab").text)
    done = lab.add("-t diskless", "placed.lab")
    assert answer["result"] == done.call.nodes
    assert f"Request successful: {answer['info']}" == done.call.info
    lab.remove("placed.lab")


def test_networks_by_name(lab: Lab, to: Ways) -> None:
    """The other group lacks the network, even when all its nodes were free."""
    for options in (to.luxi, to.rapi):
        command = f"{STEWARD} place -t diskless --memory 512 --net 0:network=blue {options}"
        done = lab.ok(command)
        assert "group rack2 is not connected to network " in done.text
        unknown = lab.fails(command.replace("=blue", "=red"))
        assert "no network 'red' (known: blue)" in unknown.text


def test_a_node_that_does_not_answer(lab: Lab, to: Ways) -> None:
    lab.ok("-n 3 /usr/lib/ganeti/daemon-util stop ganeti-noded")
    try:
        for options in (to.luxi, to.rapi):
            done = lab.ok(f"{STEWARD} place -v -t drbd --memory 512 -s 1g -G default {options}")
            assert (
                "Note: node3.lab does not report its figures and is treated as unusable"
                in done.text
            )
            assert "Chosen: node1.lab/node2.lab\n" in done.text or (
                "Chosen: node2.lab/node1.lab\n" in done.text
            )
            (line,) = [one for one in done.text.splitlines() if one.startswith("node3.lab primary")]
            assert line.endswith("the node is silent: it does not report its figures")
    finally:
        lab.ok("-n 3 /usr/lib/ganeti/daemon-util start ganeti-noded")


def test_disk_figures_of_a_template_that_is_not_the_first(lab: Lab, to: Ways) -> None:
    """Then a job must query the nodes; Ganeti queries them for its own message."""
    lab.ok("gnt-cluster modify --enabled-disk-templates file,drbd,plain,diskless,sharedfile,ext")
    try:
        sent = read_cluster(message(lab, "drbd"))
        assert sent.nodes[0].total_disk == 500001
        assert parts(read(lab, to.luxi, "drbd")) == parts(sent)
        assert parts(read(lab, to.rapi, "drbd")) == parts(sent)
        # Without a template: the one of the instances whose space counts, which all are DRBD's.
        assert parts(read(lab, to.luxi)) == parts(sent)
        assert {*DRBD} <= sent.instance_index.keys()
    finally:
        lab.ok(
            "gnt-cluster modify --enabled-disk-templates drbd,plain,file,diskless,sharedfile,ext"
        )


def test_text_format(lab: Lab) -> None:
    """What hbal saves of a live cluster can be read here."""
    saved = lab.directory / "saved"
    lab.ok(f"hbal -L -S {saved} -l 0 -G default")
    text = shlex.quote(str(saved) + ".original")
    done = lab.ok(
        f"{STEWARD} place -t drbd --memory 512 -s 1g -G default --json --text-data {text}"
    )
    assert set(json.loads(done.text)["result"]) < {*DEFAULT_GROUP}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("--rapi cluster.lab", "the certificate is not trusted; name the cluster's own with"),
        ("--rapi cluster.lab --rapi-insecure", "user and password are needed"),
        (
            "--rapi cluster.lab:5081 --rapi-insecure",
            "RAPI at https://cluster.lab:5081: RAPI is stopped: nothing listens there",
        ),
        ("--rapi nosuch.lab", "RAPI at https://nosuch.lab:5080: Name or service not known"),
        ("--luxi-socket /nosuch", "there is no socket /nosuch: luxid runs on the master only"),
    ],
)
def test_faults(lab: Lab, options: str, fault: str) -> None:
    done = lab.fails(f"{STEWARD} place -t diskless {options}")
    assert done.text.startswith("gnt-steward place: ")
    assert fault in done.text
    assert done.text.count("\n") == 1


def test_another_certificate_is_not_taken(lab: Lab) -> None:
    """Every Ganeti certificate has the same name in it; only the very same one will do."""
    other = lab.directory / "nodes/node1.lab/var-lib-ganeti/server.pem"
    done = lab.fails(f"{STEWARD} place -t diskless --rapi cluster.lab --rapi-ca {other}")
    assert "the certificate is not trusted" in done.text


def test_not_on_the_master(lab: Lab) -> None:
    done = lab.fails(f"-n 2 {STEWARD} place -t diskless")
    assert "luxid runs on the master only, which is node1.lab: run the command there" in done.text
