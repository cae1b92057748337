"""Which rules can match a job at all, found without evaluating each of them.

Most rules require that a field has one of some values: such a rule is looked up by the values of
the job.  The others are left out where the names of the job's opcodes exclude them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.expressions import ANY, Outcomes, Part, of_value, outcomes
from ganeti_steward.plugins.filters.jobs import COMMON, Job
from ganeti_steward.plugins.filters.language import AND, OR
from ganeti_steward.plugins.filters.predicates import Predicate

#: Name of a predicate and field.
Place = tuple[str, str]
#: Field of an expression -> the values of which it must have one.
Pins = Mapping[str, frozenset[str | int]]

_NAME: Final = "OP_ID"
_REASON: Final = ("source", "reason", "timestamp")


def pins(expression: Any) -> Pins:
    """The values that a valid expression requires; a field that it leaves free is not there."""
    if expression is None:
        return {}
    operator, *parts = expression
    if operator in ("=", "=="):
        return {parts[0]: frozenset(parts[1:])}
    if operator not in (AND, OR) or not parts:
        return {}
    found = [pins(part) for part in parts]
    fields = set(found[0]).union(*found)
    if operator == OR:
        fields = {name for name in fields if all(name in one for one in found)}
    return {name: frozenset().union(*(one.get(name, ()) for one in found)) for name in fields}


def _pinned(predicates: Iterable[Predicate]) -> Iterator[tuple[Place, frozenset[str | int]]]:
    """Each field that a rule requires to have one of some values, and `values_of` finds."""
    for one in predicates:
        for field, values in pins(one.expression).items():
            if one.name == "opcode":
                usable = "." not in field and field not in COMMON
            elif one.name == "reason":
                usable = field in _REASON
            else:
                usable = field == "id" and all(isinstance(value, int) for value in values)
            if usable:
                yield (one.name, field), values


class Candidates:
    """Which of some rules can match a job; of each rule its predicates are given."""

    def __init__(self, rules: Sequence[Sequence[Predicate]]) -> None:
        self._rules = rules
        pinned = [list(_pinned(predicates)) for predicates in rules]
        users = Counter(
            (place, value) for each in pinned for place, values in each for value in values
        )
        self._by: dict[Place, dict[Any, list[int]]] = {}
        self._free: list[int] = []
        self._of_names: dict[frozenset[str], list[int]] = {}
        for at, each in enumerate(pinned):
            if not each:
                self._free.append(at)
                continue
            # By the values that the fewest rules have in common.
            place, values = min(each, key=lambda one: sum(users[one[0], v] for v in one[1]))
            for value in values:
                self._by.setdefault(place, {}).setdefault(value, []).append(at)

    def of(self, job: Job) -> list[int]:
        """The places of the rules that can match, in their order; all others do not."""
        found = self._named(frozenset(str(one.get(_NAME)) for one in job.opcodes))
        if not self._by:
            return found
        more: set[int] = set()
        for place, rules in self._by.items():
            for value in _values(place, job):
                more.update(rules.get(value, ()))
        return sorted((*found, *more)) if more else found

    def _named(self, names: frozenset[str]) -> list[int]:
        """Of the rules that require no value those that the names of the opcodes leave."""
        if names not in self._of_names:
            self._of_names[names] = [
                at for at in self._free if all(_possible(one, names) for one in self._rules[at])
            ]
        return self._of_names[names]


def _values(place: Place, job: Job) -> Iterator[str | int | float]:
    """The values of a field in a job that can be equal to a string or an integer."""
    name, field = place
    if name == "jobid":
        yield job.number
        return
    for one in job.opcodes if name == "opcode" else job.reasons:
        value = _of_reason(one, field) if isinstance(one, Reason) else one.get(field)
        if isinstance(value, str | int | float):
            yield value


def _of_reason(reason: Reason, field: str) -> str | int:
    return {"source": reason.source, "reason": reason.text}.get(field, reason.timestamp)


def _possible(predicate: Predicate, names: Iterable[str]) -> bool:
    """Whether a predicate can be true of an opcode with one of these names."""
    if predicate.name != "opcode":
        return True
    return any(True in outcomes(predicate.part, partial(_by_name, name)) for name in names)


def _by_name(name: str, leaf: Part) -> Outcomes:
    return of_value(leaf, name) if leaf.expression[1] == _NAME else ANY
