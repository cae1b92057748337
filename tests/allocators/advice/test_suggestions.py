"""Each kind of suggestion on a small cluster, with the exact change; and what ends a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from advised import (
    NAMES,
    NO_TEST,
    Engine,
    advised,
    allocate,
    crowded,
    group,
    message,
    put,
    secondary_full,
    texts,
    wanted,
)
from messages import node

from ganeti_steward.allocators.advice import case as kinds
from ganeti_steward.allocators.advice.advise import Advice, advise
from ganeti_steward.allocators.advice.case import Case, is_complete
from ganeti_steward.core.model.cluster import Disk, Instance
from ganeti_steward.core.model.cluster_reader import read_cluster
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import (
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
)
from ganeti_steward.core.model.site_rules import PRIMARY, Ban

# -- sizes


@pytest.mark.parametrize(
    ("instance", "text"),
    [
        # One MiB has to be left, and sizes are multiples of 4 MiB.
        (
            wanted(memory=20000),
            "with 16380 MiB of memory instead of 20000 MiB (3620 MiB less)",
        ),
        (
            wanted("plain", disk=120000),
            "with a disk of 102396 MiB instead of 120000 MiB (17604 MiB less)",
        ),
        (
            wanted("plain", 1024, 1024, disks=(Disk(2048, None), Disk(102400, None)))._replace(
                disk_space=104448
            ),
            "with no disk larger than 100348 MiB (2052 MiB less in all)",
        ),
        (wanted("diskless", vcpus=17), "with 16 vcpus instead of 17 (1 less)"),
    ],
    ids=["memory", "disk", "disks", "vcpus"],
)
def test_less(instance: Instance, text: str) -> None:
    """The largest size that fits: the next larger one does not."""
    data = message()
    data["nodegroups"]["uuid-g"]["ipolicy"]["disk-templates"] = ["plain", "ext", "diskless"]
    found = advised(allocate(instance), data)
    assert texts(found, kinds.SIZE) == [text]
    (less,) = found[kinds.SIZE]
    fitting = less.case.request.instance  # type: ignore[union-attr]
    larger = fitting._replace(
        memory=min(fitting.memory + 4, instance.memory),
        vcpus=min(fitting.vcpus + 1, instance.vcpus),
        disk_space=min(fitting.disk_space + 4, instance.disk_space),
    )
    outcome = Engine().outcome(allocate(larger), less.case.cluster, Context(NO_TEST))
    assert not is_complete(outcome, less.case.request)


def test_less_of_several_sizes_at_once() -> None:
    found = advised(allocate(wanted("plain", 20000, 120000)), message())
    memory = "16380 MiB of memory instead of 20000 MiB (3620 MiB less)"
    disk = "a disk of 102396 MiB instead of 120000 MiB (17604 MiB less)"
    assert texts(found, kinds.SIZE) == [f"with {memory} and {disk}"]


def test_no_less_than_the_policy_allows() -> None:
    """Below one range of the policy the next one may begin."""
    data = message(a={"free_memory": 900}, b={"free_memory": 700}, c={"free_memory": 500})
    pair = data["nodegroups"]["uuid-g"]["ipolicy"]["minmax"][0]
    small = {"min": pair["min"], "max": pair["max"] | {"memory-size": 512}}
    large = {"min": pair["min"] | {"memory-size": 1000}, "max": pair["max"]}
    data["nodegroups"]["uuid-g"]["ipolicy"]["minmax"] = [small, large]
    found = advised(allocate(wanted(memory=1024)), data)
    assert texts(found, kinds.SIZE) == ["with 512 MiB of memory instead of 1024 MiB (512 MiB less)"]
    data["nodegroups"]["uuid-g"]["ipolicy"]["minmax"] = [large]
    assert texts(advised(allocate(wanted(memory=1024)), data), kinds.SIZE) == []


# -- nodes and groups


def test_one_node_more() -> None:
    data = message("a", "b", b={"total_memory": 40000})
    for name in ("a", "b"):
        data["nodes"][name]["free_memory"] = 100
    (more,) = advised(allocate(wanted(memory=8192)), data)[kinds.NODE]
    assert more.text == (
        "with one node more in group g like b (40000 MiB memory, 102400 MiB disk, 8 CPUs)"
    )
    assert [one.name for one in more.case.cluster.nodes] == ["a", "b", "new-b"]


def test_one_node_group_more_where_one_node_is_not_enough() -> None:
    data = message("a", "b", a={"free_memory": 100}, b={"free_memory": 100})
    found = advised(allocate(wanted("drbd", 8192)), data)
    assert kinds.NODE not in found
    assert texts(found, kinds.NODE_GROUP) == [
        "with one node group more like g (2 nodes, 16896 MiB memory, 102400 MiB disk, 8 CPUs each)"
    ]
    # Not where the request names the group.
    named = advised(allocate(wanted("drbd", 8192), group_name="g"), data)
    assert not {kinds.NODE, kinds.NODE_GROUP} & {*named}


def test_drained_nodes_and_nodes_not_named() -> None:
    data = message(a={"free_memory": 100}, b={"drained": True}, c={"offline": True})
    request = allocate(wanted(), restrict_to=("a", "b"))
    found = advised(request, data)
    assert texts(found, kinds.NODE_STATE) == ["with b no longer drained"]
    assert kinds.REQUEST not in found
    data = message(a={"free_memory": 100})
    found = advised(allocate(wanted(), restrict_to=("a",)), data)
    assert texts(found, kinds.REQUEST) == ["on other nodes than those named"]


def test_other_groups() -> None:
    data = message(a={"group": "uuid-h"}, b={"free_memory": 10}, c={"free_memory": 10})
    data["nodegroups"]["uuid-h"] = group("h", alloc_policy="unallocable")
    found = advised(allocate(wanted()), data)
    assert texts(found, kinds.REQUEST) == ["in group h, named in the request, as it is unallocable"]
    data["nodegroups"]["uuid-h"]["alloc_policy"] = "preferred"
    found = advised(allocate(wanted(), group_name="g"), data)
    assert texts(found, kinds.REQUEST) == ["in another group than g"]


# -- rules


def test_an_exclusion_tag() -> None:
    data = message()
    for at, name in enumerate(NAMES):
        put(data, f"i{at}", [name], tags=["service:web"], disk_template="file")
    found = advised(allocate(wanted(tags=("other", "service:web"))), data)
    assert texts(found, kinds.TAG) == ["without the tag service:web of new"]
    assert texts(found, kinds.OPTION) == [
        "with the soft rules dropped (--ignore-soft-errors): c: exclusion tags, i2 there also "
        "carries service:web"
    ]


def test_a_site_rule() -> None:
    bans = tuple(Ban(name, PRIMARY, "backup", "has no backup storage") for name in NAMES)
    found = advised(allocate(wanted()), message(), engine=Engine(bans))
    assert texts(found, kinds.SITE_RULE) == ["without the site rule 'backup'"]


@pytest.mark.parametrize(
    ("instance", "text"),
    [
        (
            wanted(memory=100),
            "with an instance policy of group g that allows memory down to 100 MiB instead of "
            "128 MiB",
        ),
        (wanted("gluster"), "with gluster among the disk templates of group g"),
        (
            wanted("diskless", vcpus=16, memory=16000, spindle_use=13),
            "with an instance policy of group g that allows spindles up to 13 instead of 12",
        ),
    ],
)
def test_the_instance_policy(instance: Instance, text: str) -> None:
    assert text in texts(advised(allocate(instance), message()), kinds.POLICY)


def test_the_vcpu_ratio() -> None:
    data = message("a")
    data["nodegroups"]["uuid-g"]["ipolicy"]["vcpu-ratio"] = 1.0
    found = advised(allocate(wanted(vcpus=9)), data)
    # 9 vcpus on 8 CPUs are a ratio of 1.125.
    assert texts(found, kinds.POLICY) == ["with a vcpu-ratio of 1.13 instead of 1 in group g"]


def test_a_network() -> None:
    found = advised(allocate(wanted(networks=("net-1",))), message())
    assert texts(found, kinds.NETWORK) == ["with group g connected to network net-1"]


def test_the_capacity_test() -> None:
    data = message("a", "b", b={"free_memory": 512})
    found = advised(allocate(wanted(memory=4096)), data, Options())
    assert texts(found, kinds.OPTION) == [
        "without the capacity test (--no-capacity-checks): new could no longer leave a"
    ]


# -- other requests


@pytest.mark.parametrize(
    "request_",
    [Relocate("one", 1, ("b",)), NodeEvacuate(("one",), "secondary-only")],
    ids=["relocate", "node-evacuate"],
)
def test_a_refused_move(request_: Any) -> None:
    data = secondary_full()
    found = advised(request_, data)
    assert texts(found, kinds.NODE) == [
        "with one node more in group g like c (16896 MiB memory, 102400 MiB disk, 8 CPUs)"
    ]
    assert kinds.SIZE not in found
    data["nodes"]["d"] = node() | {"free_disk": 90000, "drained": True}
    assert texts(advised(request_, data), kinds.NODE_STATE) == ["with d no longer drained"]


def test_a_refused_change_of_group() -> None:
    data = message("a", "b", "c", c={"group": "uuid-h", "free_memory": 100})
    data["nodegroups"]["uuid-h"] = group("h")
    put(data, "one", ["a"])
    found = advised(ChangeGroup(("one",), ("uuid-h",)), data)
    assert texts(found, kinds.NODE) == [
        "with one node more in group h like c (16896 MiB memory, 102400 MiB disk, 8 CPUs)"
    ]


def test_a_batch_that_fits_in_part() -> None:
    data = message("a")
    items = tuple(allocate(wanted(memory=10000, name=name)) for name in ("n1", "n2"))
    found = advised(MultiAllocate(items), data)
    assert len(found[kinds.NODE]) == 1


def test_each_instance_alone_where_nothing_helps_all() -> None:
    data = message("a")
    items = tuple(
        allocate(wanted(memory=size, name=name))
        for name, size in (("n0", 9000), ("n1", 10000), ("n2", 30000), ("n3", 31000))
    )
    found = advised(MultiAllocate(items), data)
    # One of the first two takes the room of the other.
    assert texts(found, kinds.REQUEST) in (["for n0 alone"], ["for n1 alone"])
    assert texts(found, kinds.SIZE) == [
        f"for {name} alone with 16380 MiB of memory instead of {size} MiB ({size - 16380} MiB less)"
        for name, size in (("n2", 30000), ("n3", 31000))
    ]


# -- limits of the search


def test_the_search_ends_with_its_time() -> None:
    case = Case(allocate(wanted(memory=20000)), read_cluster(crowded()), NO_TEST)
    ticks: Iterator[int] = iter(range(10**6))
    advice: Advice = advise(case, Engine(), 5, lambda: float(next(ticks)))
    assert advice.bounded
    assert 1 <= advice.tried <= 6
    assert advise(case, Engine(), 1e9).bounded is False
