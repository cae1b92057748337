"""Which rules can match a job at all, found without evaluating each of them.

Most rules require that a field has one of some values, or some letters somewhere: such a rule is
looked up by the values of the job.  The others are left out where the names of the job's opcodes
exclude them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.expressions import ANY, Outcomes, Part, of_value, outcomes
from ganeti_steward.plugins.filters.jobs import COMMON, Job
from ganeti_steward.plugins.filters.language import AND, COMPOUNDS, MATCHES, OR
from ganeti_steward.plugins.filters.predicates import Predicate
from ganeti_steward.plugins.filters.regex import required_by
from ganeti_steward.plugins.filters.regex_forms import LONGEST

#: What a field has one of: a value, or `_GRAM` bytes somewhere in its text.
Value = str | int | bytes
#: Name of a predicate, or `MATCHES` for texts in opcodes, and field.
Place = tuple[str, str]
#: Field of an expression -> the values of which it must have one.
Pins = Mapping[str, frozenset[str | int]]
#: A leaf of an expression -> what its field must have.
_OfLeaf = Callable[[Any], Mapping[str, frozenset[Any]]]

_NAME: Final = "OP_ID"
_REASON: Final = ("source", "reason", "timestamp")
#: Bytes by which a text is looked up.
_GRAM: Final = 3
#: In the place of a value: a text in which a search may be undecided.
_LONG: Final = b""


def pins(expression: Any) -> Pins:
    """The values that a valid expression requires; a field that it leaves free is not there."""
    return _required(expression, _of_comparison)


def _of_comparison(leaf: Any) -> Pins:
    operator, field, *values = leaf
    return {field: frozenset(values)} if operator in ("=", "==") else {}


def _required(expression: Any, of_leaf: _OfLeaf) -> Mapping[str, frozenset[Any]]:
    if expression is None:
        return {}
    operator, *parts = expression
    if operator not in COMPOUNDS:
        return of_leaf(expression)
    if operator not in (AND, OR) or not parts:
        return {}
    found = [_required(part, of_leaf) for part in parts]
    fields = set(found[0]).union(*found)
    if operator == OR:
        fields = {name for name in fields if all(name in one for one in found)}
    return {name: frozenset().union(*(one.get(name, ()) for one in found)) for name in fields}


def _literal(leaf: Any) -> Mapping[str, frozenset[bytes]]:
    """The text that a field has where an expression is found in it."""
    text = required_by(leaf[2]) if leaf[0] == MATCHES else b""
    return {leaf[1]: frozenset((text,))} if len(text) >= _GRAM else {}


def _grams(text: bytes) -> list[bytes]:
    return [text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)]


def _pinned(predicates: Iterable[Predicate]) -> Iterator[tuple[Place, frozenset[Value]]]:
    """Each field that a rule requires to have one of some values, and `_values` finds."""
    for one in predicates:
        if one.name == "opcode":
            for field, texts in _required(one.expression, _literal).items():
                # What the names of opcodes leave is remembered for each name.
                if "." not in field and field not in COMMON and field != _NAME:
                    yield (MATCHES, field), texts
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
        pinned = _by_gram([list(_pinned(predicates)) for predicates in rules])
        users = Counter(
            (place, value) for each in pinned for place, values in each for value in values
        )
        self._by: dict[Place, dict[Any, list[int]]] = {}
        self._free: list[int] = []
        self._of_name: dict[str, list[int]] = {}
        for at, each in enumerate(pinned):
            if not each:
                self._free.append(at)
                continue
            # By the values that the fewest rules have in common.
            place, values = min(each, key=lambda one: sum(users[one[0], v] for v in one[1]))
            for value in values:
                self._by.setdefault(place, {}).setdefault(value, []).append(at)
            if place[0] == MATCHES:
                self._by[place].setdefault(_LONG, []).append(at)

    def of(self, job: Job, take: Callable[[int], None] = lambda steps: None) -> list[int]:
        """The places of the rules that can match, in their order; all others do not.

        ``take``: as in `Chain.matching`.
        """
        names = dict.fromkeys(str(one.get(_NAME)) for one in job.opcodes) or {"": None}
        named = [self._named(name, take) for name in names]
        found = named[0] if len(named) == 1 else sorted(set[int]().union(*named))
        more = set[int]()
        for place, rules in self._by.items():
            for value in rules.keys() & set(_values(place, job)):
                more.update(rules[value])
        return sorted((*found, *more)) if more else found

    def _named(self, name: str, take: Callable[[int], None]) -> list[int]:
        """Of the rules that require no value those that an opcode of this name leaves."""
        if name not in self._of_name:
            take(len(self._free))
            self._of_name[name] = [at for at in self._free if _possible(self._rules[at], name)]
        return self._of_name[name]


#: What each of some rules requires.
_Pinned = Sequence[Sequence[tuple[Place, frozenset[Value]]]]


def _by_gram(pinned: _Pinned) -> _Pinned:
    """The same, each text as the bytes in it that the fewest rules have in common."""
    users = Counter(
        (place, gram)
        for each in pinned
        for place, values in each
        for value in values
        if isinstance(value, bytes)
        for gram in set(_grams(value))
    )

    def rarest(place: Place, value: Value) -> Value:
        if not isinstance(value, bytes):
            return value
        return min(_grams(value), key=lambda gram: users[place, gram])

    return [
        [(place, frozenset(rarest(place, value) for value in values)) for place, values in each]
        for each in pinned
    ]


def _values(place: Place, job: Job) -> Iterator[Value | float]:
    """The values of a field in a job that can be equal to a string or an integer."""
    name, field = place
    if name == "jobid":
        yield job.number
        return
    if name == MATCHES:
        for opcode in job.opcodes:
            if isinstance(text := opcode.get(field), str):
                raw = text.encode(errors="surrogatepass")
                yield from (_LONG,) if len(raw) > LONGEST else _grams(raw)
        return
    for one in job.opcodes if name == "opcode" else job.reasons:
        value = _of_reason(one, field) if isinstance(one, Reason) else one.get(field)
        if isinstance(value, str | int | float):
            yield value


def _of_reason(reason: Reason, field: str) -> str | int:
    return {"source": reason.source, "reason": reason.text}.get(field, reason.timestamp)


def _possible(predicates: Iterable[Predicate], name: str) -> bool:
    """Whether the first predicate about opcodes can be true of one with this name."""
    about = next((one for one in predicates if one.name == "opcode"), None)
    return about is None or True in outcomes(about.part, partial(_by_name, name))


def _by_name(name: str, leaf: Part) -> Outcomes:
    return of_value(leaf, name) if leaf.expression[1] == _NAME else ANY
