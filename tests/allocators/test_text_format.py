"""htools' text format, read and written, beside the real hbal."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import cluster_text
import clusters
import pytest
from installed import need

from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.allocators.text_output import htools_text
from ganeti_steward.core.errors import BadInput, StewardError
from ganeti_steward.core.model.cluster import Cluster, Disk, Instance, Node
from ganeti_steward.core.model.cluster_reader import read_cluster

GROUP = "g1|u1|preferred|"
NODES = "n1|1000|100|900|2000|1900|4|N|u1\nn2|1000|100|900|2000|1900|4|M|u1|3"
INSTANCE = "i1|100|50|1|running|Y|n1|n2|drbd|"
POLICY = "|128,1,1024,1,1,1|128,1,1024,1,1,1;256,8,2048,16,8,12|drbd|4.0|32.0"

SEEDS = range(40)


def text(
    groups: str = GROUP,
    nodes: str = NODES,
    instances: str = INSTANCE,
    tags: str = "",
    policies: str = "",
) -> str:
    sections = (groups, nodes, instances, tags, policies)
    return "\n".join(section + "\n" if section else "" for section in sections)


def message(seed: int) -> dict[str, Any]:
    return clusters.cluster(seed, "allocate-one", "--networks=2")


def kept_by_text(cluster: Cluster) -> Cluster:
    """The part of a cluster that the format can hold."""
    return Cluster(
        cluster.groups,
        map(_node, cluster.nodes),
        map(_instance, cluster.instances),
        cluster.tags,
    )


def _node(node: Node) -> Node:
    # Unusable nodes with figures read as drained, the others as offline.
    if node.usable or node.silent:
        return node
    return node._replace(
        offline=not node.live,
        vm_capable=True,
        drained=node.live,
    )


def _instance(instance: Instance) -> Instance:
    disk = Disk(instance.disk_space, instance.spindles)
    return instance._replace(disks=(disk,), networks=())


def parts(cluster: Cluster) -> list[tuple[Any, ...]]:
    return [cluster.groups, cluster.nodes, cluster.instances, cluster.tags]


@pytest.mark.parametrize("seed", SEEDS)
def test_same_cluster_as_the_message(seed: int) -> None:
    sent = message(seed)
    found = read_text(cluster_text.to_text(sent, static_kvm=0))
    assert parts(found) == parts(kept_by_text(read_cluster(sent)))


@pytest.mark.parametrize("seed", SEEDS)
def test_written_and_read_again(seed: int) -> None:
    cluster = read_cluster(message(seed))
    found = read_text(htools_text(cluster))
    assert parts(found) == parts(kept_by_text(cluster))
    assert htools_text(found) == htools_text(cluster)


def test_what_messages_do_not_carry() -> None:
    cluster = read_text(text())
    slow = [node._replace(cpu_speed=0.5) for node in cluster.nodes]
    fixed = [instance._replace(auto_balance=False) for instance in cluster.instances]
    again = read_text(htools_text(Cluster(cluster.groups, slow, fixed, ("a", "b:c"))))
    assert [node.cpu_speed for node in again.nodes] == [0.5, 0.5]
    assert [instance.auto_balance for instance in again.instances] == [False]
    assert again.tags == ("a", "b:c")


@pytest.mark.parametrize(
    ("key", "silent"), [("total_disk", False), ("free_disk", False), ("free_memory", True)]
)
def test_figures_that_are_not_reported(key: str, silent: bool, tmp_path: Path) -> None:
    """Nothing is known of them afterwards, either; hbal takes such a node as offline."""
    sent = message(0)
    name = next(name for name, node in sent["nodes"].items() if not node["offline"])
    sent["nodes"][name][key] = None
    cluster = read_cluster(sent)
    found = read_text(htools_text(cluster)).node(name)
    assert (found.lacks_disk_figures, found.silent) == (True, silent)
    assert found._replace(missing=()) == cluster.node(name)._replace(missing=())
    assert read_text(through_hbal(htools_text(cluster), tmp_path)).node(name).offline


@pytest.mark.parametrize("text", ["a|b", "a\nb", "a\rb"])
def test_what_would_break_a_line(text: str) -> None:
    """No name of Ganeti's has it; one in a file could."""
    cluster = read_cluster(message(0))
    node = cluster.nodes[0]._replace(tags=(text,))
    for broken in (
        cluster.replace(nodes=[node, *cluster.nodes[1:]]),
        Cluster(cluster.groups, cluster.nodes, cluster.instances, [text]),
    ):
        with pytest.raises(StewardError, match="htools' text format cannot hold 'a"):
            htools_text(broken)


