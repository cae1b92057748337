"""Plans beside hbal's on generated clusters, and what the capacity test protects."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import make_cluster
import orjson
import pytest
from balanced_jobs import course
from beside_hbal import compared, compared_groups, everything, made, small
from clusters import generate
from hbal_plan import run_hbal
from installed import need
from test_balance_cases import planned
from thorough import often, seeds

from ganeti_steward.allocators.balancing.planning import plan
from ganeti_steward.allocators.jobs.operations import nodes_after
from ganeti_steward.allocators.score.global_n1 import CapacityTest
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.requests import Balance

FEATURES: Final = (
    (),
    ("--drained=1",),
    ("--forthcoming=.2",),
    ("--excl-tags=.3",),
    ("--missing-mem=2000", "--down=.2"),
    ("--location-tags", "--desired-location=.3"),
    ("--migration-tags",),
    ("--offline=1",),
)
MIXES: Final = ("drbd=1", "drbd=7,plain=2,ext=1", "drbd=1", "drbd=5,ext=5")
#: Without any limit, with the limits of the defaults, with hbal's limit on moves.
WANTED: Final = (
    (Balance(min_gain=0.0, min_gain_per_gib=0.0), ["-g", "0"]),
    (Balance(), []),
    (Balance(max_moves=3), ["-l", "3"]),
)


@pytest.mark.parametrize("seed", seeds(6, 80))
def test_never_behind_hbal(seed: int) -> None:
    """No worse in the end, and no more copied to get where hbal ends."""
    need("hbal")
    size = (f"--nodes={4 + seed % 2}", "--per-node=4", "--choices=1", f"--mix={MIXES[seed % 4]}")
    text = make_cluster.to_text(generate(f"--seed={seed}", *size, *FEATURES[seed % 8]))
    request, options = WANTED[seed % 3]
    assert compared(f"seed {seed}", text, request, options).faults == []


@pytest.mark.parametrize("seed", seeds(4, 80))
def test_middling_groups_are_not_behind_hbal(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups as large as hbal's path is followed in, with fewer other searches."""
    need("hbal")
    monkeypatch.setattr(plan, "_SMALL", 0)
    text = made(everything(seed, (6, 8)))
    results = compared_groups(f"seed {seed}", text, Balance(), [])
    assert [result.faults for result in results] == [[]] * len(results)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(2062, id="announced instances of an offline node"),
        pytest.param(2127, id="instances without disks, which hbal leaves where they are"),
    ],
)
def test_never_copies_more(seed: int) -> None:
    """Clusters on which a plan once copied more than hbal's to get where that ends."""
    need("hbal")
    request, options = WANTED[0]
    assert compared(f"seed {seed}", made(small(seed)), request, options).faults == []


def recount(made: Any) -> None:
    """Give all nodes the free memory and disk that their instances leave."""
    for name, node in made["nodes"].items():
        on = [one for one in made["instances"].values() if name in one["nodes"]]
        running = [one for one in on if one["nodes"][0] == name and one["admin_state"] == "up"]
        used = sum(one["memory"] for one in running)
        node["free_memory"] = node["total_memory"] - node["reserved_memory"] - used
        node["free_disk"] = node["total_disk"] - sum(one["disk_space_total"] for one in on)


def single_large(seed: int, template: str) -> Cluster:
    """A cluster with one instance that finds room on one other node only, kept free for it."""
    made: Any = generate(
        *(f"--seed={seed}", "--nodes=5", "--hetero=0", "--mix=drbd=1", "--per-node=3"),
        *("--fill=.4", "--shape=28672,4194304,16,4"),
    )
    first, *others, spare = sorted(made["nodes"])
    away = {first: others[0], spare: others[1]}
    made["instances"] = {
        name: one for name, one in made["instances"].items() if not {*one["nodes"]} & {*away}
    }
    recount(made)
    node, large = made["nodes"][first], dict(next(iter(made["instances"].values())))
    large |= {"nodes": [first], "disk_template": template, "admin_state": "up", "tags": []}
    large["memory"] = min(made["nodes"][name]["free_memory"] for name in (first, spare)) - 64
    made["instances"]["large.example.com"] = large
    node["free_memory"] -= large["memory"]
    if template == "plain":
        node["free_disk"] -= large["disk_space_total"]
    made["request"] = {"type": "balance"}
    found, _ = read_message(orjson.dumps(made))
    return found


def stuck(cluster: Cluster) -> int:
    """Number of instances that could not leave their node."""
    state = load(cluster, None, 4096)
    return len(CapacityTest(state, state.frame.usable).stuck())


@pytest.mark.parametrize("template", ["ext", "plain"])
def test_a_node_that_is_kept_free_stays_so(template: str) -> None:
    """Balancing to the end leaves nothing stuck that was not."""
    moved = 0
    for seed in range(often(2, 20)):
        cluster = single_large(seed, template)
        assert stuck(cluster) == 0
        jobs = planned(cluster, min_gain=0.0, min_gain_per_gib=1e-9)
        assert course(cluster, jobs).violations == []
        moved += len(jobs)
    assert moved > 0


def test_where_hbal_does_nothing_no_disk_is_copied(tmp_path: Path) -> None:
    """But exchanges that copy are found when they are wanted."""
    need("hbal")
    copied = 0.0
    for seed in range(often(3, 12)):
        made = generate(
            f"--seed={seed}", "--nodes=6", "--mix=drbd=1", "--per-node=6", "--choices=1"
        )
        file = tmp_path / "cluster.data"
        file.write_text(make_cluster.to_text(made))
        for job in run_hbal(file, [*made["nodes"], *made["instances"]]).jobs:
            one = made["instances"][job[0]["instance_name"]]
            for operation in job:
                one["nodes"] = list(nodes_after(tuple(one["nodes"]), operation))
        recount(made)
        file.write_text(make_cluster.to_text(made))
        if run_hbal(file, [*made["nodes"], *made["instances"]]).jobs:
            continue  # read again, N+1 is counted a little differently (allocation 3.3)
        balanced = read_text(file.read_text())
        assert course(balanced, planned(balanced)).copied[-1] == 0
        wanted = planned(balanced, min_gain=0.0, min_gain_per_gib=1e-9)
        copied += course(balanced, wanted).copied[-1]
    assert copied > 0
