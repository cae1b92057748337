"""Names of nodes and instances on a command line: whole, without the domain, or a uuid."""

from __future__ import annotations

from pathlib import Path

import clusters
import pytest
from daemons import luxid
from live import Ganeti

from ganeti_steward.allocators.state.names import Names, short_names
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.ganeti.snapshot import read_live
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.cluster_reader import read_cluster


def ganeti() -> Ganeti:
    return Ganeti(clusters.generate("--nodes=3", "--groups=1", "--mix=drbd=1", "--seed=2"))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    with luxid(tmp_path, ganeti().luxi) as daemon:
        return read_live(Luxi(daemon.path)).cluster


def test_by_name_or_uuid(cluster: Cluster) -> None:
    node, instance = cluster.nodes[1], cluster.instances[0]
    names = Names(cluster)
    for given in (node.name, node.name.partition(".")[0], node.uuid):
        assert names.nodes([given]) == {node.name}
    for given in (instance.name, instance.name.partition(".")[0], instance.uuid):
        assert names.instances([given]) == {instance.name}
    other = cluster.nodes[0]
    assert names.nodes([f"{node.uuid},{other.name}"]) == {node.name, other.name}
    names.check()


@pytest.mark.parametrize("given", ["", "nope", "node", "4b8fdc5f-0000-4000-8000-000000000000"])
def test_what_names_nothing(cluster: Cluster, given: str) -> None:
    names = Names(cluster)
    names.nodes([given])
    with pytest.raises(StewardError, match=f"^no node is named {given!r}$"):
        names.check()


def test_a_message_has_no_uuids() -> None:
    message = clusters.generate("--nodes=3", "--groups=1", "--mix=drbd=1", "--seed=2")
    assert {node.uuid for node in read_cluster(message).nodes} == {""}


def test_short_names() -> None:
    names = ["a.x.org", "b.x.org", "b.y.org", "c"]
    assert short_names(names) == {
        "a.x.org": "a", "b.x.org": "b.x.org", "b.y.org": "b.y.org", "c": "c"
    }  # fmt: skip
