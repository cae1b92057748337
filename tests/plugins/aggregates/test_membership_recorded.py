"""What a real Placement service answered, answered with the constraint's own verdict."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from asserting import some
from membership_clusters import make_cluster, make_instance, term_tag
from paths import DATA
from placement_service import Service, filled, read_query, recorded, spelled

from ganeti_steward.plugins.aggregates.config import Aggregates
from ganeti_steward.plugins.aggregates.declarations import read_rules
from ganeti_steward.plugins.aggregates.language.expression import (
    ExpressionError,
    combined,
    parse_text,
    term_text,
    value_text,
)
from ganeti_steward.plugins.aggregates.language.tags import INSTANCE, aggregate_tag, read_tag
from ganeti_steward.plugins.aggregates.requirements import Term, read_requirements
from ganeti_steward.plugins.aggregates.verdicts import Evaluator

PLACEMENT: Final[Any] = json.loads((DATA / "membership" / "placement.json").read_text())

#: Cases that are only about the service's own protocol, and why they do not matter here.
_UUID = "the service takes UUIDs only; here aggregates have names, and this is one"
_FORM = "another spelling of a UUID, which names do not have; braces are no part of a name"
_VERSION = "what an older microversion refuses; there is one version of the language"
_POLICY = "the service's group_policy; the roles of an instance are always isolated"
_ORPHAN = "an expression without resources; an instance always takes something of its nodes"
_TRAITS = "traits, not aggregates"
NOT_APPLICABLE: Final = {
    **dict.fromkeys(
        ("err-name", "err-not-name", "err-in-name", "err-rp-name", "err-gran-name"), _UUID
    ),
    "uuid-braced": _FORM,
    "mv-131-not-bad": _UUID,
    **dict.fromkeys(
        (
            *("mv-120", "mv-121-repeat", "mv-123-repeat", "mv-124-numbered", "mv-124-not"),
            *("mv-131-not", "mv-131-notin", "mv-131-numbered-not", "mv-rp-12"),
            *("mv-rp-123-repeat", "mv-rp-131-not", "gran-name-suffix-132"),
        ),
        _VERSION,
    ),
    **dict.fromkeys(("gran-two-nopolicy", "gran-bad-policy", "gran-policy-empty"), _POLICY),
    **dict.fromkeys(
        (
            *("orphan-plain", "orphan-plain-135", "orphan-numbered", "orphan-numbered-135"),
            *("orphan-numbered-not-135", "orphan-plain-beside-numbered"),
            "orphan-plain-beside-numbered-135",
        ),
        _ORPHAN,
    ),
    "rp-numbered": "the service lists providers without roles",
    "contrast-traits": _TRAITS,
}

CASES: Final = {case["id"]: case for case in PLACEMENT["cases"]}
JUDGED: Final = [name for name in CASES if name not in NOT_APPLICABLE]


def test_what_is_left_out_exists() -> None:
    assert set(NOT_APPLICABLE) <= set(CASES)
    refused = [name for name in CASES if CASES[name]["expected"]["status"] == 400]
    assert set(NOT_APPLICABLE) - set(refused) == {"uuid-braced"}
    assert len(JUDGED) == len(CASES) - len(NOT_APPLICABLE)


@pytest.mark.parametrize("name", JUDGED)
def test_recorded(name: str) -> None:
    case = CASES[name]
    expected = case.get("expected_all_anchors", case["expected"])
    service = Service(PLACEMENT["topologies"][case["topology"]])
    if expected["status"] == 400:
        assert "member_of" in expected["detail"]
        with pytest.raises(ExpressionError) as caught:
            read_query(case["params"])
        assert str(caught.value)
        return
    query = read_query(case["params"])
    if case["endpoint"] == "resource_providers":
        assert service.list_providers(query) == sorted(expected["providers"])
        return
    found = service.candidates(query)
    if not all("mappings" in one for one in expected["candidates"]):
        # Older microversions only give what is taken from which provider.
        found = {(taken, frozenset()) for taken, _ in found}
    assert found == recorded(expected["candidates"])


def plain_only(case: dict[str, Any]) -> bool:
    """Whether a case requires one thing of one provider, as an instance does of a node."""
    keys = [key for key, _ in case["params"]]
    resources = dict(case["params"]).get("resources", ",")
    return (
        set(keys) <= {"resources", "member_of"}
        and "," not in resources
        and case["endpoint"] == "allocation_candidates"
        and case["expected"]["status"] == 200
    )


NODES: Final = [name for name in JUDGED if plain_only(CASES[name])]


@pytest.mark.parametrize("name", NODES)
def test_recorded_on_a_cluster(name: str) -> None:
    """The same by tags: roots are node groups, their children nodes, the others apart."""
    case = CASES[name]
    providers = PLACEMENT["topologies"][case["topology"]]
    roots = {p["name"]: p for p in providers if not p["parent"]}
    nodes = {p["name"]: p for p in providers if p["parent"] in roots}
    cluster = make_cluster(
        {name: tags_of(p) for name, p in roots.items()},
        {name: (p["parent"], tags_of(p)) for name, p in nodes.items()},
    )
    tags = [term_tag(parse_text(filled(v))) for k, v in case["params"] if k == "member_of"]
    rules = read_rules(cluster, Aggregates(combine="placement"))
    requested = read_requirements(rules, make_instance(*tags))
    assert not rules.faults
    assert not requested.faults
    evaluator = Evaluator(rules, cluster)
    (kind,) = (value.partition(":")[0] for key, value in case["params"] if key == "resources")
    offered = [node for node in cluster.nodes if nodes[node.name]["inventory"].get(kind)]
    for role in ("primary", "secondary"):
        free = [
            n.name
            for n in offered
            if evaluator.node(requested.requirements, "drbd", n, role) is None
        ]
        takers = {taker for one in case["expected"]["candidates"] for taker in one["allocations"]}
        assert set(free) == takers & set(nodes)


def test_nodes_are_judged_at_all() -> None:
    assert len(NODES) > 50
    assert sum(CASES[name]["topology"] in ("spec-units", "groups") for name in NODES) > 20


def tags_of(provider: dict[str, Any]) -> list[str]:
    return [aggregate_tag(spelled(name)) for name in provider["aggregates"]]


ENCODING: Final = PLACEMENT["tag_encoding"]
GOOD: Final = [case for case in ENCODING if "means" in case]
BAD: Final = [case for case in ENCODING if "error" in case]


def ours(tag: str) -> str:
    """A tag with the program's own prefix."""
    return tag.replace("p:", "steward:", 1)


