"""The sizes that are counted one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from clusters import generate

from ganeti_steward.allocators.capacity.sizes import (
    STANDARD,
    TIERED,
    PolicySizes,
    Sized,
    counted_groups,
    policy_runs,
    usage,
)
from ganeti_steward.core.model.cluster import Cluster, Disk, Instance
from ganeti_steward.core.model.cluster_reader import read_cluster
from ganeti_steward.core.model.requests import Allocate


def test_only_tiered_counts_find_a_size_that_fits() -> None:
    """Finding that takes longer than the count where the nodes are nearly full."""
    cluster = read_cluster(generate("--nodes=3", "--request=none"))
    small = Instance(
        "new", 1, 1, 1, (Disk(1, None),), "drbd", 1, (), (), "up", forthcoming=False, nodes=()
    )
    wanted: list[tuple[int, bool]] = []

    def count(item: Allocate, _: Cluster, hints: bool) -> Mapping[str, object]:
        wanted.append((item.instance.memory, hints))
        less = {"fits_with": {"memory": 4096}} if hints else {}
        return {"placements": [], "limited_by": "memory"} | less

    groups = counted_groups(cluster, None)
    runs = policy_runs(PolicySizes(), cluster, groups, Sized(Allocate(small, 2)), count)
    assert [run.mode for run in runs] == [TIERED, STANDARD]
    assert wanted == [(32768, True), (4096, True), (2048, False)]


def test_usage_leaves_out_what_is_only_announced() -> None:
    cluster = read_cluster(generate("--nodes=6", "--forthcoming=.4", "--request=none"))
    there = [one for one in cluster.instances if not one.forthcoming]
    assert 0 < len(there) < len(cluster.instances)
    assert usage(cluster) == usage(cluster.replace(instances=there))
