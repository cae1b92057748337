"""The spelling on Ganeti's objects: what each tag below ``steward:`` means.

===========  ===============================================================
on           tags, each below ``steward:``
===========  ===============================================================
node group   ``aggregate:NAME``
node         ``aggregate:NAME``, ``unit:UNIT:aggregate:NAME``, ``unit:UNIT``
cluster      ``pool:POOL:aggregate:NAME``, ``pool:POOL``,
             ``default-forbidden-prefix:PREFIX``, ``required-prefix:PREFIX``,
             ``unclaimable:NAME``, ``entitled-tag:NAME+TAG``,
             ``entitled-instance:NAME+PATTERN``, ``until:NAME+DATE``,
             ``ask.KIND:PATTERN+VALUE``,
             ``spread:NAME[:hard][:max:N][+SERVICE]``
all three    ``reserve:...``, which the allocators read, and ``memory-ratio:...``
instance     ``member-of:...``, ``member-of.ROLE:...``, ``pool:POOL``,
             ``prefer:...``, ``avoid:...``, each of both also with a role,
             ``restart:first``, ``restart:last``, ``restart:never``
===========  ===============================================================

Any other tag below it is a fault: a slip must not open a reserved host.  So a new key, also one
that is no business of aggregates, has to be made known here before anybody writes it: it goes
into `KEYS` for each kind of object it may stand on, `read_tag` reads it, and `membership` (cluster,
groups, nodes) or `requirements` (instances) uses it.  ``spread`` and ``restart`` are only checked
here: allocators and the maintenance daemon use them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from ganeti_steward.allocators.state import spread
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.model.site_rules import TAG_PREFIX
from ganeti_steward.plugins.aggregates.language import expression, requests
from ganeti_steward.plugins.aggregates.language.limits import checked_date, entitled_by

CLUSTER: Final = "cluster"
GROUP: Final = "group"
NODE: Final = "node"
INSTANCE: Final = "instance"

AGGREGATE: Final = "aggregate"
UNIT: Final = "unit"
POOL: Final = "pool"
FORBIDDEN_PREFIX: Final = "default-forbidden-prefix"
REQUIRED_PREFIX: Final = "required-prefix"
UNCLAIMABLE: Final = "unclaimable"
ENTITLED_TAG: Final = "entitled-tag"
ENTITLED_INSTANCE: Final = "entitled-instance"
UNTIL: Final = "until"
ASK: Final = "ask"
SPREAD: Final = "spread"
RESTART: Final = "restart"
MEMBER_OF: Final = "member-of"
#: How full nodes may be: none of the aggregates' business; the allocators read and check it.
RESERVE: Final = "reserve"
MEMORY_RATIO: Final = "memory-ratio"

#: Kind of object -> what may stand there.
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    CLUSTER: (
        POOL,
        FORBIDDEN_PREFIX,
        REQUIRED_PREFIX,
        UNCLAIMABLE,
        ENTITLED_TAG,
        ENTITLED_INSTANCE,
        UNTIL,
        SPREAD,
        RESERVE,
        MEMORY_RATIO,
        *(f"{ASK}.{kind}" for kind in requests.PROPERTIES),
    ),
    GROUP: (AGGREGATE, RESERVE, MEMORY_RATIO),
    NODE: (AGGREGATE, UNIT, RESERVE),
    INSTANCE: (MEMBER_OF, POOL, requests.PREFER, requests.AVOID, RESTART),
}

_OBJECTS: Final[Mapping[str, str]] = {
    CLUSTER: "the cluster",
    GROUP: "a node group",
    NODE: "a node",
    INSTANCE: "an instance",
}

#: The fault of a key on an object it does not belong on.
_MISPLACED: Final[Mapping[tuple[str, str], str]] = {
    (CLUSTER, AGGREGATE): "the whole cluster cannot be in an aggregate; tag its groups or nodes",
    (INSTANCE, AGGREGATE): f"an instance is in no aggregate; it requests one with {MEMBER_OF}:",
    (GROUP, UNIT): "units are declared on their node",
}

#: When an instance is started elsewhere after its node has died.
_RESTARTS: Final = ("first", "last", "never")

_PART: Final = re.compile(r"[A-Za-z0-9_./@-]{1,64}")


class Fault(NamedTuple):
    """A tag, or an entry of the configuration, that cannot be understood."""

    kind: str
    """the kind of object: cluster, group, node, instance or configuration"""
    name: str
    """the object; of the configuration the path of the key"""
    tag: str
    """the whole tag, or the value in the configuration; empty: the fault is none of a value"""
    text: str
    """what is wrong, and perhaps what was meant"""

    @property
    def sentence(self) -> str:
        """All of it."""
        what = f"{self.kind} {printable(self.name)}" if self.name else f"the {self.kind}"
        if not self.tag:
            return f"{what}: {self.text}"
        word = "tag " if self.kind != "configuration" else ""
        return f"{what}: {word}{self.tag!a}: {self.text}"


def printable(name: str) -> str:
    """A name as it is, unless that would spoil the sentence."""
    return name if name.isprintable() else ascii(name)


class Declared(NamedTuple):
    """A tag that is no expression."""

    key: str
    name: str
    """the aggregate, or the prefix; empty: a unit or a pool in no aggregate"""
    owner: str = ""
    """the unit, the pool, the tag or instances that are entitled, the date, or the service"""


@lru_cache(maxsize=8192)
def read_tag(kind: str, tag: str) -> Declared | expression.Term | requests.Soft | requests.Ask:
    """What a tag below the prefix means on a kind of object; raises ExpressionError."""
    key, colon, rest = tag.removeprefix(TAG_PREFIX).partition(":")
    word, dot, suffix = key.partition(".")
    if kind == INSTANCE and word == MEMBER_OF:
        return _term(dot, suffix, colon, rest)
    if kind == INSTANCE and word in (requests.PREFER, requests.AVOID):
        return requests.soft_tag(word, suffix, rest)
    if kind == CLUSTER and word == ASK:
        return requests.ask_tag(suffix, rest)
    if key not in KEYS[kind]:
        raise expression.ExpressionError(_unknown(kind, key))
    return _declared(kind, key, rest)


def _declared(kind: str, key: str, rest: str) -> Declared:
    if key in (FORBIDDEN_PREFIX, REQUIRED_PREFIX):
        return Declared(key, expression.checked_prefix(rest))
    if key == POOL and kind == INSTANCE:
        return Declared(key, "", checked_part(rest, POOL))
    if key in (UNIT, POOL):
        return _owned(key, rest)
    if key in (ENTITLED_TAG, ENTITLED_INSTANCE, UNTIL):
        return _assigned(key, rest)
    if key == SPREAD:
        return _spread(rest)
    if key == RESTART:
        return _restart(rest)
    return Declared(key, expression.checked_name(rest, expression.TAG))


def _assigned(key: str, rest: str) -> Declared:
    """``NAME+WHAT``."""
    name, plus, what = rest.partition("+")
    if not plus or not what:
        words = {ENTITLED_TAG: "TAG", ENTITLED_INSTANCE: "INSTANCE", UNTIL: "YYYY-MM-DD"}
        meant = f"{TAG_PREFIX}{key}:{name or 'NAME'}+{words[key]}"
        raise expression.ExpressionError(f"is incomplete (meant: {meant!a} ?)")
    if key == UNTIL:
        return Declared(key, expression.checked_name(name, expression.TAG), checked_date(what))
    return Declared(key, entitled_by(name, tag=what).aggregate, what)


def _spread(rest: str) -> Declared:
    try:
        rule = spread.spread_rule(f"{spread.PREFIX}{rest}")
    except StewardError as err:
        raise expression.ExpressionError(str(err)) from None
    return Declared(SPREAD, rule.prefix, rule.services)


def _restart(rest: str) -> Declared:
    if rest not in _RESTARTS:
        raise expression.ExpressionError(f"{rest!a} is not one of {', '.join(_RESTARTS)}")
    return Declared(RESTART, rest)


def _term(dot: str, suffix: str, colon: str, rest: str) -> expression.Term:
    role = expression.checked_suffix(suffix) if dot else ""
    if not colon:
        meant = f"{TAG_PREFIX}{MEMBER_OF}{dot}{role}:NAME"
        raise expression.ExpressionError(f"names no aggregate (meant: {meant!a} ?)")
    return expression.parse_value(rest, expression.TAG, role)


def _owned(key: str, rest: str) -> Declared:
    """``OWNER:aggregate:NAME``, or only ``OWNER``."""
    owner, colon, tail = rest.partition(":")
    if owner and not colon:
        return Declared(key, "", checked_part(owner, key))
    word, colon, name = tail.partition(":")
    if word != AGGREGATE or not colon:
        meant = f"{TAG_PREFIX}{key}:{owner or key.upper()}:{AGGREGATE}:NAME"
        raise expression.ExpressionError(f"names no aggregate (meant: {meant!a} ?)")
    return Declared(key, expression.checked_name(name, expression.TAG), checked_part(owner, key))


def checked_part(name: str, key: str) -> str:
    """The name of a unit or a pool; raises ExpressionError."""
    if not _PART.fullmatch(name):
        raise expression.ExpressionError(
            f"{name!a} is not a {key} name (1 to 64 ASCII letters, digits and _ - . / @)"
        )
    return name


def _unknown(kind: str, key: str) -> str:
    word = key.partition(".")[0]
    if (kind, word) in _MISPLACED:
        return _MISPLACED[kind, word]
    known = ", ".join(f"{TAG_PREFIX}{name}:" for name in KEYS[kind])
    owners = [_OBJECTS[other] for other, keys in KEYS.items() if word in keys]
    if owners:
        return f"{word} belongs on {' or '.join(owners)} (known here: {known})"
    return f"unknown key {key!a} (known here: {known})"


def aggregate_tag(name: str) -> str:
    """The tag of a node or node group that is in an aggregate; raises ExpressionError."""
    return f"{TAG_PREFIX}{AGGREGATE}:{expression.checked_name(name, expression.TAG)}"


def until_tag(name: str, date: str) -> str:
    """The cluster tag of the last day of an aggregate; raises ExpressionError."""
    return (
        f"{TAG_PREFIX}{UNTIL}:{expression.checked_name(name, expression.TAG)}+{checked_date(date)}"
    )
