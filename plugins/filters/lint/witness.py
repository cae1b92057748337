"""Which jobs rules match together: jobs made up to show it, and rules that match all of another.

Such a job has one opcode and one reason in addition to what luxid adds: two rules about different
opcodes do overlap for a job with both, but that is not what rules of the same priority are about.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, product
from typing import Any, Final

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.chain import link
from ganeti_steward.plugins.filters.filter_rules import FilterRule
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import AND, LUXID, OR, fields_of, leaves, replaced
from ganeti_steward.plugins.filters.lint.opcode_table import NAME, SAMPLES, opcode_table
from ganeti_steward.plugins.filters.lint.reach import job_numbers, reach
from ganeti_steward.plugins.filters.predicates import Predicate

#: How many combinations of values are tried for one opcode or reason.
_TRIES: Final = 64
#: How many opcodes are tried.
_OPCODES: Final = 8


def witness(rules: Sequence[FilterRule]) -> Job | None:
    """A job that all of these valid rules match; None: none was found, but there may be one."""
    number, opcode, reason = number_for(rules), an_opcode(rules), reason_for(rules)
    if number is None or opcode is None or reason is None:
        return None
    job = made_up(number, opcode, [reason])
    return job if all(link(rule).matched(job) == rule for rule in rules) else None


def made_up(number: int, opcode: Mapping[str, Any], reasons: Iterable[Reason]) -> Job:
    """A queued job of one opcode, with the reason that luxid adds."""
    source = opcode[NAME].lower().replace("op_", "gnt:opcode:", 1)
    own = Reason(source, f"job={number};index=0", 2 * 10**18)
    return Job(number, opcodes=(opcode,), reasons=(*reasons, own))


def an_opcode(rules: Sequence[FilterRule]) -> Mapping[str, Any] | None:
    """An opcode that satisfies the predicates of opcodes of all rules; None: none was found."""
    return next(_opcodes(rules), None)


def reason_for(rules: Sequence[FilterRule]) -> Reason | None:
    """A reason that satisfies the predicates of reasons of all rules; None: none was found."""
    return next(_reasons(rules), None)


def job_span(rule: FilterRule) -> tuple[float, float]:
    """The least and the greatest number of a job that satisfy a rule's predicates of job ids."""
    tested = list(_job_ids([rule]))
    found = [number for number, satisfied in tested if all(satisfied)]
    if not found:
        return math.inf, -math.inf
    # What is true of the largest number is true of all after it.
    return min(found), math.inf if found[0] == tested[0][0] else found[0]


def number_for(rules: Sequence[FilterRule]) -> int | None:
    """A job's number that satisfies the predicates of job ids of all rules; None: there is none."""
    return next((number for number, satisfied in _job_ids(rules) if all(satisfied)), None)


def _job_ids(rules: Sequence[FilterRule]) -> Iterator[tuple[int, list[bool]]]:
    """Numbers of jobs, the largest first, and whether each satisfies each rule's predicates of it.

    If any number has some combination of these, one of the numbers here has it.
    """
    own = [[(one, rule.watermark) for one in _of("jobid", [rule])] for rule in rules]
    tests = [[Predicate(*one, LUXID) for one in predicates] for predicates in own]
    for number in reversed(job_numbers([*chain(*own)])):
        yield number, [all(test.matches(Job(number)) for test in each) for each in tests]


def opcodes_for(name: str, predicates: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Opcodes of a name that satisfy all of these predicates of opcodes."""
    row = opcode_table()[name]
    usual = {field: SAMPLES[one.kind] for field, one in row.items()}
    wanted = _values(predicates)
    tests = [Predicate(one, 0, LUXID) for one in predicates]
    fields = [field for field in wanted if field in row]
    choices = [[*_as(row[field].kind, wanted[field]), usual[field]] for field in fields]
    for values in islice(product(*choices), _TRIES):
        opcode = {NAME: name, **usual, **dict(zip(fields, values, strict=True))}
        if all(test.is_surely_true_of(opcode) for test in tests):
            yield opcode


def _opcodes(rules: Sequence[FilterRule]) -> Iterator[dict[str, Any]]:
    predicates = _of("opcode", rules)
    common = frozenset(opcode_table())
    for one in predicates:
        common &= reach(one, 0).opcodes
    for name in sorted(common)[:_OPCODES]:
        yield from opcodes_for(name, predicates)


def _reasons(rules: Sequence[FilterRule]) -> Iterator[Reason]:
    predicates = _of("reason", rules)
    wanted = _values(predicates)
    tests = [Predicate(one, 0, LUXID) for one in predicates]
    sources, texts = (
        [*(one for one in wanted.get(field, ()) if isinstance(one, str)), usual]
        for field, usual in (("source", "gnt:user"), ("reason", "a reason"))
    )
    times = [*(one for one in wanted.get("timestamp", ()) if isinstance(one, int)), 10**18]
    for source, text, at in islice(product(sources, texts, times), _TRIES):
        reason = Reason(source, text, at)
        if all(test.is_surely_true_of(reason) for test in tests):
            yield reason


def _of(name: str, rules: Iterable[FilterRule]) -> list[Any]:
    return [one for rule in rules for one in rule.predicates if one[0] == name]


def _values(predicates: Iterable[Any]) -> dict[str, list[Any]]:
    """Field -> the values it is compared with, and those beside them."""
    values: dict[str, list[Any]] = {}
    for _, expression in predicates:
        for _, field, *value in leaves(expression):
            near = [n + more for n in value if isinstance(n, int) for more in (1, -1)]
            values.setdefault(field, []).extend([*value, *near])
    return values


def _as(kind: str, values: Sequence[Any]) -> list[Any]:
    """The values in the type of a parameter."""
    if kind == "b":
        return [True, False]
    if kind == "l":
        return [[one] for one in values]
    wanted: type | tuple[type, ...] = {"n": int, "s": str}.get(kind, (int, str))
    return [one for one in values if isinstance(one, wanted)]


def covers(wide: FilterRule, narrow: FilterRule) -> bool:
    """Whether the valid rule ``wide`` certainly matches all jobs of ``narrow``."""
    return all(
        all(ours for _, (ours, theirs) in _job_ids([wide, narrow]) if theirs)
        if one[0] == "jobid"
        else reach(one, wide.watermark).certain
        or any(_implies(other, one) for other in narrow.predicates if other[0] == one[0])
        for one in wide.predicates
    )


def _implies(narrow: Sequence[Any], wide: Sequence[Any]) -> bool:
    """Whether what satisfies a predicate of opcodes or reasons satisfies another of that name."""
    if narrow[0] == "opcode" and reach(narrow, 0).opcodes <= reach(wide, 0).sure:
        return True
    return _contains(*(replaced(one[1], one_spelling) for one in (narrow, wide)))


def _contains(narrow: Any, wide: Any) -> bool:
    """Whether an expression has another among its parts so that it implies that."""
    if narrow == wide or wide is None:
        return True
    if wide[0] == AND and wide[1:]:
        return all(_contains(narrow, part) for part in wide[1:])
    if narrow is not None and narrow[0] == AND:
        return any(_contains(part, wide) for part in narrow[1:])
    # Of alternatives the first only: before another one there can be a mismatch, and a field of
    # another one can be missing.
    if wide[0] == OR and wide[1:] and fields_of(wide) <= fields_of(narrow):
        return _contains(narrow, wide[1])
    return False


def one_spelling(leaf: Any) -> Any:
    """A comparison in the one of two spellings that all have in common."""
    return ["=" if leaf[0] == "==" else leaf[0], *leaf[1:]]
