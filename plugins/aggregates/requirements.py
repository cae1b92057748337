"""What an instance asks of its hosts: its tags and what the configuration says of it.

A tag that begins with a required prefix (``reservation:r1``) asks for the aggregate of that
name.  Aggregates under a default-forbidden prefix are banned unless one of that prefix is
asked for (aggregates 6.5): each prefix by itself, and only by a positive mention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.expression import (
    TAG,
    Expression,
    ExpressionError,
    Term,
    checked_name,
    combined,
    term_text,
)
from ganeti_steward.plugins.aggregates.membership import CONFIGURATION, Names, Rules
from ganeti_steward.plugins.aggregates.roles import ROLES, checked_role
from ganeti_steward.plugins.aggregates.tags import INSTANCE, Declared, Fault, read_tag

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Instance


class Wishes(NamedTuple):
    """What one instance asks; the same for all that ask the same, so a key of caches."""

    plain: Expression = Expression()
    """of all its nodes"""
    roles: tuple[tuple[str, Expression], ...] = ()
    """role -> what is asked of whoever serves in it, by itself"""
    closed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """role -> the default-forbidden prefixes that hold in it"""
    pool: str = ""
    """the storage pool its disks are in, where it says so"""

    def role(self, role: str) -> Expression | None:
        """What is asked of whoever serves in a role, if anything is."""
        return dict(self.roles).get(role)

    def prefixes(self, role: str) -> tuple[str, ...]:
        """The default-forbidden prefixes that hold in a role."""
        return dict(self.closed).get(role, ())

    @property
    def wanted(self) -> Names:
        """Every aggregate mentioned positively, in whatever role."""
        return self.plain.wanted.union(*(expression.wanted for _, expression in self.roles))


class Asked(NamedTuple):
    """The wishes of an instance with what could not be understood."""

    wishes: Wishes
    faults: tuple[Fault, ...] = ()
    """each forbids to place the instance at all"""
    terms: tuple[Term, ...] = ()
    """as they were given"""


def read_wishes(rules: Rules, instance: Instance) -> Asked:
    """What an instance asks under these rules."""
    faults: list[Fault] = []
    given = list(_configured(rules, instance.name))
    pools: dict[str, str] = {}
    for tag in instance.tags:
        try:
            said = _said(tag, rules.settings.required)
        except ExpressionError as err:
            faults.append(Fault(INSTANCE, instance.name, tag, str(err)))
            continue
        if isinstance(said, Declared):
            pools[said.owner] = tag
        elif said is not None:
            given.append((said, Fault(INSTANCE, instance.name, tag, "")))
    if len(pools) > 1:
        text = f"names a second storage pool ({', '.join(sorted(pools))})"
        faults.append(Fault(INSTANCE, instance.name, max(pools.values()), text))
    terms = tuple(term for term, _ in given)
    faults += _unclaimable(rules, given)
    return Asked(_wishes(rules, terms, min(pools, default="")), tuple(faults), terms)


def closing_faults(rules: Rules, asked: Asked) -> tuple[Fault, ...]:
    """What forbids to place an instance at all."""
    return *rules.closing(), *asked.faults


def _configured(rules: Rules, name: str) -> Iterator[tuple[Term, Fault]]:
    """What the configuration says, each with the place a fault of it would be at."""
    for term in rules.wishes.get(name, ()):
        yield term, Fault(CONFIGURATION, f"aggregates.instances.{name}", term_text(term), "")


def _said(tag: str, required: Iterable[str]) -> Term | Declared | None:
    """What one tag says; raises ExpressionError."""
    if not tag.startswith(TAG_PREFIX):
        if not any(tag.startswith(prefix) for prefix in required):
            return None
        return Term((checked_name(tag, TAG),))
    said = read_tag(INSTANCE, tag)
    return checked_role(said) if isinstance(said, Term) else said


def _wishes(rules: Rules, terms: Sequence[Term], pool: str) -> Wishes:
    by_role = {
        role: combined(term for term in terms if term.role == role)
        for role in dict.fromkeys(term.role for term in terms)
    }
    plain = by_role.pop("", Expression())
    return Wishes(
        plain,
        tuple(sorted(by_role.items())),
        tuple((role, _closed(rules, plain, by_role.get(role))) for role in ROLES),
        pool,
    )


def _closed(rules: Rules, plain: Expression, own: Expression | None) -> tuple[str, ...]:
    """The prefixes nothing was asked of, in one role."""
    if not rules.settings.forbidden:
        return ()
    wanted = plain.wanted | (own.wanted if own else frozenset())
    return tuple(
        prefix
        for prefix in rules.settings.forbidden
        if not any(name.startswith(prefix) for name in wanted)
    )


def _unclaimable(rules: Rules, given: Iterable[tuple[Term, Fault]]) -> Iterator[Fault]:
    for term, place in given:
        if term.negative:
            continue
        for name in term.names:
            if name in rules.settings.unclaimable:
                yield place._replace(text=f"no instance may ask for aggregate {name}")
