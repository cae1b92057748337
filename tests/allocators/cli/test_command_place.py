"""``gnt-steward place``: where a new instance would go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import clusters
import pytest
from daemons import luxid, rapi
from front import Front, capture
from live import Ganeti

from ganeti_steward.allocators.text_output import htools_text
from ganeti_steward.core.model.cluster_reader import read_cluster

Message = dict[str, Any]


def cluster(*more: str) -> Message:
    return clusters.generate(
        "--nodes=8", "--groups=2", "--mix=drbd=1", "--seed=5", "--networks=2", "--fill=.4", *more
    )


def request(**changes: Any) -> Message:
    """What Ganeti would ask for ``-t drbd -m 4g -c 2 --disk 0:size=20g``."""
    return {
        "type": "allocate",
        "name": "web1.lab",
        "memory": 4096,
        "vcpus": 2,
        "spindle_use": 1,
        "disk_template": "drbd",
        "disks": [{"size": 20480}],
        "disk_space_total": 20480 + 128,
        "nics": [{"mode": "bridged"}],
        "tags": [],
        "required_nodes": 2,
        **changes,
    }


WANTED = ("-t", "drbd", "--memory", "4g", "-c", "2", "--disk", "0:size=20g", "web1.lab")


def explained(front: Front, message: Message, wanted: Message) -> Message:
    """The output of ``explain`` for Ganeti's own request."""
    done = front("explain", "--json", front.message(message | {"request": wanted}, "request.json"))
    answer: Message = json.loads(done.out)
    return answer


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (WANTED, {}),
        (("-t", "drbd", "-B", "memory=4g,vcpus=2", "-s", "20g", "web1.lab"), {}),
        (("-t", "drbd", "-B", "maxmem=4096,minmem=9,vcpus=2", "-s", "20480m", "web1.lab"), {}),
        ((*WANTED, "-B", "spindle_use=3,memory=1g"), {"spindle_use": 3}),
        (
            (*WANTED, "--disk", "1:size=1g,spindles=2,mode=ro"),
            {
                "disks": [{"size": 20480}, {"size": 1024, "spindles": 2}],
                "disk_space_total": 20480 + 1024 + 256,
            },
        ),
        ((*WANTED, "--tags", "a,b"), {"tags": ["a", "b"]}),
        ((*WANTED, "-G", "group01"), {"group_name": "group01"}),
        (
            ("-t", "plain", "--memory", "4g", "-c", "2", "-s", "1g", "web1.lab"),
            {
                "disk_template": "plain",
                "required_nodes": 1,
                "disks": [{"size": 1024}],
                "disk_space_total": 1024,
            },
        ),
        (
            ("-t", "diskless", "--memory", "4g", "-c", "2", "web1.lab"),
            {"disk_template": "diskless", "required_nodes": 1, "disks": [], "disk_space_total": 0},
        ),
    ],
    ids=["letters", "backend", "range", "both", "disks", "tags", "group", "plain", "diskless"],
)
def test_sends_the_request_that_ganeti_would_send(
    front: Front, options: tuple[str, ...], wanted: Message
) -> None:
    message = cluster("--mix=drbd=3,plain=1")
    done = front("place", *options, "--json", "--file", front.message(message))
    assert done.status == 0
    assert json.loads(done.out) == explained(front, message, request(**wanted))


def test_networks(front: Front) -> None:
    message = cluster()
    (uuid,) = next(iter(message["nodegroups"].values()))["networks"][:1]
    done = front(
        "place", *WANTED, "--net", f"0:network={uuid}", "--json", "--file", front.message(message)
    )
    wanted = request(nics=[{"mode": "bridged", "network": uuid}])
    assert json.loads(done.out) == explained(front, message, wanted)
    assert "is not connected" in json.loads(done.out)["info"]
    none = front(
        "place", *WANTED, "--net", "0:mode=routed", "--json", "--file", front.message(message)
    )
    assert json.loads(none.out) == explained(front, message, request())


def test_only_some_nodes(front: Front) -> None:
    message = cluster()
    done = front("place", *WANTED, "--json", "--file", front.message(message))
    chosen: list[str] = json.loads(done.out)["result"]
    names = [name for name in message["nodes"] if name not in chosen]
    short = ",".join(name.partition(".")[0] for name in names)
    done = front("place", *WANTED, "-n", short, "--json", "--file", front.message(message))
    wanted = request(**{"restrict-to-nodes": names})
    assert json.loads(done.out) == explained(front, message, wanted)
    assert set(json.loads(done.out)["result"]) <= {*names}


SEES = """
from ganeti_steward.core import hookimpl
from ganeti_steward.core.model.site_rules import NoPlace

@hookimpl
def steward_constrain(instance):
    disk, nic = instance.disk_details[0], instance.nics[0]
    found = (instance.os, instance.hypervisor, disk.mode, disk.volume_group, nic.mac, nic.link)
    return [NoPlace(",".join(found))]
"""


