"""What an instance requires of its hosts: its tags and its entry in the configuration.

A tag that begins with a required prefix (``reservation:r1``) requests the aggregate of that
name.  Aggregates under a default-forbidden prefix are banned unless one of that prefix is
requested: each prefix by itself, and only by a positive mention.  Automatic
requests (`language.automatic`) count as those in the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.language import requests, tags
from ganeti_steward.plugins.aggregates.language.expression import (
    ROLES,
    TAG,
    Expression,
    ExpressionError,
    Term,
    checked_name,
    checked_role,
    combined,
)
from ganeti_steward.plugins.aggregates.language.limits import lacking
from ganeti_steward.plugins.aggregates.membership import CONFIGURATION, MembershipRules, Names

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Instance


class Requirements(NamedTuple):
    """What one instance requires; equal for instances with the same tags, so a key of caches."""

    plain: Expression = Expression()
    """of all its nodes"""
    roles: tuple[tuple[str, Expression], ...] = ()
    """role -> what is required of the node or pool in that role, by itself"""
    closed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """role -> the default-forbidden prefixes that hold in it"""
    pool: str = ""
    """the storage pool its disks are in; empty where it is not named"""

    def role(self, role: str) -> Expression | None:
        """What is required in a role, if anything is."""
        return dict(self.roles).get(role)

    def prefixes(self, role: str) -> tuple[str, ...]:
        """The default-forbidden prefixes that hold in a role."""
        return dict(self.closed).get(role, ())

    @property
    def wanted(self) -> Names:
        """Every aggregate mentioned positively, in whatever role."""
        return self.plain.wanted.union(*(expression.wanted for _, expression in self.roles))


class Requested(NamedTuple):
    """The requirements of an instance with what could not be understood."""

    requirements: Requirements
    faults: tuple[tags.Fault, ...] = ()
    """each forbids to place the instance at all"""
    terms: tuple[Term, ...] = ()
    """as they were given"""
    soft: tuple[requests.Soft, ...] = ()
    """what it should rather be in, or rather not; each once"""


#: What is requested, with the place a fault of it would be at.
_Given = tuple[Term | requests.Soft, tags.Fault]


def read_requirements(rules: MembershipRules, instance: Instance) -> Requested:
    """What an instance requires under these rules."""
    faults: list[tags.Fault] = []
    own: list[_Given] = []
    pools: dict[str, str] = {}
    for tag in instance.tags:
        try:
            declared = _declared(tag, rules)
        except ExpressionError as err:
            faults.append(tags.Fault(tags.INSTANCE, instance.name, tag, str(err)))
            continue
        if isinstance(declared, tags.Declared):
            if declared.key == tags.POOL:
                pools[declared.owner] = tag
        elif declared is not None:
            own.append((declared, tags.Fault(tags.INSTANCE, instance.name, tag, "")))
    if len(pools) > 1:
        text = f"names a second storage pool ({', '.join(sorted(pools))})"
        faults.append(tags.Fault(tags.INSTANCE, instance.name, max(pools.values()), text))
    given = [*_configured(rules, instance.name), *own]
    if rules.automatic:
        given += _automatic(rules, instance)
        faults += [
            tags.Fault(tags.INSTANCE, instance.name, "", t)
            for t in requests.unknown(rules.automatic, instance)
        ]
    terms = tuple(term for term, _ in given if isinstance(term, Term))
    faults += _unclaimable(rules, given)
    faults += _not_entitled(rules, instance, own)
    requirements = requirements_of(rules, terms, min(pools, default=""))
    soft = dict.fromkeys(one for one, _ in given if isinstance(one, requests.Soft))
    return Requested(requirements, tuple(faults), terms, tuple(soft))


def closing_faults(rules: MembershipRules, requested: Requested) -> tuple[tags.Fault, ...]:
    """What forbids to place an instance at all."""
    return *rules.closing(), *requested.faults


def _configured(rules: MembershipRules, name: str) -> Iterator[_Given]:
    """What the configuration requests for an instance."""
    for one in rules.configured.get(name, ()):
        place = f"aggregates.instances.{name}"
        yield one, tags.Fault(CONFIGURATION, place, requests.requested_text(one), "")


def _automatic(rules: MembershipRules, instance: Instance) -> Iterator[_Given]:
    """What it requests by what it is."""
    for ask in requests.matching(rules.automatic, instance):
        place = f"aggregates.ask.{ask.kind}.{ask.pattern}"
        for one in ask.requests:
            yield one, tags.Fault(CONFIGURATION, place, requests.requested_text(one), "")


def _declared(tag: str, rules: MembershipRules) -> Term | requests.Soft | tags.Declared | None:
    """What one tag declares; raises ExpressionError."""
    if not tag.startswith(TAG_PREFIX):
        if not any(tag.startswith(prefix) for prefix in rules.settings.required):
            return None
        return Term((checked_name(tag, TAG),))
    declared = tags.read_tag(tags.INSTANCE, tag)
    assert not isinstance(declared, requests.Ask)  # these stand on the cluster only
    return checked_role(declared) if isinstance(declared, Term) else declared


def requirements_of(rules: MembershipRules, terms: Sequence[Term], pool: str = "") -> Requirements:
    """What these values require together; ``pool``: the storage pool, empty: not named."""
    by_role = {
        role: combined(term for term in terms if term.role == role)
        for role in dict.fromkeys(term.role for term in terms)
    }
    plain = by_role.pop("", Expression())
    return Requirements(
        plain,
        tuple(sorted(by_role.items())),
        tuple((role, _closed(rules, plain, by_role.get(role))) for role in ROLES),
        pool,
    )


def _closed(rules: MembershipRules, plain: Expression, own: Expression | None) -> tuple[str, ...]:
    """The prefixes of which no aggregate is requested, in one role."""
    if not rules.settings.forbidden:
        return ()
    wanted = plain.wanted | (own.wanted if own else frozenset())
    return tuple(
        prefix
        for prefix in rules.settings.forbidden
        if not any(name.startswith(prefix) for name in wanted)
    )


def _unclaimable(rules: MembershipRules, given: Iterable[_Given]) -> Iterator[tags.Fault]:
    for name, place in _claims(given):
        if name in rules.settings.unclaimable:
            yield place._replace(text=f"no instance may request aggregate {name}")


def _not_entitled(
    rules: MembershipRules, instance: Instance, own: Iterable[_Given]
) -> Iterator[tags.Fault]:
    """What the instance's own tags request and it is not entitled to."""
    if not rules.entitled:
        return
    for name, place in _claims(own):
        text = lacking(rules.entitled, name, instance)
        if text:
            yield place._replace(text=text)


def _claims(given: Iterable[_Given]) -> Iterator[tuple[str, tags.Fault]]:
    """Every aggregate that is mentioned positively, with the place."""
    for term, place in given:
        if isinstance(term, Term) and not term.negative:
            for name in dict.fromkeys(term.names):
                yield name, place
