"""Parts of an expression that cannot do what they seem to do.

A field that an opcode does not have ends its whole expression (job-filters 2.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import combinations
from typing import Any, Final

from ganeti_steward.core.errors import few
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.filters import expressions, language
from ganeti_steward.plugins.filters.lint.opcode_table import (
    NAME,
    TYPES,
    is_common,
    opcode_table,
    opcodes_with,
    parameter,
)
from ganeti_steward.plugins.filters.lint.reach import REASON_FIELDS, named_by, reason_leaf
from ganeti_steward.plugins.filters.predicates import WATERMARK
from ganeti_steward.plugins.filters.regex import Regex, Undecided

#: A place in a rule, and a sentence about it.
Trap = tuple[str, str]

_SECOND: Final = 10**9
#: Times that are meant in s: as ns they are of the first minutes of 1970, as s of 1973 to 5138.
_IN_SECONDS: Final = range(10**8, 10**11)
#: How many opcodes a sentence names.
_SHOWN: Final = 3


def traps(name: str, expression: Any, place: str) -> Iterator[Trap]:
    """All traps in a valid expression of the predicate ``name``."""
    scope = named_by(expression) if name == "opcode" else frozenset[str]()
    of_leaf = {"reason": _of_reason, "jobid": _of_job}.get(name, partial(_of_opcode, scope))
    for where, part in language.nodes(expression, place):
        text = ""
        if part[0] not in language.COMPOUNDS:
            text = of_leaf(*part)
        elif len(part) == 1:
            ends = "true" if part[0] == language.AND else "false"
            text = f"{quoted(part[0])} without any part is always {ends}"
        if text:
            yield where, text
        if part[0] == language.AND and name != "jobid":
            yield from _excluding(part, where)
    if name == "opcode":
        yield from _missing_fields(expression, place, scope)


def _excluding(conjunction: Any, place: str) -> Iterator[Trap]:
    """Pairs of comparisons of one field that are never true together."""
    tests = [part for part in conjunction[1:] if part and part[0] in language.COMPARISONS]
    for one, other in combinations(tests, 2):
        if one[1] == other[1] != NAME and type(one[2]) is type(other[2]) and _exclude(one, other):
            both = f"{json.dumps(one)} and {json.dumps(other)}"
            yield place, f"no {one[1]} satisfies both {both}"


def _exclude(one: Any, other: Any) -> bool:
    """Whether no value satisfies two comparisons that some value satisfies each."""
    values = [one[2], other[2]]
    if isinstance(one[2], str):
        values += ["", *(f"{value}\0" for value in values)]
    else:
        values += [value + more for value in values for more in (1, -1)]
    first, second = (
        {
            value
            for value in values
            if expressions.of_value(expressions.compiled(leaf), value) == {True}
        }
        for leaf in (one, other)
    )
    return bool(first and second) and first.isdisjoint(second)


def _of_reason(operator: str, field: str, *value: Any) -> str:
    if field not in REASON_FIELDS:
        return f"a reason has source, reason and timestamp, but no field {quoted(field)}"
    if operator not in language.COMPARISONS:
        return (
            f"luxid never finds {quoted(operator)} true of a reason, also under '!': only "
            "comparisons such as '=' with the whole text work"
        )
    if field == "timestamp" and isinstance(value[0], int) and value[0] in _IN_SECONDS:
        return (
            f"luxid's times are in nanoseconds since 1970, {value[0]} is "
            f"{value[0] / _SECOND:.1f} s after its beginning; use {value[0] * _SECOND} for the "
            "time in seconds"
        )
    leaf = expressions.compiled([operator, field, *value], expressions.strings_first)
    return _constant(leaf, reason_leaf(leaf), REASON_FIELDS[field])


def _of_job(operator: str, field: str, *value: Any) -> str:
    if field != "id":
        return f"a job id has the field 'id' only, not {quoted(field)}"
    if operator not in language.COMPARISONS:
        return f"luxid only compares job ids; {quoted(operator)} is never true, also under '!'"
    (other,) = value
    if other != WATERMARK and isinstance(other, str):
        hint = f"; use {other} without quotes" if other.isdecimal() else ""
        return (
            f"luxid compares job ids with integers and the word 'watermark', not with the text "
            f"{quoted(other)}{hint}"
        )
    return ""


def _of_opcode(scope: frozenset[str], operator: str, field: str, *value: Any) -> str:
    """``scope``: the opcodes that the expression's conditions on ``OP_ID`` leave."""
    if field == NAME and operator in ("=", "==", "!=", language.MATCHES):
        return _of_name(operator, str(value[0]))
    if is_common(field):
        return f"filters do not see the field {quoted(field)} of opcodes, so that nothing matches"
    having = opcodes_with(field)
    if not having:
        return f"no opcode of Ganeti 3 has the field {quoted(field)}"
    relevant = [opcode for opcode in having if opcode in scope] or having
    kinds = {known.kind for opcode in relevant if (known := parameter(opcode, field))}
    leaf = expressions.compiled([operator, field, *value])
    ends = frozenset[bool | None]().union(*(expressions.by_type(leaf, kind) for kind in kinds))
    return _constant(leaf, ends, *kinds)


