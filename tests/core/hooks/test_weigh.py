"""A site's costs: added to the score with the configured weight, in every request type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asserting import some

from ganeti_steward.core.model.answer import Answer

if TYPE_CHECKING:
    from sites import Capture, Site

PREFER = """
@hookimpl
def steward_weigh(cluster):
    for node in cluster.nodes:
        if "ssd" not in node.tags:
            for role in ROLES:
                yield Cost(node.name, role, 1)
"""


@pytest.fixture
def prefer(site: Site) -> Site:
    site.plugin("prefer", PREFER)
    site.configure("prefer", more="[weigh]\nprefer = 10")
    return site


@pytest.mark.parametrize("node", ["node1.lab", "node3.lab", "node6.lab"])
@pytest.mark.parametrize("name", ["allocate-diskless", "allocate-plain-with-spindles"])
def test_one_node(prefer: Site, capture: Capture, name: str, node: str) -> None:
    message = capture(name)
    message["nodes"][node]["tags"].append("ssd")
    assert prefer.place(message) == [node]


def test_two_nodes(prefer: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    for node in ("node4.lab", "node5.lab"):
        message["nodes"][node]["tags"].append("ssd")
    outcome = prefer.place(message)
    assert set(outcome) == {"node4.lab", "node5.lab"}


@pytest.mark.parametrize("role", ["PRIMARY", "SECONDARY"])
def test_by_role(site: Site, capture: Capture, role: str) -> None:
    site.plugin(
        "role",
        f"""
        @hookimpl
        def steward_weigh(cluster):
            return [Cost("node3.lab", {role}, -10.0)]
        """,
    )
    site.configure("role")
    outcome = site.place(capture("allocate-drbd"))
    assert outcome[role == "SECONDARY"] == "node3.lab"


def test_relocate_external(prefer: Site, capture: Capture) -> None:
    message = capture("relocate-ext")
    left = message["request"]["relocate_from"][0]
    group = message["nodes"][left]["group"]
    mates = {name for name, node in message["nodes"].items() if node["group"] == group}
    for node in some(sorted(mates - {left})):
        message = capture("relocate-ext")
        message["nodes"][node]["tags"].append("ssd")
        assert prefer.place(message) == [node]


def test_relocate_drbd(prefer: Site, capture: Capture) -> None:
    """Of the nodes that could take the copy, the cheapest."""
    message = capture("relocate-drbd")
    # A fourth node in the group: now there is a choice.
    message["nodes"]["node4.lab"]["group"] = message["nodes"]["node1.lab"]["group"]
    for name in ("node1.lab", "node4.lab"):
        for node in message["nodes"].values():
            node["tags"] = []
        message["nodes"][name]["tags"].append("ssd")
        assert prefer.place(message) == [name]


def test_allocate_secondary(prefer: Site, capture: Capture) -> None:
    for node in ("node1.lab", "node2.lab"):
        message = capture("allocate-secondary-plain-to-drbd")
        message["nodes"][node]["tags"].append("ssd")
        assert prefer.place(message) == node


def test_multi_allocate(prefer: Site, capture: Capture) -> None:
    message = capture("multi-allocate-two")
    message["nodes"]["node6.lab"]["tags"].append("ssd")
    names = [item["name"] for item in message["request"]["instances"]]
    assert prefer.place(message) == [[[name, ["node6.lab"]] for name in names], []]


def test_costs_never_make_a_place_legal(prefer: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    message["nodes"]["node1.lab"].update(tags=["ssd"], drained=True)
    assert prefer.place(message) != ["node1.lab"]


def test_weight_zero_switches_off(prefer: Site, capture: Capture) -> None:
    message = capture("allocate-drbd")
    message["nodes"]["node6.lab"]["tags"].append("ssd")
    prefer.configure("prefer", more="[weigh]\nprefer = 0")
    off = prefer.ask(message)
    prefer.configure()
    assert prefer.ask(message) == off


@pytest.mark.parametrize(
    ("more", "weight"),
    [("", 1.0), ("[weigh]\nprefer = 2.5", 2.5), ('[weigh]\n"prefer" = 3', 3.0)],
    ids=["default", "number", "quoted"],
)
def test_weight_times_cost_is_added(
    prefer: Site, capture: Capture, more: str, weight: float
) -> None:
    """Nothing is tagged: every place costs the same, so only the score differs."""
    message = capture("allocate-diskless")
    prefer.configure()
    plain = prefer.ask(message)
    prefer.configure("prefer", more=more)
    weighed = prefer.ask(message)
    assert isinstance(plain, Answer)
    assert isinstance(weighed, Answer)
    assert weighed.result == plain.result
    assert score(weighed) == pytest.approx(score(plain) + weight, abs=1e-6)


def score(answer: Answer) -> float:
    group = answer.info.split(" ", 3)[2].rstrip(",")
    entry = answer.info.split(f"Group {group} (", 1)[1]
    return float(entry.split("score: ", 1)[1].split(",", 1)[0])


def test_plugins_add_up(site: Site, capture: Capture) -> None:
    """Two preferences that differ: the heavier weight wins."""
    for name, node in (("left", "node1.lab"), ("right", "node2.lab")):
        site.plugin(
            name,
            f"""
            @hookimpl
            def steward_weigh(cluster):
                return [Cost({node!r}, PRIMARY, -10)]
            """,
        )
    message = capture("allocate-diskless")
    for heavier, node in (("left", "node1.lab"), ("right", "node2.lab")):
        site.configure("left", "right", more=f"[weigh]\n{heavier} = 2")
        assert site.place(message) == [node]


def test_numbers_of_numpy(site: Site, capture: Capture) -> None:
    site.plugin(
        "numbered",
        """
        import numpy
        @hookimpl
        def steward_weigh(cluster):
            costs = numpy.arange(len(cluster.nodes), dtype=numpy.float32) * -10
            whole = numpy.zeros(len(cluster.nodes), numpy.int64)
            for node, cost, nothing in zip(cluster.nodes, costs, whole):
                yield Cost(node.name, PRIMARY, cost)
                yield Cost(node.name, PRIMARY, nothing)
        """,
    )
    site.configure("numbered")
    assert site.place(capture("allocate-diskless")) == ["node6.lab"]


def test_real_process(prefer: Site, capture: Capture) -> None:
    message = capture("allocate-diskless")
    message["nodes"]["node2.lab"]["tags"].append("ssd")
    answer = prefer.run(message)
    assert answer["success"] is True
    assert answer["result"] == ["node2.lab"]
