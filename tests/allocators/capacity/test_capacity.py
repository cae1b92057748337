"""Counting copies: beside the real hspace, each copy by the rules, nothing left over."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any, Final

import ask
import numpy as np
import orjson
import pytest
from cluster_text import to_text
from clusters import generate
from installed import need
from thorough import often, seeds

from ganeti_steward.allocators.capacity.headroom import Headroom
from ganeti_steward.allocators.capacity.headroom_search import (
    HeadroomScore,
    greedy,
    most_placements,
)
from ganeti_steward.allocators.capacity.sizes import copies_of, with_instances
from ganeti_steward.allocators.placement.placing import Placer
from ganeti_steward.allocators.rules.candidates import primary_verdicts, secondary_verdicts
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state.load import load
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.answer import Answer
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.requests import Allocate, Capacity

Message = dict[str, Any]

NO_TEST: Final = "--no-capacity-checks"

#: Options of the generated cluster, the template of the copies, options of both programs.
CASES: Final = {
    "drbd": (["--mix=drbd=1"], "drbd", [NO_TEST]),
    "drbd, full": (["--mix=drbd=1", "--fill=.8"], "drbd", [NO_TEST]),
    "drbd, two groups": (["--mix=drbd=1", "--groups=2"], "drbd", [NO_TEST]),
    "drbd, last resort": (
        ["--mix=drbd=1", "--groups=2", "--policies=preferred,last_resort"],
        "drbd",
        [NO_TEST],
    ),
    "drbd, unallocable": (
        ["--mix=drbd=1", "--groups=2", "--policies=unallocable,preferred", "--nodes=10"],
        "drbd",
        [NO_TEST],
    ),
    "drbd, offline": (["--mix=drbd=1", "--offline=1"], "drbd", [NO_TEST]),
    "drbd, drained": (["--mix=drbd=1", "--drained=1"], "drbd", [NO_TEST]),
    "drbd, kvm": (["--mix=drbd=1", "--hypervisor=kvm"], "drbd", [NO_TEST]),
    "drbd, few vcpus": (["--mix=drbd=1", "--vcpu-ratio=1.2"], "drbd", [NO_TEST]),
    "drbd, few spindles": (["--mix=drbd=1", "--spindle-ratio=4"], "drbd", [NO_TEST]),
    "drbd, missing memory": (["--mix=drbd=1", "--missing-mem=3000"], "drbd", [NO_TEST]),
    "drbd, locations": (["--mix=drbd=1", "--location-tags"], "drbd", [NO_TEST]),
    "drbd beside others": (["--mix=drbd=6,plain=3,ext=1"], "drbd", [NO_TEST]),
    "plain": (["--mix=plain=1"], "plain", [NO_TEST]),
    "plain, tested": (["--mix=drbd=1", "--nodes=4"], "plain", []),
    "ext": (["--mix=ext=1"], "ext", [NO_TEST]),
    "ext, tested": (["--mix=drbd=1", "--nodes=4"], "ext", []),
    "diskless, stopped": (["--mix=drbd=1", "--down=.3"], "diskless", [NO_TEST]),
}

SPEC: Final = {"memory": 3072, "vcpus": 1, "disk_space_total": 30720, "spindle_use": 1}


def request(template: str, **more: object) -> Message:
    """A body of the standard copy."""
    disks = [] if template == "diskless" else [{"size": SPEC["disk_space_total"]}]
    body: Message = {
        "type": "capacity",
        "name": "copy",
        "disk_template": template,
        "disks": disks,
        "tags": [],
        "nics": [],
        "required_nodes": 2 if template == "drbd" else 1,
        **SPEC,
        **more,
    }
    return body


def cluster(*options: str, template: str = "drbd", **more: object) -> Message:
    message = generate("--nodes=7", "--per-node=6", "--request=none", *options)
    message["request"] = request(template, **more)
    return message


def counted(message: Message, *options: str) -> Any:
    outcome = ask.outcome(message, *options)
    assert isinstance(outcome, Answer), outcome.info
    return outcome.result


def hspace(message: Message, path: Path, *options: str) -> int:
    """hspace's count of the same copies."""
    file = path / "cluster.data"
    file.write_text(to_text(message))
    size = f"{SPEC['disk_space_total']},{SPEC['memory']},{SPEC['vcpus']}"
    template = message["request"]["disk_template"]
    command = [
        need("hspace"),
        "-t",
        str(file),
        f"--disk-template={template}",
        "--machine-readable",
    ]
    # A small start for the tiered specs, which this test does not check.
    command += [f"--standard-alloc={size}", "--tiered-alloc=1024,128,1", "-l", "1000"]
    command += ["--accept-existing-errors", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    lines = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return int(lines["HTS_ALLOC_INSTANCES"])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", seeds(1, 2, 1))
def test_never_fewer_than_hspace(case: str, seed: int, tmp_path: Path) -> None:
    options, template, shared = CASES[case]
    message = cluster(f"--seed={seed}", *options, template=template)
    assert counted(message, *shared)["count"] >= hspace(message, tmp_path, *shared)


def test_more_than_hspace(tmp_path: Path) -> None:
    """Where the order of the score leaves room that a single copy cannot use."""
    message = cluster("--mix=drbd=1", "--nodes=10", "--per-node=10")
    assert counted(message)["count"] > 1.1 * hspace(message, tmp_path)


def read(message: Message, *, with_test: bool = True) -> tuple[Any, Allocate, Context]:
    snapshot, wanted = read_message(orjson.dumps(message))
    assert isinstance(wanted, Capacity)
    context = Context()
    options = context.options._replace(capacity_checks=with_test)
    return snapshot, wanted.item, context._replace(options=options)


@pytest.mark.parametrize("case", CASES)
def test_every_copy_is_legal_and_no_other_fits(case: str) -> None:
    """Each step obeys the rules of allocate; the step after the last is refused."""
    options, template, shared = CASES[case]
    message = cluster("--nodes=5", "--seed=3", *options, template=template)
    result = counted(message, *shared)
    assert result["placements"]
    snapshot, item, context = read(message, with_test=not shared)
    terms = Placer(load(snapshot, template, 4096), context).terms(item)
    places = [tuple(nodes) for nodes in result["placements"]]
    for step, nodes in enumerate(places):
        grown = with_instances(snapshot, copies_of(item.instance, places[:step], 1))
        state = load(grown, template, 4096)
        demand = state.frame.tag_rules.demand(item.instance)
        primary, *secondary = (snapshot.node_index[name] for name in nodes)
        assert primary_verdicts(state, demand, terms).fits[primary], step
        for node in secondary:
            kept = state.peers.row(primary)
            assert state.frame.group[node] == state.frame.group[primary]
            assert secondary_verdicts(state, demand, terms, kept).fits[node], step
    full = with_instances(snapshot, copies_of(item.instance, places, 1))
    before, after = load(snapshot, template, 4096), load(full, template, 4096)
    last = Placer(before, context).place(after, item, None, terms)
    assert last.chosen is None
    if not shared:
        everywhere = np.ones(after.frame.size, np.bool_)
        test = CapacityTest(before, everywhere)
        assert not test.newly_stuck(after, tuple(range(after.frame.size)))


def test_greedy_follows_the_score() -> None:
    """The first copies go where allocate would put them, or as good as that."""
    for seed in range(often(3, 5)):
        message = cluster(f"--seed={seed}", "--mix=drbd=1")
        snapshot, item, context = read(message, with_test=False)
        state = load(snapshot, "drbd", 4096)
        placer = Placer(state, context)
        terms = placer.terms(item)
        for _ in range(10):
            found = placer.place(state, item, None, terms)
            assert found.chosen is not None
            assert found.chosen.best is not None
            assert found.chosen.after is not None
            headroom = Headroom(state, found.demand, terms, paired=True)
            costs = HeadroomScore(state, found.demand, terms, headroom, found.scope)
            ((primary, secondary),) = greedy(headroom, costs, 1)
            places = found.chosen.places
            assert places is not None
            scores = {(p.primary, p.secondary): p.score for p in places.best_first()}
            best = found.chosen.best
            assert scores[primary, secondary] == pytest.approx(best.score, rel=1e-3)
            state = found.chosen.after


def test_costs_follow_the_copies() -> None:
    """Kept up to date copy by copy, they are equal to newly made ones."""
    message = cluster("--seed=4", "--mix=drbd=1", "--forthcoming=.1", "--location-tags")
    snapshot, item, context = read(message, with_test=False)
    state = load(snapshot, "drbd", 4096)
    terms = Placer(state, context).terms(item)
    demand = state.frame.tag_rules.demand(item.instance)
    everywhere = np.ones(state.frame.size, np.bool_)
    headroom = Headroom(state, demand, terms, paired=True)
    costs = HeadroomScore(state, demand, terms, headroom, everywhere)
    for primary, secondary in greedy(headroom, costs, 20):
        state = state.placed(demand, primary, secondary)
    again = Headroom(state, demand, terms, paired=True)
    fresh = HeadroomScore(state, demand, terms, again, everywhere)
    for left, right in (
        (costs.as_primary(), fresh.as_primary()),
        (costs.as_secondary(), fresh.as_secondary()),
    ):
        # The reserve's spread is no part of them: only differences between nodes matter.
        assert left - left[0] == pytest.approx(right - right[0], abs=1e-9)
    assert (headroom.as_primary() == again.as_primary()).all()
    assert (headroom.as_secondary() == again.as_secondary()).all()
    assert (headroom.primaries_left() == again.primaries_left()).all()
    assert (headroom.reserved == again.reserved).all()


def test_bound() -> None:
    """No count goes beyond it, and it is reached where nothing stands in the way."""
    reached = 0
    for seed in range(often(3, 6)):
        message = cluster(f"--seed={seed}", "--mix=drbd=1")
        snapshot, item, context = read(message, with_test=False)
        state = load(snapshot, "drbd", 4096)
        terms = Placer(state, context).terms(item)
        demand = state.frame.tag_rules.demand(item.instance)
        headroom = Headroom(state, demand, terms, paired=True)
        bound = headroom.bound()
        costs = HeadroomScore(state, demand, terms, headroom, np.ones(state.frame.size, np.bool_))
        _, placed = most_placements(headroom, costs)
        assert len(placed) <= bound
        reached += len(placed) == bound
    assert reached


def test_groups() -> None:
    """A named group, the order of alloc_policy, and groups that may only be used when named."""
    message = cluster("--mix=drbd=1", "--groups=2", "--nodes=8")
    uuids = list(message["nodegroups"])
    group_of = {name: node["group"] for name, node in message["nodes"].items()}

    def groups(**more: object) -> list[str]:
        message["request"] = request("drbd", **more)
        places = counted(message)["placements"]
        assert all(len({group_of[node] for node in nodes}) == 1 for nodes in places)
        return [group_of[nodes[0]] for nodes in places]

    both = groups()
    assert set(both) == set(uuids)
    first = groups(group_name=uuids[0])
    assert set(first) == {uuids[0]}
    message["nodegroups"][uuids[0]]["alloc_policy"] = "last_resort"
    ordered = groups()
    assert ordered == sorted(ordered, key=uuids.index, reverse=True)
    assert len(ordered) == len(both)
    message["nodegroups"][uuids[0]]["alloc_policy"] = "unallocable"
    assert set(groups()) == {uuids[1]}
    assert len(groups(group_name=uuids[0])) == len(first)


def test_restrictions() -> None:
    message = cluster("--mix=drbd=1")
    some = sorted(message["nodes"])[:3]
    message["request"]["restrict-to-nodes"] = some
    result = counted(message)
    assert result["count"] > 0
    assert {node for nodes in result["placements"] for node in nodes} <= set(some)
    assert "restriction" not in result["limited_by"]
    message["request"]["nics"] = [{"network": "nosuch"}]
    result = counted(message)
    assert (result["count"], result["limited_by"]) == (0, "networks (7 nodes)")


@pytest.mark.parametrize(
    ("change", "info"),
    [
        ({"group_name": "nosuch"}, "no node group is named 'nosuch'"),
        ({"required_nodes": 3}, "Unsupported number of nodes, only one or two supported"),
    ],
)
def test_refused(change: Message, info: str) -> None:
    message = cluster()
    message["request"].update(change)
    assert ask.outcome(message).info == info


def test_nothing_that_could_run_out() -> None:
    message = cluster(template="diskless", memory=0, vcpus=0)
    for group in message["nodegroups"].values():
        group["ipolicy"]["minmax"] = []
    assert ask.outcome(message).info == "copy takes nothing that could run out"


def test_too_large() -> None:
    result = counted(cluster(memory=16384, disk_space_total=10**9))
    assert (result["count"], result["placements"]) == (0, [])
    assert result["limited_by"] == "disk (7 nodes)"
    result = counted(cluster(memory=10**6))
    assert result["limited_by"] == "instance policy (7 nodes)"


def test_exclusive_storage() -> None:
    """Spindles run out; instances that do not give theirs fit nowhere."""
    message = cluster("--exclusive-storage", "--mix=plain=1", template="plain")
    message["request"]["disks"] = [{"size": 30720, "spindles": 1}]
    free = sum(node["free_spindles"] for node in message["nodes"].values())
    result = counted(message)
    assert 0 < result["count"] <= free
    message["request"]["disks"] = [{"size": 30720}]
    assert counted(message)["count"] == 0


def test_tag_that_excludes() -> None:
    """One copy with an exclusion tag on each node."""
    message = cluster("--mix=ext=1", template="ext", tags=["service:web"])
    assert counted(message, NO_TEST)["count"] > 7
    message["cluster_tags"] = ["htools:iextags:service"]
    result = counted(message, NO_TEST)
    assert result["count"] == 7
    assert "exclusion tags" in result["limited_by"]


def test_nodes_that_report_no_cpus() -> None:
    """No vcpu fits on them, as with hail, unless the vcpu-ratio is switched off."""
    message = cluster("--mix=drbd=1", "--seed=3")
    unlimited = copy.deepcopy(message)
    for node in message["nodes"].values():
        node["total_cpus"] = 0
    found = counted(message, NO_TEST)
    assert found["count"] == 0
    assert "vcpus" in found["limited_by"]
    for changed in (message, unlimited):
        for group in changed["nodegroups"].values():
            group["ipolicy"]["vcpu-ratio"] = -1.0
    assert counted(message, NO_TEST)["count"] == counted(unlimited, NO_TEST)["count"] > 0


def test_soft_rules_dropped() -> None:
    """--ignore-soft-errors: the primaries may eat what is kept free."""
    message = cluster("--mix=drbd=1", template="ext")
    strict = counted(message, NO_TEST)["count"]
    assert counted(message, NO_TEST, "--ignore-soft-errors")["count"] > strict


def test_a_smaller_one_fits() -> None:
    """What the tiered run of the command needs: the largest amounts that still fit once more."""
    message = cluster("--mix=drbd=1", memory=16384)
    outcome = ask.outcome(message, explain=True)
    assert isinstance(outcome, Answer)
    result: Any = outcome.result
    (resource, amount), *others = result["fits_with"].items()
    assert (resource, others) == ("memory", [])
    snapshot, item, context = read(message)
    places = [tuple(nodes) for nodes in result["placements"]]
    full = with_instances(snapshot, copies_of(item.instance, places, 1))
    state = load(full, "drbd", 4096)
    for memory, fits in ((amount, True), (amount + 64, False)):
        wanted = item._replace(instance=item.instance._replace(memory=memory))
        placer = Placer(load(snapshot, "drbd", 4096), context)
        found = placer.place(state, wanted, None, placer.terms(wanted))
        assert (found.chosen is not None) == fits


@pytest.mark.parametrize("case", CASES)
def test_recounted(case: str) -> None:
    """A cluster with the copies on it is read as the state the copies were put on one by one."""
    options, template, _ = CASES[case]
    message = cluster("--seed=5", *options, template=template)
    snapshot, item, context = read(message, with_test=False)
    state = load(snapshot, template, 4096)
    terms = Placer(state, context).terms(item)
    demand = state.frame.tag_rules.demand(item.instance)
    headroom = Headroom(state, demand, terms, paired=template == "drbd")
    everywhere = np.ones(state.frame.size, np.bool_)
    placed = greedy(headroom, HeadroomScore(state, demand, terms, headroom, everywhere), 15)
    assert placed
    names = [node.name for node in snapshot.nodes]
    nodes = [tuple(names[node] for node in pair if node >= 0) for pair in placed]
    for pair in placed:
        state = state.placed(demand, *pair)
    fresh = load(with_instances(snapshot, copies_of(item.instance, nodes, 1)), template, 4096)
    assert (fresh.now == state.now).all()
    assert (fresh.peers.reserved == state.peers.reserved).all()
    assert (fresh.peers.key == state.peers.key).all()