def meant(term: Term) -> dict[str, Any]:
    need, ban = combined([term])
    return {"group": term.role, "need": [sorted(names) for names in need], "ban": sorted(ban)}


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case["tag"])
def test_tag_and_text_mean_the_same(case: dict[str, Any]) -> None:
    from_tag, from_text = read_tag(INSTANCE, ours(case["tag"])), parse_text(case["member_of"])
    assert from_tag == from_text
    assert isinstance(from_tag, Term)
    assert meant(from_tag) == case["means"]
    assert term_tag(from_text) == ours(case["tag"])
    assert term_text(from_tag) == case["member_of"]


@pytest.mark.parametrize("case", BAD, ids=lambda case: ascii(case["tag"]))
def test_every_fault_has_its_twin(case: dict[str, Any]) -> None:
    with pytest.raises(ExpressionError):
        read_tag(INSTANCE, ours(case["tag"]))
    if not case["member_of"].startswith("(") and case["legal_in_ganeti"]:
        with pytest.raises(ExpressionError):
            parse_text(case["member_of"])


@pytest.mark.parametrize("name", JUDGED)
def test_expressions_survive_both_spellings(name: str) -> None:
    """Every query to the service can be written as tags and read again."""
    case = CASES[name]
    if case["expected"]["status"] == 400:
        return
    for key, raw in some(case["params"]):
        if key.startswith("member_of"):
            term = parse_text(filled(raw))
            assert read_tag(INSTANCE, term_tag(term)) == term
            assert value_text(term) == filled(raw)