def test_memory_reserved_on_kvm() -> None:
    sent = message(0) | {"enabled_hypervisors": ["kvm", "lxc"]}
    found = read_text(htools_text(read_cluster(sent), kvm_memory=4096))
    assert {node.reserved_memory for node in found.nodes} == {4096}


def through_hbal(written: str, path: Path) -> str:
    """What hbal writes when it has read a cluster."""
    file = path / "cluster.data"
    file.write_text(written)
    group = written.partition("|")[0]
    subprocess.run(
        [need("hbal"), "-t", str(file), "-S", str(path / "out"), "-l", "0", "-G", group],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return (path / "out.original").read_text()


@pytest.mark.parametrize("seed", range(8))
def test_hbal_reads_the_same(seed: int, tmp_path: Path) -> None:
    """hbal's own files are read as what was written for it."""
    sent = clusters.generate(
        "--nodes=8", f"--seed={seed}", "--groups=1", "--excl-tags=.3", "--down=.2", "--mix=drbd=1",
        "--admin-offline=.1", "--networks=2", "--drained=1", "--exclusive-storage"
    )  # fmt: skip
    cluster = read_cluster(sent)
    again = read_text(through_hbal(htools_text(cluster), tmp_path))
    assert parts(again) == parts(kept_by_text(cluster))


@pytest.mark.parametrize(
    "nodes",
    [
        NODES,
        NODES + "|a,b|Y|7",
        NODES + "|a,b|N|7|2|1.5",
        NODES + "|a,b|N|7|2|1.5|more",
        NODES.replace("|900|2000", "|?|2000", 1),
        NODES.replace("|N|", "|Y|", 1),
    ],
    ids=["short", "storage", "full", "longer", "unknown", "offline"],
)
def test_short_lines_as_hbal_takes_them(nodes: str, tmp_path: Path) -> None:
    mine = read_text(text(nodes=nodes))
    hbals = read_text(through_hbal(text(nodes=nodes), tmp_path))
    # hbal loses that a node's figures are unknown, and makes it an offline one.
    written = [
        node._replace(missing=(), offline=True, spindles=0, reserved_cpus=0)
        if node.silent
        else node
        for node in mine.nodes
    ]
    if written != list(mine.nodes):
        assert [node.silent for node in mine.nodes] == [True, False]
        assert not mine.nodes[0].usable
    assert list(hbals.nodes) == written
    assert hbals.instances == mine.instances
    assert hbals.groups == mine.groups


@pytest.mark.parametrize("instance", [INSTANCE, INSTANCE + "|2", INSTANCE + "|2|5|N|more"])
def test_short_instances_as_hbal_takes_them(instance: str, tmp_path: Path) -> None:
    mine = read_text(text(instances=instance))
    assert read_text(through_hbal(text(instances=instance), tmp_path)).instances == mine.instances


@pytest.mark.parametrize(
    "status",
    [
        "running",
        "ADMIN_down",
        "ADMIN_offline",
        "ERROR_down",
        "ERROR_up",
        "ERROR_nodedown",
        "ERROR_nodeoffline",
        "ERROR_wrongnode",
        "USER_down",
    ],
)
def test_states_count_as_in_hbal(status: str, tmp_path: Path) -> None:
    """Every status hbal knows is known; one that runs takes memory of its node there, too."""
    written = text(instances=INSTANCE.replace("running", status))
    through_hbal(written, tmp_path)
    # hbal prints its table of nodes on standard error.
    table = subprocess.run(
        [need("hbal"), "-t", str(tmp_path / "cluster.data"), "-p", "-l", "0"],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stderr.splitlines()
    heading = next(line.split()[1:] for line in table if line.split()[:2] == ["F", "Name"])
    row = next(line.split() for line in table if line.split()[:1] == ["n1"])
    figures = dict(zip(heading, row, strict=True))
    (instance,) = read_text(written).instances
    assert int(figures["i_mem"]) == (100 if instance.uses_memory else 0)
    # One CPU is the node's own.
    assert int(figures["vcpu"]) == 1 + (1 if instance.counts_vcpus else 0)


def test_groups_without_a_policy_have_the_default_one(tmp_path: Path) -> None:
    """The cluster's policy applies to no group: as in hbal."""
    written = text(policies=POLICY)
    (group,) = read_text(written).groups
    assert [pair.max.memory for pair in group.policy.minmax] == [32768]
    assert read_text(through_hbal(written, tmp_path)).groups == (group,)
    (group,) = read_text(text(policies=f"g1{POLICY}")).groups
    assert [pair.max.memory for pair in group.policy.minmax] == [256]


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("", "groups, nodes, instances and cluster tags are expected, each followed by an empty"),
        ('{"nodes": {}}', "found 1 of these sections"),
        (
            text(groups="g1|u1|preferred"),
            "line 1: the fields of one group start name|uuid|alloc_policy|tags, found",
        ),
        (text(groups="g1|u1|good|"), "node group 'u1': key 'alloc_policy': unknown value 'good'"),
        (text(groups=f"{GROUP}\ng2|u1|preferred|"), "line 2: a second group 'u1'"),
        (
            text(nodes="n1|1000|100|900|1000"),
            "line 3: the fields of one node start name|total_memory|",
        ),
        (text(nodes=NODES.replace("|100|", "|9e2|", 1)), "'reserved_memory': a number is expected"),
        (text(nodes=NODES.replace("u1", "u9", 1)), "node 'n1': key 'group': no node group has the"),
        (text(nodes=f"{NODES}||N|0|1|1|vg=ssd:9"), "line 4: vg= is followed by NAME:MIB:MIB,NAME:"),
        (text(nodes=f"{NODES}||N|0|1|1|vg=ssd:9:x"), "line 4: field 'ssd': a number is expected"),
        (text(instances=f"{INSTANCE}|2|5|N|vg=:9"), "line 6: vg= is followed by NAME:MIB,NAME:MIB"),
        (text(nodes=f"{NODES}\n{NODES}"), "line 5: a second node 'n1'"),
        (text(nodes=f"{NODES}||X|"), "line 4: field 'exclusive_storage': Y or N is expected"),
        (
            text(instances="i1|100|50|1|running|Y|n1|n2|drbd"),
            "line 6: the fields of one instance start name|",
        ),
        (text(instances=INSTANCE.replace("running", "odd")), "line 6: unknown status 'odd' (known"),
        (text(instances=INSTANCE.replace("|Y|", "|Z|")), "line 6: field 'auto_balance': Y or N is"),
        (text(instances=INSTANCE.replace("n2", "n9")), "instance 'i1': key 'nodes': no node is"),
        (text(instances=INSTANCE.replace("n2", "")), "a drbd instance needs two nodes, found one"),
        (text(instances=INSTANCE.replace("drbd", "disk")), "'disk_template': unknown value 'disk'"),
        (text(policies=f"g9{POLICY}"), "line 9: no group is named 'g9'"),
        (text(policies=f"g1{POLICY}".replace(";256,8,2048,16,8,12", "")), "specs are 1, not pairs"),
        (text(policies=f"g1{POLICY}".replace("|128,1,", "|128,", 1)), "a spec has 6 numbers"),
        (text(policies="g1|1"), "line 9: the fields of one policy start owner|std|"),
    ],
)
def test_faults_are_reported(written: str, fault: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_text(written)
    assert fault in str(caught.value)


def test_all_faults_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        read_text(text(nodes=NODES.replace("|100|", "|x|"), instances="i1|1"))
    assert [fault[:7] for fault in caught.value.faults[:3]] == ["line 3:", "line 4:", "line 6:"]
