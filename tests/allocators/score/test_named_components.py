"""Whatever the score counts `check` names: one table of components and kinds."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from clusters import cluster
from messages import message as sent
from spreading import spread_out
from thorough import seeds

from ganeti_steward.allocators.balancing.planning.balance import group_health
from ganeti_steward.allocators.capacity.sizes import usual_template
from ganeti_steward.allocators.health.conflicts import tag_conflicts
from ganeti_steward.allocators.health.troubles import (
    BY_COMPONENT,
    KINDS,
    GroupFacts,
    group_troubles,
)
from ganeti_steward.allocators.score.score import FAULTS, SPREADS, Scorer
from ganeti_steward.allocators.state.load import load
from ganeti_steward.allocators.text_format import read_text
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.iallocator.message import read_message
from ganeti_steward.core.model.cluster import Cluster

TAGS = ("--excl-tags=.6", "--location-tags", "--desired-location=.5", "--offline=1", "--drained=1")


def named(read: Cluster, group: int) -> dict[str, list[str]]:
    """Kind -> the objects that are named in a group."""
    state = load(read, None, 0)
    nodes = state.frame.group == group
    facts = GroupFacts(
        read,
        tuple(read.nodes[at] for at in np.flatnonzero(nodes)),
        group_health(state, nodes, capacity=False),
    )
    found = [*group_troubles(facts), *tag_conflicts(state, group)]
    return {one.kind: [item.name for item in one.items] for one in found if one.items}


def test_every_component_has_kinds_or_is_a_spread() -> None:
    message = cluster(1, "allocate-one")
    message["cluster_tags"].append("steward:spread:rack")
    read, _ = read_message(orjson.dumps(message))
    components = Scorer(load(read, None, 0), np.ones(len(read.nodes), np.bool_)).components()
    spreads = {name for names, _ in SPREADS for name in names}
    assert components.keys() - spreads - {"reserved_mem_rtotal"} == BY_COMPONENT.keys()
    assert BY_COMPONENT.keys() == {*FAULTS}
    assert {kind for kinds in BY_COMPONENT.values() for kind in kinds} <= KINDS.keys()


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_what_is_counted_is_named(seed: int) -> None:
    message = cluster(seed, "allocate-one", *TAGS)
    if seed % 2:
        message, _ = spread_out(message, seed)
    read, _ = read_message(orjson.dumps(message))
    state = load(read, None, 0)
    nameless = [
        (group, component)
        for group in range(len(read.groups))
        for component, value in Scorer(state, state.frame.group == group).components().items()
        if value and component in BY_COMPONENT
        if named(read, group).keys().isdisjoint(BY_COMPONENT[component])
    ]
    assert nameless == []


RACKS = """\
default|g-1|preferred||

n1|65536|1024|50000|500000|400000|16|M|g-1|1|rack:a|N|0|1|1.0
n2|65536|1024|50000|500000|400000|16|N|g-1|1|rack:a|N|0|1|1.0
n3|65536|1024|50000|500000|400000|16|N|g-1|1|rack:b|N|0|1|1.0

web1|4096|10240|2|running|Y|n1|n3|drbd|service:web|1|-
web2|4096|10240|2|running|Y|n2|n3|drbd|service:web|1|-
other|4096|10240|2|running|Y|n3||plain|service:other|1|-

htools:iextags:service
htools:nlocation:rack

|4096,2,20480,1,1,1|1024,1,1024,1,1,1;32768,16,1048576,16,8,1|drbd,plain|8.0|32.0
"""


def test_two_instances_of_one_service_in_one_rack() -> None:
    assert named(read_text(RACKS), 0) == {"shared-location": ["web1", "web2"]}


@pytest.mark.parametrize(
    ("templates", "local", "named_there"),
    [(["ext"], False, False), (["ext"], True, True), (["drbd", "ext"], False, True)],
)
def test_disk_figures_matter_only_where_there_is_local_storage(
    templates: list[str], local: bool, named_there: bool
) -> None:
    message = sent("allocate")
    message["nodes"]["n2.test"] |= {"total_disk": None, "free_disk": None}
    for group in message["nodegroups"].values():
        group["ipolicy"]["disk-templates"] = templates
    if not local:
        del message["instances"]["d1.test"], message["instances"]["p1.test"]
    read, _ = read_message(orjson.dumps(message))
    assert ("no-disk-figures" in named(read, 0)) == named_there


def test_capacity_counts_a_template_that_the_cluster_has() -> None:
    read, _ = read_message(orjson.dumps(sent("allocate")))
    assert usual_template(read.groups) == "drbd"
    assert usual_template(read.groups, ["file", "ext"]) == "ext"
    with pytest.raises(StewardError, match="name one"):
        usual_template(read.groups, ["rbd"])
