"""Why an instance is not on a node, and what would remove that."""

from __future__ import annotations

from typing import Any

from advised import (
    NO_TEST,
    Engine,
    Json,
    allocate,
    crowded,
    group,
    message,
    put,
    secondary_full,
    wanted,
)

from ganeti_steward.allocators.advice import case as kinds
from ganeti_steward.allocators.advice.advise import NotThere, advise, why_not
from ganeti_steward.allocators.advice.case import Case, is_complete
from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.core.model.cluster_reader import read_cluster
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.explanation import Explanation
from ganeti_steward.core.model.requests import (
    NodeEvacuate,
    Relocate,
)
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY


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