@pytest.mark.parametrize(
    ("disk", "net", "more", "seen"),
    [
        ("size=1g", "link=", (), "debian,xen-hvm,rw,,,"),
        ("size=1g", "link=", ("--hypervisor", "kvm"), "debian,kvm,rw,,,"),
        ("size=1g,mode=ro,vg=fast", "link=", (), "debian,xen-hvm,ro,fast,,"),
        (
            "size=1g",
            "mac=aa:00:00:11:22:33,link=br7",
            (),
            "debian,xen-hvm,rw,,aa:00:00:11:22:33,br7",
        ),
    ],
)
def test_what_site_rules_see(
    front: Front, disk: str, net: str, more: tuple[str, ...], seen: str
) -> None:
    front.plugin("sees", SEES)
    front.configure('[plugins]\nload = ["sees"]')
    file = front.message(cluster() | {"enabled_hypervisors": ["xen-hvm", "kvm"]})
    options = ("-t", "plain", "--os-type", "debian", "--disk", f"0:{disk}", "--net", f"0:{net}")
    with front.imported():
        done = front("place", *options, *more, "--file", file)
    assert f"Request failed: {seen}\n" in done.out


def test_a_hypervisor_the_cluster_does_not_have(front: Front) -> None:
    options = ("-t", "diskless", "--hypervisor", "lxc")
    done = front("place", *options, "--file", front.message(cluster()))
    assert "has no hypervisor 'lxc' (enabled: " in done.err


def test_text(front: Front) -> None:
    done = front("place", *WANTED, "--file", front.message(cluster()))
    assert done.status == 0
    assert done.out.startswith("Request successful: web1.lab on node")
    assert "\nInfo: Selected group: " in done.out
    assert "\nInstance web1.lab: drbd, 4096 MiB memory, 2 vcpus, 20608 MiB disk" in done.out
    assert "\nBest places " in done.out


def test_no_place(front: Front) -> None:
    done = front("place", "-t", "diskless", "--memory", "1t", "--file", front.message(cluster()))
    assert done.status == 1
    assert done.out.startswith("Request failed: group group00: 0/4 nodes fit: 4 instance policy")


def test_option_for_the_allocator(front: Front) -> None:
    # It fits on node6 alone, and could never leave it again.
    message = capture("allocate-ext")
    for name in ("node4.lab", "node5.lab"):
        message["nodes"][name].update(total_memory=2048, free_memory=512)
    options = ("place", "-t", "ext", "--memory", "1g", "-s", "1g", "-G", "rack2")
    options = (*options, "--file", front.message(message))
    refused = front(*options)
    assert refused.status == 1
    assert "1 capacity (e.g. " in refused.out
    assert front(*options, "--option=--no-capacity-checks").status == 0
    assert front(*options, "--option=--static-kvm-node-memory=x").status == 1


def test_every_source_gives_the_same(front: Front, tmp_path: Path) -> None:
    message = cluster("--offline=1", "--down=.3")
    for instance in message["instances"].values():
        sizes = [disk["size"] for disk in instance["disks"]]
        instance["disk_space_total"] = sum(sizes) + 128 * len(sizes)
    ganeti = Ganeti(message)
    # What only a live cluster reports must not lead to another node than Ganeti's own request.
    ganeti.nodes[1]["ndparams"]["cpu_speed"] = 3
    for instance in ganeti.instances[::2]:
        instance["beparams"]["auto_balance"] = False
    for instance in ganeti.instances:
        instance["forthcoming"] = instance["admin_state"] == "down"
    text = tmp_path / "cluster.data"
    text.write_text(htools_text(read_cluster(message)))
    options = ("place", *WANTED, "--json")
    expected = front(*options, "--file", front.message(message))
    assert expected.status == 0
    with luxid(tmp_path, ganeti.luxi) as daemon:
        assert front(*options, "--luxi-socket", daemon.path) == expected
    with rapi(ganeti.rapi) as server:
        assert front(*options, "--rapi", server.host, "--rapi-insecure") == expected
    assert front(*options, "--text-data", str(text)) == expected


def test_defaults_of_a_live_cluster(front: Front, tmp_path: Path) -> None:
    ganeti = Ganeti(cluster(), ("drbd", "diskless"))
    network = ganeti.networks[0]
    options = ("-t", "diskless", "--net", f"0:network={network['name']}", "--luxi-socket")
    with luxid(tmp_path, ganeti.luxi) as daemon:
        done = front("place", *options, daemon.path)
    assert "\nInstance new.instance: diskless, 640 MiB memory, 3 vcpus, 0 MiB disk" in done.out
    assert f"is not connected to network {network['uuid']}" in done.out


