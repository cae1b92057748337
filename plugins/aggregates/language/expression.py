"""The language of membership: what an instance requires of the aggregates of its hosts.

=============  =======================  ==========================
configuration  tag                      reading
=============  =======================  ==========================
``a``          ``a``                    must be in a
``in:a,b``     ``in:a+b``               must be in a or in b
``!a``         ``not:a``                must not be in a
``!in:a,b``    ``not:in:a+b``           must be in none of them
=============  =======================  ==========================

Several values must all hold.  A value may be meant for one role of the instance only:
``member_of_primary=!a`` in the configuration, ``member-of.primary:not:a`` in a tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.site_rules import PRIMARY, SECONDARY

#: Key of a value in the configuration's spelling; a role follows after an underscore.
KEY: Final = "member_of"

_NAME: Final = re.compile(r"[A-Za-z0-9_./@:-]{1,64}")
_SUFFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

NAME_CHARACTERS: Final = "1 to 64 ASCII letters, digits and _ - . / @ :"


class ExpressionError(StewardError):
    """An expression, or a tag holding one, that cannot be understood."""


class Term(NamedTuple):
    """One value of ``member_of``."""

    names: tuple[str, ...]
    """in the order given, as often as given"""
    negative: bool = False
    listed: bool = False
    """whether it is written as a list, even one of a single name"""
    role: str = ""
    """the role it is for; empty: the instance as a whole"""


class Expression(NamedTuple):
    """All that is required together: a member of each of ``need``, none of ``ban``."""

    need: tuple[frozenset[str], ...] = ()
    ban: frozenset[str] = frozenset()

    @property
    def wanted(self) -> frozenset[str]:
        """Every aggregate that is mentioned positively."""
        return frozenset().union(*self.need)


class Spelling(NamedTuple):
    """How a value is written in one place."""

    negation: str
    separator: str


TEXT: Final = Spelling("!", ",")
"""command line, configuration file"""
TAG: Final = Spelling("not:", "+")
"""what a Ganeti tag may hold"""


def combined(terms: Iterable[Term]) -> Expression:
    """Several values as one expression; neither order nor repetition matters."""
    need: set[frozenset[str]] = set()
    ban: set[str] = set()
    for term in terms:
        if term.negative:
            ban.update(term.names)
        else:
            need.add(frozenset(term.names))
    return Expression(tuple(sorted(need, key=sorted)), frozenset(ban))


def parse_value(text: str, spelling: Spelling, role: str = "") -> Term:
    """One value without its key; raises ExpressionError."""
    if not text:
        raise ExpressionError("names no aggregate")
    rest = text.removeprefix(spelling.negation)
    negative = rest != text
    if negative and rest.startswith(spelling.negation):
        raise ExpressionError(f'"{spelling.negation}" stands there twice')
    listed = rest.startswith("in:")
    if not listed:
        if spelling.separator in rest:
            raise ExpressionError(
                f'a list needs "in:" (meant: {_head(negative, spelling) + "in:" + rest!a} ?)'
            )
        return Term((checked_name(rest, spelling),), negative, False, role)
    names = rest.removeprefix("in:").split(spelling.separator)
    return Term(tuple(_listed_name(name, spelling) for name in names), negative, True, role)


def _head(negative: bool, spelling: Spelling) -> str:
    return spelling.negation if negative else ""


def _listed_name(name: str, spelling: Spelling) -> str:
    if name.startswith(spelling.negation):
        raise ExpressionError(
            f'"{spelling.negation}" cannot stand inside a list (meant: another value {name!a}?)'
        )
    if name.startswith("in:"):
        raise ExpressionError('"in:" stands there twice')
    return checked_name(name, spelling)


def checked_name(name: str, spelling: Spelling = TEXT) -> str:
    """The name of an aggregate; raises ExpressionError when it cannot be one."""
    if not name:
        raise ExpressionError("the name of an aggregate is missing")
    for word in ("in:", "not:"):
        if name.lower().startswith(word):
            meant = "in:" if word == "in:" else spelling.negation
            raise ExpressionError(f'the name {name!a} begins like "{word}" (meant: {meant} ?)')
    if not _NAME.fullmatch(name):
        raise ExpressionError(f"{name!a} is not an aggregate name ({NAME_CHARACTERS})")
    if name.startswith(":") or name.endswith(":"):
        raise ExpressionError(f"the name {name!a} begins or ends with a colon")
    return name


def checked_prefix(prefix: str) -> str:
    """The beginning of names, as ``reservation:``; raises ExpressionError."""
    if not prefix:
        raise ExpressionError("the prefix is missing")
    try:
        checked_name(prefix + "x")
    except ExpressionError:
        raise ExpressionError(
            f"no aggregate name can begin with {prefix!a} ({NAME_CHARACTERS})"
        ) from None
    return prefix


def checked_suffix(suffix: str) -> str:
    """The role's name behind the key; raises ExpressionError."""
    if not _SUFFIX.fullmatch(suffix):
        raise ExpressionError(f"{suffix!a} is not a role (1 to 64 ASCII letters, digits, _ and -)")
    return suffix


def parse_text(text: str) -> Term:
    """The configuration's spelling, with or without its key; raises ExpressionError."""
    key, equals, value = text.partition("=")
    if not equals:
        return parse_value(text, TEXT)
    if key == KEY:
        return parse_value(value, TEXT)
    if not key.startswith(f"{KEY}_"):
        raise ExpressionError(f"unknown key {key!a} (known: {KEY}, {KEY}_ROLE)")
    return parse_value(value, TEXT, checked_suffix(key.removeprefix(f"{KEY}_")))


def value_text(term: Term, spelling: Spelling = TEXT) -> str:
    """A value without its key."""
    names = spelling.separator.join(term.names)
    return f"{_head(term.negative, spelling)}{'in:' if term.listed else ''}{names}"


def term_text(term: Term) -> str:
    """A value in the configuration's spelling, with its key where it is for one role."""
    key = f"{KEY}_{term.role}=" if term.role else ""
    return key + value_text(term)


STORAGE: Final = "storage"
UNIT: Final = "unit"
#: All there are.
ROLES: Final = (PRIMARY, SECONDARY, STORAGE, UNIT)


def checked_role(term: Term) -> Term:
    """The term, when its role is none or one there is; raises ExpressionError."""
    if term.role and term.role not in ROLES:
        raise ExpressionError(f"unknown role {term.role!a} (known: {', '.join(ROLES)})")
    return term
