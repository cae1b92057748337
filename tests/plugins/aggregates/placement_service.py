"""A small Placement service: inventory and trees are its own, membership is the verdict's.

It answers the queries recorded from a real service, with the functions the plugin evaluates
nodes with: `by_itself`, `in_tree`, `pool_from` and `reaches`, in the reading "placement".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from ganeti_steward.plugins.aggregates.language.expression import (
    TEXT,
    Expression,
    Term,
    combined,
    parse_value,
)
from ganeti_steward.plugins.aggregates.verdict import (
    by_itself,
    in_tree,
    pool_from,
    reaches,
)

SHARES: Final = "MISC_SHARES_VIA_AGGREGATE"

#: A candidate: what is taken from whom, and who serves which group.
Candidate = tuple[frozenset[tuple[str, str, int]], frozenset[tuple[str, tuple[str, ...]]]]


@dataclass(frozen=True)
class Provider:
    name: str
    root: str
    parent: str | None
    inventory: Mapping[str, int]
    traits: frozenset[str]
    aggregates: frozenset[str]


@dataclass
class Group:
    """What one request group requires."""

    suffix: str
    resources: dict[str, int] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)

    @property
    def expression(self) -> Expression:
        return combined(self.terms)


@dataclass
class Query:
    """The parameters of a request."""

    groups: dict[str, Group]
    isolate: bool = False
    same_subtree: tuple[str, ...] = ()
    in_tree: str = ""
    required: frozenset[str] = frozenset()
    unwanted: frozenset[str] = frozenset()


def spelled(name: str) -> str:
    """The name that stands for an aggregate or provider in braces, in whatever spelling."""
    name, _, way = name.partition("|")
    full = name.replace("agg", "agg-")
    return {"upper": full.upper(), "nodash": full.replace("-", "")}.get(way, full)


def filled(value: str) -> str:
    """A parameter with names for what stands in braces."""
    while "{" in value:
        head, _, rest = value.partition("{")
        name, _, tail = rest.partition("}")
        value = head + spelled(name) + tail
    return value


def read_query(params: Sequence[tuple[str, str]]) -> Query:
    """Raises ExpressionError for a value of member_of that is no expression."""
    query = Query({})
    for key, raw in params:
        value = filled(raw)
        if key.startswith("resources"):
            group = _group(query, key.removeprefix("resources"))
            for item in value.split(","):
                kind, _, amount = item.partition(":")
                group.resources[kind] = int(amount)
        elif key.startswith("member_of"):
            group = _group(query, key.removeprefix("member_of"))
            group.terms.append(parse_value(value, TEXT))
        elif key == "group_policy":
            query.isolate = value == "isolate"
        elif key == "same_subtree":
            query.same_subtree = tuple(value.split(","))
        elif key == "in_tree":
            query.in_tree = value
        else:
            assert key == "required"
            words = value.split(",")
            query.required = frozenset(w for w in words if not w.startswith("!"))
            query.unwanted = frozenset(w[1:] for w in words if w.startswith("!"))
    return query


def _group(query: Query, suffix: str) -> Group:
    return query.groups.setdefault(suffix, Group(suffix))


class Service:
    """One topology."""

    def __init__(self, providers: Sequence[Mapping[str, Any]]) -> None:
        self.providers: dict[str, Provider] = {}
        for given in providers:
            parent = given["parent"]
            self.providers[given["name"]] = Provider(
                name=given["name"],
                root=self.providers[parent].root if parent else given["name"],
                parent=parent,
                inventory=given["inventory"],
                traits=frozenset(given["traits"]),
                aggregates=frozenset(spelled(name) for name in given["aggregates"]),
            )

    def list_providers(self, query: Query) -> list[str]:
        """No spanning."""
        group = query.groups.get("", Group(""))
        return sorted(
            provider.name
            for provider in self.providers.values()
            if by_itself(group.expression, provider.aggregates) is None
            and self._may(provider, query)
            and _holds(provider, group.resources)
        )

    def candidates(self, query: Query) -> set[Candidate]:
        """Every way to serve all groups from one tree and the pools that reach it."""
        roots = {provider.root for provider in self.providers.values()}
        return {found for root in sorted(roots) for found in self._from(root, query)}

    def _may(self, provider: Provider, query: Query) -> bool:
        if query.in_tree and provider.root != self.providers[query.in_tree].root:
            return False
        return query.required <= provider.traits and not query.unwanted & provider.traits

    def _from(self, root: str, query: Query) -> Iterator[Candidate]:
        tree = [p for p in self.providers.values() if p.root == root]
        inside = [provider.aggregates for provider in tree]
        pools = [
            provider
            for provider in self.providers.values()
            if SHARES in provider.traits
            and provider.root != root
            and reaches(provider.aggregates, inside)
        ]
        offered = [provider for provider in (*tree, *pools) if self._may(provider, query)]
        options = [list(self._options(group, root, offered)) for group in query.groups.values()]
        for chosen in product(*options):
            served = dict(zip(query.groups, chosen, strict=True))
            if self._together(served, query):
                yield _candidate(served, query)

    def _options(
        self, group: Group, root: str, offered: Sequence[Provider]
    ) -> Iterator[tuple[tuple[str, str], ...]]:
        """Every (class, provider) choice for one group; a class is "" where none is requested."""
        fitting = [p for p in offered if self._qualifies(group, p, root)]
        if group.suffix:
            for one in fitting:
                if _holds(one, group.resources):
                    yield tuple((kind, one.name) for kind in group.resources or [""])
            return
        each = [
            [(kind, one.name) for one in fitting if one.inventory.get(kind, 0) >= amount]
            for kind, amount in group.resources.items()
        ]
        yield from product(*each)

    def _qualifies(self, group: Group, provider: Provider, root: str) -> bool:
        own, top = provider.aggregates, self.providers[root].aggregates
        if group.suffix:
            return by_itself(group.expression, own) is None
        if provider.root != root:
            return pool_from(group.expression, own, top) is None
        return in_tree(group.expression, own, top, "placement") is None

    def _together(self, served: Mapping[str, tuple[tuple[str, str], ...]], query: Query) -> bool:
        suffixed = [chosen[0][1] for suffix, chosen in served.items() if suffix]
        if query.isolate and len(set(suffixed)) < len(suffixed):
            return False
        if query.same_subtree:
            below = [served[suffix][0][1] for suffix in query.same_subtree]
            if not any(all(self._below(one, top) for one in below) for top in below):
                return False
        return all(
            amount <= self.providers[name].inventory[kind]
            for (name, kind), amount in _amounts(served, query).items()
        )

    def _below(self, name: str, top: str) -> bool:
        parent = self.providers[name].parent
        return name == top or (parent is not None and self._below(parent, top))


def _holds(provider: Provider, resources: Mapping[str, int]) -> bool:
    return all(provider.inventory.get(kind, 0) >= amount for kind, amount in resources.items())


def _amounts(
    served: Mapping[str, tuple[tuple[str, str], ...]], query: Query
) -> dict[tuple[str, str], int]:
    total: dict[tuple[str, str], int] = {}
    for suffix, chosen in served.items():
        for kind, name in chosen:
            if kind:
                amount = query.groups[suffix].resources[kind]
                total[name, kind] = total.get((name, kind), 0) + amount
    return total


def _candidate(served: Mapping[str, tuple[tuple[str, str], ...]], query: Query) -> Candidate:
    taken = ((name, kind, amount) for (name, kind), amount in _amounts(served, query).items())
    mapped = (
        (suffix, tuple(sorted({name for _, name in chosen}))) for suffix, chosen in served.items()
    )
    return frozenset(taken), frozenset(mapped)


def recorded(candidates: Sequence[Mapping[str, Any]]) -> set[Candidate]:
    """The recorded answer in the same form."""
    return {
        (
            frozenset(
                (name, kind, amount)
                for name, taken in one["allocations"].items()
                for kind, amount in taken.items()
            ),
            frozenset(
                (suffix, tuple(sorted(names))) for suffix, names in one.get("mappings", {}).items()
            ),
        )
        for one in candidates
    }
