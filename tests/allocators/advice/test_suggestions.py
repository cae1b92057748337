"""Each kind of suggestion on a small cluster, with the exact change; and what ends a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from messages import node, policy

from ganeti_steward.allocators.advice import suggestion as kinds
from ganeti_steward.allocators.advice.advise import Advice, advise
from ganeti_steward.allocators.advice.case import Case, is_complete
from ganeti_steward.allocators.advice.suggestion import Suggestion
from ganeti_steward.allocators.advice.why_not import NotThere, why_not
from ganeti_steward.core.config.values import Config
from ganeti_steward.core.iallocator.message import read_cluster
from ganeti_steward.core.iallocator.trials import Trials
from ganeti_steward.core.model.cluster import Cluster, Disk, Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.explanation import Explanation
from ganeti_steward.core.model.options import Options
from ganeti_steward.core.model.requests import (
    Allocate,
    ChangeGroup,
    MultiAllocate,
    NodeEvacuate,
    Relocate,
)
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY, Ban, NoSiteRules

Json = dict[str, Any]

NAMES: Final = ("a", "b", "c")
NO_TEST: Final = Options(capacity_checks=False)


def message(*names: str, **changes: Json) -> Json:
    """Nodes of 16384 MiB free memory and 102400 MiB disk in one group; ``changes`` per node."""
    return {
        "cluster_tags": ["htools:iextags:service"],
        "enabled_hypervisors": ["xen-pvm"],
        "nodegroups": {"uuid-g": group("g")},
        "nodes": {name: node() | changes.get(name, {}) for name in names or NAMES},
        "instances": {},
    }


def group(name: str, **changes: Any) -> Json:
    return {
        "name": name,
        "alloc_policy": "preferred",
        "networks": [],
        "tags": [],
        "ipolicy": policy(),
    } | changes


def put(message: Json, name: str, nodes: list[str], **changes: Any) -> None:
    """An instance on its nodes, which report what it takes."""
    instance = {
        "memory": 4096,
        "vcpus": 1,
        "spindle_use": 1,
        "disk_space_total": 1024,
        "disks": [{"size": 1024}],
        "disk_template": "drbd" if len(nodes) == 2 else "ext",
        "tags": [],
        "nics": [],
        "admin_state": "up",
        "nodes": nodes,
    } | changes
    message["instances"][name] = instance
    message["nodes"][nodes[0]]["free_memory"] -= instance["memory"]
    if instance["disk_template"] in ("drbd", "plain"):
        for one in nodes:
            message["nodes"][one]["free_disk"] -= instance["disk_space_total"]


def wanted(template: str = "ext", memory: int = 1024, disk: int = 1024, **changes: Any) -> Instance:
    space = disk + (128 if template == "drbd" else 0)
    disks = () if template == "diskless" else (Disk(disk, None),)
    one = Instance(
        "new", memory, 1, space, disks, template, 1, (), (), "up", forthcoming=False, nodes=()
    )
    return one._replace(**changes)


def allocate(instance: Instance, **changes: Any) -> Allocate:
    return Allocate(instance, 2 if instance.template == "drbd" else 1, **changes)


class Engine(Trials):
    """The allocators of the default configuration, and one site rule."""

    def __init__(self, bans: tuple[Ban, ...] = ()) -> None:
        super().__init__(Config())
        self._bans = bans

    def rules(self, request: object) -> Any:
        rules = NoSiteRules()
        rules.bans = lambda cluster, instance: self._bans  # type: ignore[method-assign]
        return rules


def advised(
    request: Any, message: Json, options: Options = NO_TEST, engine: Trials | None = None
) -> dict[str, list[Suggestion]]:
    """The suggestions by kind; each is tried here once more."""
    case = Case(request, read_cluster(message), options)
    engine = engine or Engine()
    advice = advise(case, engine, 1e9)
    assert not advice.bounded
    found: dict[str, list[Suggestion]] = {}
    for one in advice.suggestions:
        found.setdefault(one.kind, []).append(one)
        if not one.case.without:
            context = Context(one.case.options, engine.rules(one.case.request))
            outcome = engine.outcome(one.case.request, one.case.cluster, context)
            assert is_complete(outcome, one.case.request), one.text
    return found


def texts(found: dict[str, list[Suggestion]], kind: str) -> list[str]:
    return [one.text for one in found.get(kind, [])]


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


# -- moves of other instances


def crowded() -> Json:
    """Two thirds of each node are taken, by a large and a small instance on ``a``."""
    data = message()
    put(data, "large", ["a"], memory=8192)
    put(data, "small", ["a"], memory=2048)
    put(data, "other", ["b"], memory=10240)
    put(data, "third", ["c"], memory=9216)
    return data


def test_one_move() -> None:
    found = advised(allocate(wanted(memory=8000)), crowded())
    (moves,) = found[kinds.MOVES]
    assert moves.text == "with small moved from a to c (copies nothing)"
    (move,) = moves.moves
    assert (move.instance, move.before, move.after, move.copied) == ("small", ("a",), ("c",), 0)
    assert [operation["OP_ID"] for operation in move.job] == ["OP_INSTANCE_MIGRATE"]


def test_a_move_of_disks_counts_what_it_copies() -> None:
    data = message(a={"drained": True}, c={"free_disk": 70000})
    put(data, "pair", ["a", "b"], memory=2048, disk_space_total=60000, disks=[{"size": 59872}])
    (moves,) = advised(allocate(wanted("plain", disk=80000)), data)[kinds.MOVES]
    assert moves.text == "with pair moved from a/b to c/a (copies 58.6 GiB)"
    assert moves.case.cluster.instance("pair").nodes == ("c", "a")
    free = [(one.free_disk, one.free_memory) for one in moves.case.cluster.nodes]
    assert free == [(42400, 16384), (102400, 16384), (10000, 14336)]


def test_two_moves() -> None:
    data = message("a", "b", "c")
    for name in ("i1", "i2"):
        put(data, name, ["a"], memory=4000)
    put(data, "j", ["b"], memory=12000)
    put(data, "k", ["c"], memory=12000)
    (moves,) = advised(allocate(wanted(memory=16000)), data)[kinds.MOVES]
    assert len(moves.moves) == 2
    assert moves.text.startswith("with ")
    assert ", then " in moves.text
    # No single move is enough.
    data["nodes"]["c"]["drained"] = True
    assert kinds.MOVES not in advised(allocate(wanted(memory=16000)), data)


def test_moves_that_make_others_stuck_are_the_last_resort() -> None:
    data = message("a", "b", "c", c={"free_memory": 3000})
    put(data, "first", ["a"], memory=6000)
    put(data, "second", ["b"], memory=2000)
    found = advised(allocate(wanted(memory=11000)), data, Options())
    for one in found.get(kinds.MOVES, []):
        assert "could no longer leave" in one.text


@pytest.mark.parametrize("template", ["plain", "file"])
def test_what_cannot_be_moved_is_not_suggested(template: str) -> None:
    data = crowded()
    for instance in data["instances"].values():
        instance["disk_template"] = template
    assert kinds.MOVES not in advised(allocate(wanted(memory=8000)), data)


# -- other requests


def secondary_full() -> Json:
    """``one`` is on a and b; c would take it if ``full`` was elsewhere."""
    data = message("a", "b", "c")
    put(data, "one", ["a", "b"], memory=1024, disk_space_total=30000, disks=[{"size": 29872}])
    put(data, "full", ["b", "c"], memory=128, disk_space_total=80000, disks=[{"size": 79872}])
    return data


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


# -- why not there


def reasons(request: Any, data: Json, name: str) -> list[NotThere]:
    case = Case(request, read_cluster(data), NO_TEST)
    return list(why_not(case, name, Engine(), 1e9))


def test_why_not_a_full_node() -> None:
    (one,) = reasons(allocate(wanted(memory=8000)), crowded(), "a")
    assert (one.role, one.rule) == (PRIMARY, "memory")
    assert one.reason == "needs 8000 MiB and 1 to spare, 6144 MiB unallocated"
    assert one.advice is not None
    found = {suggestion.kind: suggestion for suggestion in one.advice.suggestions}
    assert found[kinds.SIZE].text.startswith("with 6140 MiB of memory")
    assert found[kinds.MOVES].moves[0].instance == "small"


def test_why_not_as_primary_and_as_secondary() -> None:
    data = message("a", "b", "c", c={"drained": True})
    first, second = reasons(allocate(wanted("drbd")), data, "c")
    assert (first.role, second.role) == (PRIMARY, SECONDARY)
    for one in (first, second):
        assert (one.rule, one.reason) == ("drained", "the node is drained")
        assert one.advice is not None
        assert kinds.NODE_STATE in {suggestion.kind for suggestion in one.advice.suggestions}


def test_why_not_a_node_that_fits() -> None:
    data = message("a", "b")
    put(data, "one", ["a"], memory=8192)
    (other,) = reasons(allocate(wanted()), data, "a")
    assert other.rule == ""
    assert other.reason.startswith("fits, but b scores better (")
    assert other.advice is None
    (chosen,) = reasons(allocate(wanted()), data, "b")
    assert (chosen.rule, chosen.reason) == ("", "chosen")


def test_why_not_another_group() -> None:
    data = message("a", "b", b={"group": "uuid-h"})
    data["nodegroups"]["uuid-h"] = group("h", networks=["net"])
    (one,) = reasons(allocate(wanted(), group_name="g"), data, "b")
    assert (one.rule, one.reason) == (
        "node group",
        "group h is not among those the request allows",
    )
    (one,) = reasons(allocate(wanted(networks=("net",))), data, "a")
    assert (one.rule, one.reason) == ("node group", "group g: is not connected to network net")


def test_why_not_for_moves() -> None:
    data = secondary_full()
    (full,) = reasons(Relocate("one", 1, ("b",)), data, "c")
    assert (full.role, full.rule) == (SECONDARY, "disk")
    (there,) = reasons(NodeEvacuate(("one",), "secondary-only"), data, "b")
    assert there.reason == "it is the secondary now, which the request is to change"
    assert there.advice is None


def test_why_an_evacuation_copies_disks() -> None:
    data = message(b={"free_memory": 1024})
    put(data, "pair", ["a", "b"])
    request = NodeEvacuate(("pair",), "primary-only")
    outcome = Engine().outcome(request, read_cluster(data), Context(explain=True))
    assert is_complete(outcome, request)
    (explanation,) = outcome.explanations
    assert isinstance(explanation, Explanation)
    steps, leaves, cheaper = explanation.notes
    assert steps == "Steps: replace the secondary, then migrate to the secondary."
    assert leaves == "It leaves a/b."
    assert cheaper == (
        "Not possible: migrate to the secondary: its secondary b cannot take it over: needs 4096 "
        "MiB and 1 to spare, 1024 MiB unallocated"
    )


def test_clusters_are_not_changed() -> None:
    cluster: Cluster = read_cluster(crowded())
    nodes, instances = cluster.nodes, cluster.instances
    advise(Case(allocate(wanted(memory=8000)), cluster, NO_TEST), Engine(), 1e9)
    assert (cluster.nodes, cluster.instances) == (nodes, instances)
