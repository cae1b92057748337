"""What must hold for whatever expression and membership."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from membership_clusters import make_cluster, make_instance, term_tag, uuid
from thorough import dice, often

from ganeti_steward.core.model.cluster import Cluster
from ganeti_steward.plugins.aggregates.config import Aggregates
from ganeti_steward.plugins.aggregates.declarations import read_rules
from ganeti_steward.plugins.aggregates.language.expression import (
    TEXT,
    ExpressionError,
    Term,
    combined,
    parse_text,
    parse_value,
    term_text,
)
from ganeti_steward.plugins.aggregates.language.tags import (
    KEYS,
    aggregate_tag,
    read_tag,
)
from ganeti_steward.plugins.aggregates.membership import aggregates
from ganeti_steward.plugins.aggregates.requirements import ROLES, read_requirements
from ganeti_steward.plugins.aggregates.verdicts import Evaluator

NAMES: Final = ("a", "b", "c", "d", "lic:1", "lic:2")
RANDOM_CASES: Final = often(600, 10_000)
READINGS: Final = ("union", "placement")


def random_cluster(rng: random.Random) -> Cluster:
    def some() -> list[str]:
        return [aggregate_tag(name) for name in NAMES if rng.random() < 0.3]

    def units(node: str) -> list[str]:
        return [f"steward:unit:{u}:aggregate:{rng.choice(NAMES)}" for u in ("u1", "u2")]

    groups = {name: some() for name in ("g1", "g2")}
    nodes = {f"n{i}": (rng.choice(("g1", "g2")), [*some()]) for i in range(5)}
    if rng.random() < 0.4:
        nodes = {name: (group, [*tags, *units(name)]) for name, (group, tags) in nodes.items()}
    tags = ["steward:default-forbidden-prefix:lic:"] if rng.random() < 0.3 else []
    if rng.random() < 0.5:
        tags += [f"steward:pool:{p}:aggregate:{rng.choice(NAMES)}" for p in ("p1", "p1", "p2")]
    return make_cluster(groups, nodes, tags)


def random_term(rng: random.Random) -> Term:
    listed = rng.random() < 0.5
    names = rng.choices((*NAMES, "empty"), k=rng.randint(1, 3) if listed else 1)
    role = rng.choice(("", "", *ROLES))
    return Term(tuple(names), rng.random() < 0.5, listed, role)


class Asking:
    """Who may serve instances on one cluster."""

    def __init__(self, cluster: Cluster, combine: str, template: str) -> None:
        self.cluster, self.template = cluster, template
        self.rules = read_rules(cluster, Aggregates(combine=combine))
        assert not self.rules.faults
        self.evaluator = Evaluator(self.rules, cluster)

    def allowed(self, terms: Iterable[Term]) -> set[tuple[str, str]]:
        requested = read_requirements(self.rules, make_instance(*map(term_tag, terms)))
        assert not requested.faults
        refused = {
            (n.name, role)
            for n, role, _ in self.evaluator.all(requested.requirements, self.template)
        }
        everywhere = {(n.name, r) for n in self.cluster.nodes for r in ("primary", "secondary")}
        return everywhere - refused


def random_asking(rng: random.Random) -> tuple[Asking, list[Term]]:
    template = rng.choice(("drbd", "ext", "diskless", "plain"))
    asking = Asking(random_cluster(rng), rng.choice(READINGS), template)
    return asking, [random_term(rng) for _ in range(rng.randint(0, 4))]


def test_ten_thousand_random_ones() -> None:
    """A ban never adds a candidate, a list of bans is its parts, order never matters."""
    rng = dice(4)
    removed, kept = 0, 0
    for _ in range(RANDOM_CASES):
        asking, terms = random_asking(rng)
        role = rng.choice(("", *ROLES))
        names = tuple(rng.sample(NAMES, rng.randint(1, 3)))
        before = asking.allowed(terms)
        after = asking.allowed([*terms, Term(names, True, True, role)])
        assert after <= before
        parts = [Term((name,), True, False, role) for name in names]
        assert asking.allowed([*terms, *parts]) == after
        mixed = [*terms, *terms[:1], *parts]
        rng.shuffle(mixed)
        assert asking.allowed(mixed) == after
        removed += after < before
        kept += bool(after)
    assert removed > RANDOM_CASES / 10
    assert kept > RANDOM_CASES / 10


def test_longer_lists_are_wider() -> None:
    """Another name in an ``in:`` list never removes a candidate under no closed prefix."""
    rng = dice(5)
    wider = 0
    for _ in range(1000):
        asking, terms = random_asking(rng)
        at = next((i for i, term in enumerate(terms) if not term.negative), None)
        if at is None:
            continue
        more = terms[at]._replace(names=(*terms[at].names, rng.choice(NAMES)), listed=True)
        before, after = (
            asking.allowed(terms),
            asking.allowed([*terms[:at], more, *terms[at + 1 :]]),
        )
        assert before <= after
        wider += before < after
    assert wider > 50


def test_certain_results_are_known_in_advance() -> None:
    """Unknown aggregates, contradictions, and the two readings."""
    rng = dice(6)
    differing = 0
    for _ in range(1000):
        asking, terms = random_asking(rng)
        before = asking.allowed(terms)
        assert asking.allowed([*terms, Term(("empty",), True)]) == before
        assert asking.allowed([*terms, Term(("empty",))]) == set()
        assert asking.allowed([*terms, Term(("a",)), Term(("a",), True)]) == set()
        readings = [
            Asking(asking.cluster, combine, asking.template).allowed(terms) for combine in READINGS
        ]
        union, placement = readings
        assert placement <= union
        differing += placement < union
    assert differing


def test_who_is_in_what() -> None:
    """Listing the aggregates and reading the members are two views of one thing."""
    rng = dice(7)
    for _ in range(300):
        cluster = random_cluster(rng)
        membership = read_rules(cluster, Aggregates()).membership
        listed = aggregates(membership)
        assert list(listed) == sorted(membership.names())
        for name, members in listed.items():
            assert members.groups == tuple(
                sorted(uuid(g.name) for g in cluster.groups if aggregate_tag(name) in g.tags)
            )
            assert members.nodes == tuple(
                n.name for n in cluster.nodes if aggregate_tag(name) in n.tags
            )
            assert members.groups or members.nodes or members.units or members.pools


name_texts = st.from_regex(r"[A-Za-z0-9_./@:-]{1,64}", fullmatch=True)
role_texts = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True) | st.just("")


@given(st.lists(name_texts, min_size=1, max_size=4), st.booleans(), st.booleans(), role_texts)
def test_both_spellings_of_any_term(
    names: list[str], negative: bool, listed: bool, role: str
) -> None:
    listed = listed or len(names) > 1
    term = Term(tuple(names), negative, listed, role)
    try:
        assert parse_text(term_text(term)) == term
    except ExpressionError:
        with pytest.raises(ExpressionError):
            read_tag("instance", term_tag(term))
    else:
        assert read_tag("instance", term_tag(term)) == term


@settings(max_examples=often(125, 500))
@given(st.text(alphabet="!in:,+ab=_\n ä*", max_size=12))
def test_any_text_is_a_term_or_a_sentence(text: str) -> None:
    """What is understood is written back as it was; all else is an error of one line."""
    try:
        term = parse_value(text, TEXT)
    except ExpressionError as err:
        check_sentence(err)
    else:
        assert term_text(term) == text


def check_sentence(err: ExpressionError) -> None:
    text = str(err)
    assert text
    assert text.isprintable()


@settings(max_examples=often(125, 500))
@given(st.sampled_from(sorted(KEYS)), st.text(alphabet="member-of.:aggrtpul+not\nä", max_size=30))
def test_any_tag_is_read_or_a_sentence(kind: str, text: str) -> None:
    try:
        read_tag(kind, f"steward:{text}")
    except ExpressionError as err:
        check_sentence(err)


@given(st.lists(st.sampled_from(["a", "!a", "in:a,b", "!in:c,a", "b", "in:b,a,b"])))
def test_one_meaning_in_any_order(values: list[str]) -> None:
    terms = [parse_text(value) for value in values]
    assert combined(terms) == combined([*reversed(terms), *terms])
