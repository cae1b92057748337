"""Allocators of a site before ``balanced``: None, refusals and answers, in every request type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from ganeti_steward.allocators.jobs.operations import migrate, moves_result
from ganeti_steward.core.model.answer import Answer

if TYPE_CHECKING:
    from sites import Capture, Site

#: Request type -> its hook, a recorded request, an answer ``balanced`` would not give.
TYPES: Final = {
    "allocate": ("steward_allocate", "allocate-diskless", ["node5.lab"]),
    "multi-allocate": (
        "steward_multi_allocate",
        "multi-allocate-two",
        [[["m1.lab", ["node1.lab"]], ["m2.lab", ["node2.lab"]]], []],
    ),
    "relocate": ("steward_relocate", "relocate-drbd", ["node5.lab"]),
    "allocate-secondary": (
        "steward_allocate_secondary",
        "allocate-secondary-plain-to-drbd",
        "node6.lab",
    ),
    "node-evacuate": (
        "steward_node_evacuate",
        "node-evacuate-primary-diskless",
        moves_result([("inst1.lab", "rack2", ["node6.lab"])], [], [[migrate("inst1.lab")]]),
    ),
    "change-group": (
        "steward_change_group",
        "change-group-sharedfile-named-group",
        moves_result([("inst3.lab", "rack2", ["node6.lab"])], [], [[migrate("inst3.lab")]]),
    ),
}

EVERY_TYPE = pytest.mark.parametrize("kind", TYPES)


def allocator(site: Site, name: str, kind: str, returns: str) -> None:
    """A plugin that always returns the same; ``request``, ``cluster``, ``context`` are at hand."""
    site.plugin(
        name,
        f"""
        @hookimpl
        def {TYPES[kind][0]}(request, cluster, context):
            return {returns}
        """,
    )


def chain(kind: str, *names: str) -> str:
    return f"[allocators]\n{kind} = {list(names)}\n"


@EVERY_TYPE
def test_answer_wins(site: Site, capture: Capture, kind: str) -> None:
    _, name, result = TYPES[kind]
    allocator(site, "mine", kind, f"Answer({result!r}, 'as I like it')")
    site.configure("mine", more=chain(kind, "mine", "balanced"))
    outcome = site.ask(capture(name))
    assert isinstance(outcome, Answer)
    assert (outcome.result, outcome.info) == (result, "as I like it")


@EVERY_TYPE
@pytest.mark.parametrize("returned", ["None", "Refusal('not today')"])
def test_the_next_is_called(site: Site, capture: Capture, kind: str, returned: str) -> None:
    message = capture(TYPES[kind][1])
    site.configure()
    balanced = site.ask(message)
    assert isinstance(balanced, Answer)
    allocator(site, "mine", kind, returned)
    site.configure("mine", more=chain(kind, "mine", "balanced"))
    assert site.ask(message) == balanced


@EVERY_TYPE
def test_loaded_but_not_in_the_chain(site: Site, capture: Capture, kind: str) -> None:
    message = capture(TYPES[kind][1])
    site.configure()
    balanced = site.ask(message)
    allocator(site, "mine", kind, f"Answer({TYPES[kind][2]!r}, 'as I like it')")
    site.configure("mine")
    assert site.ask(message) == balanced


def test_all_refuse(site: Site, capture: Capture) -> None:
    allocator(site, "first", "allocate", "Refusal('not today')")
    allocator(site, "second", "allocate", "None")
    site.configure("first", "second", more=chain("allocate", "first", "second", "balanced"))
    info = site.refused(capture("allocate-refused-memory"))
    assert info.startswith("first: not today; balanced: ")
    assert "second" not in info
    assert "6 instance policy" in info or "3 instance policy" in info


def test_one_refuses(site: Site, capture: Capture) -> None:
    """No other allocator refused, so the reason stands alone."""
    allocator(site, "mine", "allocate", "Refusal('not today')")
    site.configure("mine", more=chain("allocate", "mine"))
    assert site.refused(capture("allocate-diskless")) == "not today"


def test_no_allocator_takes_it(site: Site, capture: Capture) -> None:
    allocator(site, "mine", "allocate", "None")
    site.configure("mine", more=chain("allocate", "mine"))
    info = site.refused(capture("allocate-diskless"))
    assert info == "no allocator takes this request (called: mine)"


def test_order_of_the_chain(site: Site, capture: Capture) -> None:
    allocator(site, "first", "allocate", "Answer(['node1.lab'], 'first')")
    allocator(site, "second", "allocate", "Answer(['node2.lab'], 'second')")
    site.configure("first", "second", more=chain("allocate", "second", "first"))
    assert site.place(capture("allocate-diskless")) == ["node2.lab"]


def test_one_after_balanced(site: Site, capture: Capture) -> None:
    site.configure()
    balanced = site.place(capture("allocate-diskless"))
    allocator(site, "overflow", "allocate", "Answer(['node4.lab'], 'anywhere')")
    site.configure("overflow", more=chain("allocate", "balanced", "overflow"))
    assert site.place(capture("allocate-refused-memory")) == ["node4.lab"]
    assert site.place(capture("allocate-diskless")) == balanced != ["node4.lab"]


def test_what_an_allocator_gets(site: Site, capture: Capture) -> None:
    site.plugin(
        "curious",
        """
        @hookimpl
        def steward_allocate(request, cluster, context):
            seen = [request.instance.name, request.required_nodes, len(cluster.nodes),
                    context.options.capacity_checks, context.explain]
            return Refusal(" ".join(map(str, seen)))
        """,
    )
    site.configure("curious", more=chain("allocate", "curious"))
    message = capture("allocate-drbd")
    assert site.refused(message) == "new1.lab 2 6 True False"
    assert site.refused(message, "--no-capacity-checks") == "new1.lab 2 6 False False"


def test_other_plugins_rules_are_at_hand(site: Site, capture: Capture) -> None:
    allocator(
        site,
        "mine",
        "allocate",
        "Refusal(f'{context.site_rules.bans(cluster, request.instance)[0].reason},"
        " {sum(context.site_rules.costs(cluster, request.instance).values())}')",
    )
    site.plugin(
        "rules",
        """
        @hookimpl
        def steward_constrain(cluster):
            return [Ban("node1.lab", PRIMARY, "noise", "is too loud")]

        @hookimpl
        def steward_weigh(cluster):
            return [Cost("node1.lab", PRIMARY, 2), Cost("node2.lab", SECONDARY, 3)]
        """,
    )
    more = chain("allocate", "mine") + "[weigh]\nrules = 1.5"
    site.configure("mine", "rules", more=more)
    assert site.refused(capture("allocate-diskless")) == "is too loud, 7.5"


def test_the_snapshot_cannot_be_changed(site: Site, capture: Capture) -> None:
    allocator(site, "mine", "allocate", "setattr(cluster, 'nodes', ())")
    site.configure("mine", more=chain("allocate", "mine"))
    info = site.refused(capture("allocate-diskless"))
    assert "plugin mine: failed: AttributeError: a cluster snapshot cannot be changed" in info


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (
            "nosuch",
            "plugin nosuch: is not a loaded allocator (loaded: balanced, dedicated, packed, rules)",
        ),
        ("rules", "plugin rules: does not implement steward_allocate"),
    ],
)
def test_unknown_members(site: Site, capture: Capture, name: str, fault: str) -> None:
    site.configure()
    balanced = site.place(capture("allocate-diskless"))
    site.plugin("rules", "@hookimpl\ndef steward_constrain(cluster):\n    return []\n")
    site.configure("rules", more=chain("allocate", name))
    assert site.refused(capture("allocate-diskless")) == fault
    site.configure("rules", more=chain("allocate", name, "balanced"))
    assert site.place(capture("allocate-diskless")) == balanced


def test_capacity(site: Site, capture: Capture) -> None:
    """A request Ganeti does not make, only the command."""
    message = capture("allocate-diskless")
    message["request"]["type"] = "capacity"
    site.plugin(
        "full",
        """
        @hookimpl
        def steward_capacity(request, cluster):
            if request.item.instance.memory > 1000:
                return None
            nodes = [["node1.lab"], ["node1.lab"]]
            return Answer({"count": 2, "placements": nodes, "limited_by": "taste"}, "two")
        """,
    )
    site.configure("full", more=chain("capacity", "full", "balanced"))
    message["request"]["memory"] = 1000
    outcome = site.ask(message)
    assert isinstance(outcome, Answer)
    assert outcome.info == "two"
    message["request"]["memory"] = 1004
    outcome = site.ask(message)
    assert isinstance(outcome, Answer)
    assert " more fit, limited by " in outcome.info


@pytest.mark.parametrize(
    "returns",
    [
        "{'count': 2, 'placements': [['node1.lab']], 'limited_by': ''}",
        "{'count': 1, 'placements': [['nosuch']], 'limited_by': ''}",
        "{'count': 1, 'placements': [['node1.lab', 'node2.lab']], 'limited_by': ''}",
        "{'count': 0, 'placements': [], 'limited_by': None}",
        "{'count': 0}",
    ],
)
def test_no_answer_to_capacity(site: Site, capture: Capture, returns: str) -> None:
    message = capture("allocate-diskless")
    message["request"]["type"] = "capacity"
    source = f"""
        @hookimpl
        def steward_capacity():
            return Answer({returns}, "")
    """
    site.plugin("odd", source)
    site.configure("odd", more=chain("capacity", "odd"))
    assert "which is not an answer to this request on this cluster" in site.refused(message)


def test_balance(site: Site, capture: Capture) -> None:
    message = capture("node-evacuate-primary-diskless")
    (name,) = message["request"]["instances"]
    message["request"] = {"type": "balance", "max_moves": 1}
    source = f"""
        @hookimpl
        def steward_balance(request, cluster):
            moved = [["{name}", "rack2", ["node6.lab"]]]
            return Answer([moved, [], [[{{"OP_ID": "OP_INSTANCE_MIGRATE",
                          "instance_name": "{name}"}}]] * LENGTH], "one")
    """
    site.plugin("one", source.replace("LENGTH", "1"))
    site.plugin("two", source.replace("LENGTH", "2"))
    site.configure("one", more=chain("balance", "one"))
    outcome = site.ask(message)
    assert isinstance(outcome, Answer)
    assert outcome.info == "one"
    site.configure("two", more=chain("balance", "two"))
    assert "which is not an answer to this request" in site.refused(message)
    site.configure("two", more=chain("balance", "two", "balanced"))
    outcome = site.ask(message)
    assert isinstance(outcome, Answer)
    assert outcome.info.startswith("group ")
