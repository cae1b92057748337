"""What instances request: soft membership, and by what they are.

Soft membership: aggregates that an instance should rather be in, or rather not.

=================  ==========================  ===========================================
configuration      tag                         reading
=================  ==========================  ===========================================
``prefer=a``       ``prefer:a``                a node that is not in a costs 1
``prefer=in:a,b``  ``prefer:in:a+b``           a node that is in neither costs 1
``avoid=a*5``      ``avoid:a*5``               a node that is in a costs 5
=================  ==========================  ===========================================

Costs are in units of the cluster score.  ``prefer_primary=a`` and ``prefer.primary:a`` are for
one node of the instance, and there the aggregates of its group do not count.

Automatic requests: what every instance of an OS, hypervisor or disk template requests.
``[aggregates.ask] os = {"windows-*" = "in:license:windows"}``, or the cluster tag
``ask.os:windows-*+in:license:windows``.  An instance whose OS is not known may be one of them, so
it is placed nowhere, unless the pattern ``""`` says what such an instance requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.core.model.site_rules import ROLES
from ganeti_steward.plugins.aggregates.language import expression

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance


PREFER: Final = "prefer"
AVOID: Final = "avoid"
#: The largest weight: more than any other difference of scores.
MOST: Final = 10000.0

_WEIGHT: Final = re.compile(r"[0-9]{1,5}(\.[0-9]{1,3})?", re.ASCII)


class Soft(NamedTuple):
    """One value of ``prefer`` or ``avoid``."""

    term: expression.Term
    """the aggregates, and the role it is for; never negative"""
    avoid: bool
    weight: float
    """score: what a node costs that does not comply"""

    def cost(self, own: frozenset[str], around: frozenset[str]) -> float:
        """What a node in ``own``, of a group in ``around``, costs in a role it is for."""
        mine = own if self.term.role else own | around
        return self.weight if self.avoid != mine.isdisjoint(self.term.names) else 0.0


def parse_soft(word: str, text: str, spelling: expression.Spelling, role: str = "") -> Soft:
    """A value of ``word``, without it; raises ExpressionError."""
    if role and role not in ROLES:
        known = ", ".join(ROLES)
        raise expression.ExpressionError(f"{word} is for no role {role!a} (known: {known})")
    value, star, number = text.partition("*")
    term = expression.parse_value(value, spelling, role)
    if term.negative:
        other = AVOID if word == PREFER else PREFER
        raise expression.ExpressionError(
            f'"{spelling.negation}" cannot stand behind {word} (meant: {other} ?)'
        )
    return Soft(term, word == AVOID, _weight(number) if star else 1.0)


def _weight(text: str) -> float:
    weight = float(text) if _WEIGHT.fullmatch(text) else 0.0
    if not 0 < weight <= MOST:
        raise expression.ExpressionError(
            f"the weight {text!a} is not a number above 0, up to {MOST:g}"
        )
    return weight


def parse_requested(text: str) -> expression.Term | Soft:
    """What an instance requests, in the configuration's spelling; raises ExpressionError."""
    key, equals, value = text.partition("=")
    word, underscore, role = key.partition("_")
    if not equals or word not in (PREFER, AVOID):
        return expression.checked_role(expression.parse_text(text))
    return parse_soft(
        word, value, expression.TEXT, expression.checked_suffix(role) if underscore else ""
    )


def requested_text(one: expression.Term | Soft) -> str:
    """What an instance requests, in the configuration's spelling."""
    if isinstance(one, expression.Term):
        return expression.term_text(one)
    word = AVOID if one.avoid else PREFER
    role = f"_{one.term.role}" if one.term.role else ""
    return f"{word}{role}={expression.value_text(one.term, expression.TEXT)}*{one.weight:g}"


def soft_tag(word: str, suffix: str, text: str) -> Soft:
    """The value of a tag ``prefer:...`` or ``avoid.ROLE:...``; raises ExpressionError."""
    return parse_soft(
        word, text, expression.TAG, expression.checked_suffix(suffix) if suffix else ""
    )


#: What an automatic request may depend on.
PROPERTIES: Final[Mapping[str, Callable[[Instance], str]]] = {
    "os": lambda instance: instance.os,
    "hypervisor": lambda instance: instance.hypervisor,
    "template": lambda instance: instance.template,
}
_WORDS: Final = {"os": "OS", "hypervisor": "hypervisor", "template": "disk template"}


class Ask(NamedTuple):
    """What instances with a property request."""

    kind: str
    """a key of `PROPERTIES`"""
    pattern: str
    """of the property's value, as the shell's; empty: it is not known"""
    requests: tuple[expression.Term | Soft, ...]

    def fits(self, value: str) -> bool:
        """Whether it is about instances with this value; nothing but ``""`` fits an unknown one."""
        return self.pattern == value if not value else fnmatchcase(value, self.pattern)


def matching(automatic: Iterable[Ask], instance: Instance) -> list[Ask]:
    """The automatic requests of an instance."""
    return [ask for ask in automatic if ask.fits(PROPERTIES[ask.kind](instance))]


def unknown(automatic: Iterable[Ask], instance: Instance) -> list[str]:
    """What is not known of an instance and would have to be, one sentence each."""
    kinds = dict.fromkeys(ask.kind for ask in automatic)
    return [_unknown(kind) for kind in kinds if not _judged(automatic, kind, instance)]


def unknown_everywhere(automatic: Iterable[Ask], cluster: Cluster) -> list[str]:
    """What is not known of any instance of the cluster and would have to be."""
    kinds = dict.fromkeys(ask.kind for ask in automatic)
    return [
        _unknown(kind)
        for kind in kinds
        if cluster.instances and not any(_judged(automatic, kind, one) for one in cluster.instances)
    ]


def _judged(automatic: Iterable[Ask], kind: str, instance: Instance) -> bool:
    value = PROPERTIES[kind](instance)
    return bool(value) or any(ask.kind == kind and ask.fits(value) for ask in automatic)


def _unknown(kind: str) -> str:
    return (
        f"its {_WORDS[kind]} is not known, and what it requests depends on that "
        f'(aggregates.ask.{kind}; the pattern "" there is for such instances)'
    )


def ask_tag(kind: str, text: str) -> Ask:
    """The value of the cluster tag ``ask.KIND:PATTERN+VALUE``; raises ExpressionError."""
    if kind not in PROPERTIES:
        raise expression.ExpressionError(f"ask.{kind} is unknown (known: {', '.join(PROPERTIES)})")
    pattern, plus, value = text.partition("+")
    if not plus:
        raise expression.ExpressionError(
            f"names no aggregate (meant: 'steward:ask.{kind}:{text}+NAME' ?)"
        )
    return Ask(kind, pattern, (expression.parse_value(value, expression.TAG),))
