"""Fields of opcodes that are missing in some, which ends the whole expression (job-filters 2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ganeti_steward.plugins.filters.language import AND, NOT, OR, fields_of
from ganeti_steward.plugins.filters.lint.leaf_traps import Trap
from ganeti_steward.plugins.filters.lint.opcode_table import (
    NAME,
    is_common,
    opcodes_with,
    parameter,
)
from ganeti_steward.plugins.filters.lint.reach import leaves

#: How many opcodes a sentence names.
_SHOWN: Final = 3


def missing_fields(expression: Any, place: str, scope: frozenset[str]) -> Iterator[Trap]:
    """Fields that the opcodes do not have that the same expression is about."""
    named = {
        str(value) for operator, field, value in leaves(expression) if _is_name(operator, field)
    }
    about = sorted(scope & named or scope)
    for field in sorted(fields_of(expression) - {NAME}):
        if is_common(field) or not opcodes_with([field]):
            continue
        lacking = [one for one in about if parameter(one, field) is None]
        if lacking and (named or len(lacking) == len(about)):
            yield place, f"{_listed(lacking)} {_has(lacking)} no field {field!r} and never match"


def _is_name(operator: str, field: str) -> bool:
    return field == NAME and operator in ("=", "==")


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    text = ", ".join(names[:_SHOWN])
    return f"{text} and {more} more" if more > 0 else text


def _has(names: list[str]) -> str:
    return "have" if len(names) > 1 else "has"


def unset_fields(expression: Any, place: str, possible: frozenset[str]) -> Iterator[Trap]:
    """Parameters that can be unset, where that is against what the expression seems to say."""
    optional = {
        name
        for name in fields_of(expression) - {NAME}
        if any((one := parameter(opcode, name)) and one.optional for opcode in possible)
    }
    risky = sorted(optional & _risky(expression, negated=False))
    if risky:
        what = risky[0] if len(risky) == 1 else f"all of {', '.join(risky)}"
        verb = "is" if len(risky) == 1 else "are"
        yield (
            place,
            f"only opcodes in which {what} {verb} set can match, whatever else the expression says",
        )


def _risky(expression: Any, *, negated: bool) -> set[str]:
    """Fields without which the expression would be true if luxid ended early."""
    if expression is None:
        return set()
    operator, *parts = expression
    if operator == NOT:
        return _risky(parts[0], negated=not negated)
    if operator not in (AND, OR):
        return {parts[0]} if negated != (operator == "!=") else set()
    found = {name for part in parts for name in _risky(part, negated=negated)}
    if (operator == OR) != negated and parts:
        each = [fields_of(part) for part in parts]
        found |= {name for some in each for name in some if any(name not in one for one in each)}
    return found
