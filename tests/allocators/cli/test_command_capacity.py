"""``gnt-steward capacity``: sizes, tiered specs, output, and requests it rejects."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from cluster_text import to_text
from clusters import generate

from ganeti_steward.allocators.capacity.standard_room import Room, standard_room
from ganeti_steward.core.model.cluster_reader import read_cluster

if TYPE_CHECKING:
    from front import Front, Message

SMALL: Final = ("--nodes=6", "--per-node=5", "--request=none")


@pytest.fixture
def small() -> Message:
    return generate(*SMALL, "--mix=drbd=1")


@pytest.fixture
def capacity_of(front: Front, small: Message, tmp_path: Path) -> Any:
    """Runs the command with ``--json`` on the small cluster, as it is at the time of the call."""
    front.configure()

    def ask(*options: str) -> Any:
        file = tmp_path / "cluster.data"
        file.write_text(to_text(small))
        done = front("capacity", "--text-data", str(file), "--json", *options)
        assert (done.status, done.err) == (0, "")
        return json.loads(done.out)

    return ask


def test_both_counts(capacity_of: Any) -> None:
    """The standard size alone, and tiered specs from the largest down, from the same start."""
    answer = capacity_of()
    tiered, standard = answer["runs"]
    assert (tiered["mode"], standard["mode"]) == ("tiered", "standard")
    (size,) = standard["sizes"]
    assert (size["memory"], size["disk"], size["vcpus"]) == (2048, 20480, 2)
    assert size["disk_template"] == "drbd"
    assert size["count"] == len(size["placements"]) == standard["count"] > 0
    first = tiered["sizes"][0]
    assert (first["memory"], first["disk"], first["vcpus"]) == (32768, 1048576, 16)
    assert tiered["count"] == sum(size["count"] for size in tiered["sizes"])
    keys = ("memory", "disk", "vcpus")
    for large, less in zip(tiered["sizes"], tiered["sizes"][1:], strict=False):
        assert all(less[key] <= large[key] for key in keys)
        assert any(less[key] < large[key] for key in keys)
    before, after = answer["usage"], standard["usage"]
    assert all(0 < before[key] < after[key] < 1 for key in keys)


def test_the_room_that_the_daemon_shows(capacity_of: Any, small: Message) -> None:
    """As the command counts it without the capacity test."""
    (run,) = capacity_of("--only=standard", "--no-capacity-checks")["runs"]
    (size,) = run["sizes"]
    counted = Room("drbd", size["memory"], size["disk"], size["vcpus"], size["count"])
    assert standard_room(read_cluster(small)) == (counted,)
    (group,) = small["nodegroups"].values()
    nothing = {**group["ipolicy"], "std": {**group["ipolicy"]["std"], "memory-size": 0}}
    for changed in ({"ipolicy": nothing}, {"alloc_policy": "unallocable"}):
        other = {
            **small,
            "nodegroups": {uuid: {**group, **changed} for uuid in small["nodegroups"]},
        }
        assert standard_room(read_cluster(other)) == ()


def test_steps_of_the_tiered_run(capacity_of: Any) -> None:
    """hspace's units: 64 MiB of memory, 256 MiB of each disk."""
    for template in ("drbd", "diskless"):
        run = capacity_of("--only", "tiered", f"--disk-template={template}")["runs"][0]
        sizes = run["sizes"]
        assert len(sizes) > 1
        for large, less in pairwise(sizes):
            assert (large["memory"] - less["memory"]) % 64 == 0
            assert (large["disk"] - less["disk"]) % 256 == 0
        key = "memory" if template == "diskless" else "disk"
        assert sizes[-1][key] < sizes[0][key]


def test_one_size(capacity_of: Any) -> None:
    """By gnt-instance's options; a drbd disk also takes its metadata."""
    options = ("--memory=4g", "--vcpus=1", "--disk=0:size=10g", "--disk-template=drbd")
    (run,) = capacity_of(*options)["runs"]
    (size,) = run["sizes"]
    assert run["mode"] == "requested"
    assert (size["memory"], size["disk"], size["vcpus"]) == (4096, 10240 + 128, 1)


def test_sizes_by_option(capacity_of: Any) -> None:
    """hspace's way to write them."""
    tiered, standard = capacity_of("--tiered-alloc=50g,8g,2", "--standard-alloc=10240,1024,1")[
        "runs"
    ]
    sizes = [run["sizes"][0] for run in (tiered, standard)]
    assert [(size["disk"], size["memory"], size["vcpus"]) for size in sizes] == [
        (51200, 8192, 2),
        (10240, 1024, 1),
    ]


@pytest.mark.parametrize("template", ["plain", "ext", "diskless"])
def test_one_node(capacity_of: Any, template: str) -> None:
    large = "--standard-alloc=204800,8192,2"
    (run,) = capacity_of("--only=standard", large, f"--disk-template={template}")["runs"]
    (size,) = run["sizes"]
    assert size["disk_template"] == template
    assert all(len(nodes) == 1 for nodes in size["placements"])
    assert size["count"] > 0


def test_options_for_the_allocator(capacity_of: Any, small: Message) -> None:
    """On two nodes neither may take so much that it could not be emptied."""
    names = list(small["nodes"])[:2]
    options = ("--only=standard", "--disk-template=ext", f"--nodes={','.join(names)}")
    free = capacity_of(*options, "--no-capacity-checks")["runs"][0]["count"]
    assert free == capacity_of(*options, "--option=--no-capacity-checks")["runs"][0]["count"]
    assert 0 < capacity_of(*options)["runs"][0]["count"] <= free


