"""Automatic requests: what every instance of an OS, hypervisor or disk template requests.

``[aggregates.ask] os = {"windows-*" = "in:license:windows"}``, or the cluster tag
``ask.os:windows-*+in:license:windows``.  An instance whose OS is not known may be one of them, so
it is placed nowhere, unless the pattern ``""`` says what such an instance requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from ganeti_steward.plugins.aggregates.language.expression import (
    TAG,
    ExpressionError,
    Term,
    parse_value,
)
from ganeti_steward.plugins.aggregates.language.soft import Soft

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Cluster, Instance

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
    requests: tuple[Term | Soft, ...]

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
        raise ExpressionError(f"ask.{kind} is unknown (known: {', '.join(PROPERTIES)})")
    pattern, plus, value = text.partition("+")
    if not plus:
        raise ExpressionError(f"names no aggregate (meant: 'steward:ask.{kind}:{text}+NAME' ?)")
    return Ask(kind, pattern, (parse_value(value, TAG),))