@lru_cache(maxsize=1000)
def _of_name(operator: str, value: str) -> str:
    names = opcode_table()
    if operator == language.MATCHES:
        try:
            if _in_a_name(Regex(value)):
                return ""
            upper = _in_a_name(Regex(value, any_case=True))
        except Undecided:
            return ""
        hint = ": their names are in upper case" if upper else ""
        return f"no opcode of Ganeti 3 matches {quoted(value)}{hint}"
    if value in names:
        return ""
    candidates = (value.upper(), f"OP_{value.upper()}", f"OP_{value.upper().removeprefix('OP')}")
    hint = next((f"; use {quoted(one)}" for one in candidates if one in names), "")
    return f"no opcode of Ganeti 3 has the name {quoted(value)}{hint}"


def _in_a_name(regex: Regex) -> bool:
    return any(map(regex.is_in, opcode_table()))


def _constant(leaf: expressions.Part, ends: expressions.Outcomes, *kinds: str) -> str:
    """What is wrong with a leaf that always ends in the same way."""
    if len(ends) != 1:
        return ""
    operator, field, *value = leaf.expression
    what = " or ".join(sorted(TYPES[kind] for kind in kinds))
    (end,) = ends
    if end is None:
        wanted = {language.TRUE: "a boolean", language.MATCHES: "a string"}.get(operator, "a list")
        return f"{quoted(operator)} needs {wanted}, but {field} is {what}: nothing matches"
    other = "the text" if isinstance(value[0], str) else "the number"
    return (
        f"{field} is {what}, and comparing it with {other} {json.dumps(value[0])} by "
        f"{quoted(operator)} is always {'true' if end else 'false'}"
        f"{_hint(value[0], set(kinds), field)}"
    )


def _hint(value: Any, kinds: set[str], field: str) -> str:
    if kinds == {"n"} and isinstance(value, str) and value.isdecimal():
        return f"; use {value} without quotes"
    if kinds == {"b"}:
        return f'; use ["?", "{field}"]'
    if kinds == {"l"}:
        return f'; use ["=[]", "{field}", ...]'
    return ""


def _missing_fields(expression: Any, place: str, scope: frozenset[str]) -> Iterator[Trap]:
    """Fields that the opcodes do not have that the same expression is about."""
    named = {
        str(leaf[2])
        for leaf in language.leaves(expression)
        if leaf[1] == NAME and leaf[0] in ("=", "==")
    }
    about = sorted(scope & named or scope)
    for field in sorted(language.fields_of(expression) - {NAME}):
        if is_common(field) or not opcodes_with(field):
            continue
        lacking = [opcode for opcode in about if parameter(opcode, field) is None]
        if lacking and (named or len(lacking) == len(about)):
            verb = "have" if len(lacking) > 1 else "has"
            yield place, f"{few(lacking, _SHOWN)} {verb} no field {field!r} and never match"


def unset_fields(expression: Any, place: str, possible: frozenset[str]) -> Iterator[Trap]:
    """Parameters that can be unset, where that is against what the expression seems to say."""
    optional = {
        name
        for name in language.fields_of(expression) - {NAME}
        if any((one := parameter(opcode, name)) and one.optional for opcode in possible)
    }
    risky = sorted(optional & _risky(expression, negated=False))
    if risky:
        what = f"{risky[0]} is" if len(risky) == 1 else f"all of {', '.join(risky)} are"
        yield (
            place,
            f"only opcodes in which {what} set can match, whatever else the expression says",
        )


def _risky(expression: Any, *, negated: bool) -> set[str]:
    """Fields without which the expression would be true if luxid ended early."""
    if expression is None:
        return set()
    operator, *parts = expression
    if operator == language.NOT:
        return _risky(parts[0], negated=not negated)
    if operator not in (language.AND, language.OR):
        return {parts[0]} if negated != (operator == "!=") else set()
    found = {name for part in parts for name in _risky(part, negated=negated)}
    if (operator == language.OR) != negated and parts:
        each = [language.fields_of(part) for part in parts]
        found |= {name for some in each for name in some if any(name not in one for one in each)}
    return found