@pytest.mark.parametrize("command", ["place", "capacity"])
def test_a_template_that_is_not_enabled(front: Front, tmp_path: Path, command: str) -> None:
    """Ganeti would fail the job that queries its storage, and refuse the instance."""
    ganeti = Ganeti(cluster(), ("ext", "diskless"))
    options = ("--disk-template", "drbd", "--memory", "1g", "--os-size", "1g", "--luxi-socket")
    with luxid(tmp_path, ganeti.luxi) as daemon:
        done = front(command, *options, daemon.path)
        called = {one["method"] for one in daemon.requests}
    assert (done.status, done.out) == (1, "")
    fault = "disk template drbd is not enabled (enabled: ext, diskless)"
    assert done.err == f"gnt-steward {command}: luxid at {daemon.path}: {fault}\n"
    assert called == {"Query", "QueryClusterInfo"}


def test_notes_are_printed(front: Front, tmp_path: Path) -> None:
    ganeti = Ganeti(cluster())
    ganeti.nodes[0]["mfree"] = None
    name = ganeti.nodes[0]["name"]
    with luxid(tmp_path, ganeti.luxi) as daemon:
        done = front("place", "-v", *WANTED, "--luxi-socket", daemon.path)
    assert done.err == f"Note: {name} does not report its free memory and is treated as unusable\n"
    assert f"{name} primary" in done.out
    assert "silent" in done.out


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("-t", "floppy"), "unknown disk template 'floppy' (known: blockdev, diskless, drbd"),
        (("-t", "plain"), "a plain instance needs a disk (--disk 0:size=SIZE)"),
        (("-t", "diskless", "-s", "1g"), "a diskless instance has no disks"),
        (("-t", "plain", "-s", "1g", "--disk", "0:size=1g"), "--disk and -s exclude each other"),
        (("-t", "plain", "--disk", "size=1g"), "--disk size=1g: a number and a colon"),
        (
            ("-t", "plain", "--disk", "1:size=1g"),
            "--disk: the numbers start at 0 and leave nothing",
        ),
        (
            ("-t", "plain", "--disk", "0:size=1g", "--disk", "0:size=1g"),
            "--disk 0:size=1g: a number",
        ),
        (("-t", "plain", "--disk", "0:mode=rw"), "--disk mode=rw: the size is missing"),
        (("-t", "plain", "--disk", "0:big"), "--disk big: KEY=VALUE is expected, found 'big'"),
        (("-t", "plain", "--disk", "0:size=1g,spindles=x"), "spindles: a number is expected"),
        (("-t", "plain", "-s", "1q"), "a size such as 512, 4g or 1.5t is expected, found '1q'"),
        (
            ("-t", "diskless", "--memory", "x"),
            "a size such as 512, 4g or 1.5t is expected, found 'x'",
        ),
        (("-t", "diskless", "-c", "x"), "vcpus: a number is expected, found 'x'"),
        (("-t", "diskless", "-B", "mem=1"), "-B: unknown key 'mem' (known: memory, maxmem"),
        (("-t", "diskless", "-G", "nope"), "no node group is named 'nope' (known: group00, group"),
        (("-t", "diskless", "-n", "nope"), "no node is named 'nope'"),
        (("-t", "diskless", "-n", "node001,"), "no node is named ''"),
        (
            ("-t", "diskless", "--net", "0:network=nope"),
            "has no network 'nope' (known: net-0, net-1",
        ),
        (("-t", "diskless", "inst00001.example.com"), "has an instance inst00001.example.com alre"),
    ],
)
def test_faults(front: Front, options: tuple[str, ...], fault: str) -> None:
    done = front("place", *options, "--file", front.message(cluster()))
    assert done.status == 1
    assert done.out == ""
    assert done.err.startswith("gnt-steward place: ")
    assert fault in done.err


@pytest.mark.parametrize("command", ["place", "capacity"])
def test_a_volume_group_that_no_node_has(front: Front, command: str) -> None:
    """It may exist where those of a node are unknown; an offline node is ignored."""
    found = cluster() | {"volume_group": "xenvg"}
    for node in found["nodes"].values():
        node["volume_groups"] = {"ssd": {"total": 10**6, "free": 10**6}}
    first, second, *_ = found["nodes"].values()
    first |= {"offline": True, "volume_groups": None}
    call = (command, "-t", "plain", "--disk", "0:size=1g,vg=sdd", "--file")
    done = front(*call, front.message(found))
    assert (done.status, done.out) == (1, "")
    assert "no node has the volume group 'sdd' (beside xenvg there are: ssd)\n" in done.err
    second["volume_groups"] = None
    assert "no node has" not in front(*call, front.message(found)).err