def test_several_policies(capacity_of: Any, small: Message) -> None:
    """Where the groups differ each size is counted; a named group has its own alone."""
    (old,) = small["nodegroups"].values()
    other = json.loads(json.dumps(old)) | {"name": "other"}
    other["ipolicy"]["std"]["memory-size"] = 1024
    small["nodegroups"]["other-uuid"] = other
    for name in list(small["nodes"])[:3]:
        small["nodes"][name]["group"] = "other-uuid"
    small["instances"] = {}
    tiered, *standard = capacity_of()["runs"]
    assert tiered["mode"] == "tiered"
    assert [run["sizes"][0]["memory"] for run in standard] == [2048, 1024]
    _, alone = capacity_of("--node-group=other")["runs"]
    assert alone["sizes"][0]["memory"] == 1024
    nodes = {node for nodes in alone["sizes"][0]["placements"] for node in nodes}
    assert nodes <= set(list(small["nodes"])[:3])


def test_no_room(capacity_of: Any) -> None:
    """Nothing is an answer too."""
    (run,) = capacity_of("--memory=32g", "--disk=0:size=1023g", "--vcpus=16", "--option=-v")["runs"]
    assert run["count"] == len(run["sizes"][0]["placements"])
    (run,) = capacity_of("--standard-alloc=100t,1g,1", "--only=standard")["runs"]
    assert (run["count"], run["sizes"][0]["limited_by"]) == (0, "instance policy (6 nodes)")


def test_text(front: Front, small: Message) -> None:
    front.configure()
    done = front("capacity", "--file", front.message(small), "--only", "standard")
    assert max(map(len, done.out.splitlines())) <= 80
    headings, line, places, empty, used, memory, *_ = done.out.splitlines()
    assert headings.split()[:6] == ["Mode", "Template", "Memory", "Disk", "VCPUs", "Fit"]
    mode, template, size, disk, vcpus, count, *_ = line.split()
    assert (mode, template, size, disk, vcpus) == ("standard", "drbd", "2.0G", "20.0G", "2")
    assert re.fullmatch(rf"  (node00\d/node00\d ){{3}}and {int(count) - 3} more", places)
    assert empty == ""
    assert used.split()[:3] == ["In", "use", "now"]
    assert f"after standard ({count})" in used
    assert memory.startswith("memory ")
    done = front(
        "capacity", front.message(small), "--only=standard", "--placements", "--print-nodes"
    )
    assert done.out.split("\n\n")[0].count("/") == int(count)
    table = done.out.split("\n\n")[2].splitlines()
    assert table[0].startswith("Node ")
    assert len(table) == 7
    copies = [int(row.split()[-1]) for row in table[1:]]
    assert sum(copies) == 2 * int(count)


def test_separator(front: Front, small: Message) -> None:
    front.configure()
    options = ("--only=standard", "--separator=;", "--no-headers")
    done = front("capacity", front.message(small), *options)
    assert done.out.startswith("standard;drbd;2048;20480;2;")
    assert ".example.com/" in done.out


@pytest.mark.parametrize(
    ("units", "memory", "disk"),
    [("h", "2.0G", "20.0G"), ("m", "2048", "20480"), ("g", "2.0", "20.0"), ("t", "0.0", "0.0")],
)
def test_units(front: Front, small: Message, units: str, memory: str, disk: str) -> None:
    front.configure()
    options = ("--only=standard", "--no-headers", f"--units={units}")
    for more in ((), ("--separator= ",)):
        done = front("capacity", front.message(small), *options, *more)
        assert done.out.split()[2:4] == [memory, disk]


def test_another_allocator(front: Front, small: Message) -> None:
    """The configured allocator is called; without its hint the run ends after the first size."""
    front.plugin(
        "mine",
        """
        from ganeti_steward.core import hookimpl
        from ganeti_steward.core.model.answer import Answer

        @hookimpl
        def steward_capacity(request, cluster):
            nodes = [[node.name for node in cluster.nodes[:2]]]
            return Answer({"count": 1, "placements": nodes, "limited_by": "taste"}, "")
        """,
    )
    front.configure('[plugins]\nload = ["mine"]\n[allocators]\ncapacity = ["mine"]')
    done = front("capacity", front.message(small), "--json")
    runs = json.loads(done.out)["runs"]
    assert [run["count"] for run in runs] == [1, 1]
    assert {size["limited_by"] for run in runs for size in run["sizes"]} == {"taste"}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--disk-template=nosuch",), "unknown disk template 'nosuch'"),
        (("--node-group=nosuch",), "no node group is named 'nosuch' (known: group00)"),
        (("--standard-alloc=1,2",), "DISK,MEMORY,VCPUS is expected, found '1,2'"),
        (("--tiered-alloc=1,2,x",), "DISK,MEMORY,VCPUS is expected, found '1,2,x'"),
        (("--standard-alloc=a,2,1",), "a size such as 512, 4g or 1.5t is expected, found 'a'"),
        (("--memory=4g", "--disk-template=drbd"), "a drbd instance needs a disk"),
        (("--net=0:network=nosuch",), "has no network 'nosuch'"),
        (("--nodes=nosuch",), "no node is named 'nosuch'"),
    ],
)
def test_faults(front: Front, small: Message, options: tuple[str, ...], fault: str) -> None:
    front.configure()
    done = front("capacity", front.message(small), *options)
    assert done.status == 1
    assert fault in done.err


def test_nothing_takes_instances(front: Front, small: Message) -> None:
    front.configure()
    (group,) = small["nodegroups"].values()
    group["alloc_policy"] = "unallocable"
    done = front("capacity", front.message(small))
    assert "no node group takes new instances by itself" in done.err
    done = front("capacity", front.message(small), "--node-group=group00", "--only=standard")
    assert done.status == 0
    group["ipolicy"]["disk-templates"] = []
    done = front("capacity", front.message(small), "--node-group=group00")
    assert "the policies allow no disk template in all groups" in done.err
