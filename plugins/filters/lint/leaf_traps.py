"""Comparisons in an expression that cannot do what they seem to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.filters.language import (
    AND,
    COMPARISONS,
    MATCHES,
    NOT,
    OR,
    TRUE,
)
from ganeti_steward.plugins.filters.lint.opcode_table import (
    NAME,
    TYPES,
    is_common,
    opcode_table,
    opcodes_with,
    parameter,
)
from ganeti_steward.plugins.filters.lint.reach import REASON_FIELDS, reason_leaf
from ganeti_steward.plugins.filters.outcomes import Outcomes, by_type
from ganeti_steward.plugins.filters.predicates import WATERMARK
from ganeti_steward.plugins.filters.regex import Regex, Undecided

#: A place in a rule, and a sentence about it.
Trap = tuple[str, str]

_EQUAL: Final = ("=", "==")


def traps(name: str, expression: Any, place: str, scope: frozenset[str]) -> Iterator[Trap]:
    """All traps in a valid expression of the predicate ``name``.

    ``scope``: the opcodes that the expression's conditions on ``OP_ID`` leave.
    """
    if expression is None:
        return
    operator, *parts = expression
    if operator in (AND, OR, NOT):
        if not parts:
            ends = "true" if operator == AND else "false"
            yield place, f"{quoted(operator)} without any part is always {ends}"
        for number, part in enumerate(parts, 1):
            yield from traps(name, part, f"{place}[{number}]", scope)
        return
    value = parts[1] if len(parts) > 1 else None
    text = _leaf(name, operator, parts[0], value, scope)
    if text:
        yield place, text


def _leaf(name: str, operator: str, field: str, value: Any, scope: frozenset[str]) -> str:
    if name == "reason":
        return _of_reason(operator, field, value)
    if name == "jobid":
        return _of_job(operator, field, value)
    if field == NAME and operator in (*_EQUAL, "!=", MATCHES):
        return _of_name(operator, str(value))
    return _of_parameter(operator, field, value, scope)


def _of_reason(operator: str, field: str, value: Any) -> str:
    if field not in REASON_FIELDS:
        return f"a reason has source, reason and timestamp, but no field {quoted(field)}"
    if operator not in COMPARISONS:
        return (
            f"luxid never finds {quoted(operator)} true of a reason, also under '!': only "
            "comparisons such as '=' with the whole text work"
        )
    found = reason_leaf(operator, field, value)
    return _constant(operator, field, value, found, REASON_FIELDS[field])


def _of_job(operator: str, field: str, value: Any) -> str:
    if field != "id":
        return f"a job id has the field 'id' only, not {quoted(field)}"
    if operator not in COMPARISONS:
        return f"luxid only compares job ids; {quoted(operator)} is never true, also under '!'"
    if value != WATERMARK and isinstance(value, str):
        hint = f"; use {value} without quotes" if value.isdecimal() else ""
        return (
            f"luxid compares job ids with integers and the word 'watermark', not with the text "
            f"{quoted(value)}{hint}"
        )
    return ""


def _of_name(operator: str, value: str) -> str:
    names = opcode_table()
    if operator == MATCHES:
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


def _of_parameter(operator: str, field: str, value: Any, scope: frozenset[str]) -> str:
    if is_common(field):
        return f"filters do not see the field {quoted(field)} of opcodes, so that nothing matches"
    having = opcodes_with([field])
    if not having:
        return f"no opcode of Ganeti 3 has the field {quoted(field)}"
    relevant = [one for one in having if one in scope] or having
    kinds = {known.kind for one in relevant if (known := parameter(one, field))}
    found = frozenset[bool | None]().union(*(by_type(operator, kind, value) for kind in kinds))
    return _constant(operator, field, value, found, *kinds)


def _constant(operator: str, field: str, value: Any, found: Outcomes, *kinds: str) -> str:
    """What is wrong with a leaf that always ends in the same way."""
    if len(found) != 1:
        return ""
    what = " or ".join(sorted(TYPES[kind] for kind in kinds))
    (outcome,) = found
    if outcome is None:
        wanted = {TRUE: "a boolean", MATCHES: "a string"}.get(operator, "a list")
        return f"{quoted(operator)} needs {wanted}, but {field} is {what}: nothing matches"
    ends = "true" if outcome else "false"
    other = "the text" if isinstance(value, str) else "the number"
    return (
        f"{field} is {what}, and comparing it with {other} {json.dumps(value)} by "
        f"{quoted(operator)} is always {ends}{_hint(value, set(kinds), field)}"
    )


def _hint(value: Any, kinds: set[str], field: str) -> str:
    if kinds == {"n"} and isinstance(value, str) and value.isdecimal():
        return f"; use {value} without quotes"
    if kinds == {"b"}:
        return f'; use ["?", "{field}"]'
    if kinds == {"l"}:
        return f'; use ["=[]", "{field}", ...]'
    return ""
