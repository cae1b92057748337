"""Why a predicate is not true of a job: the part of its expression that ends the evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.expressions import Ending, Find, Mismatch, Part
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import AND, OR, Dialect, fields_of
from ganeti_steward.plugins.filters.predicates import WATERMARK, Predicate, Subject
from ganeti_steward.plugins.filters.regex import Undecided

#: A value longer than this is cut.
_LONGEST: Final = 80


class Cause(NamedTuple):
    """Why an expression is not true of one opcode, one reason, or the job's id."""

    subject: str
    """what was looked at, such as ``opcode 1 (OP_TEST_DELAY)``"""
    place: str
    """of the part, such as ``predicates[0][1][2]``"""
    part: Any
    """the part of the expression that is false, or cannot be evaluated"""
    text: str
    """the values that were compared, or why they cannot be"""
    unknown: bool = False
    """whether it may be true"""


class Evaluated(NamedTuple):
    """One predicate and one job."""

    matched: bool | None
    """None: that is unknown"""
    subject: str
    """the first one that the expression is true of; empty: none"""
    causes: tuple[Cause, ...]
    """one for each subject when none matches"""


def evaluated(predicate: Any, watermark: int, dialect: Dialect, job: Job, place: str) -> Evaluated:
    """Evaluate a valid predicate at ``place`` in a rule with this watermark."""
    blame = _Blame(predicate, watermark, dialect, place)
    causes = []
    for subject, name in _subjects(predicate[0], job, blame.test):
        cause = blame.cause(subject, name)
        if cause is None:
            return Evaluated(True, name, ())
        causes.append(cause)
    matched = None if any(cause.unknown for cause in causes) else False
    return Evaluated(matched, "", tuple(causes))


def _subjects(name: str, job: Job, test: Predicate) -> Iterator[tuple[Subject, str]]:
    for number, subject in enumerate(test.subjects(job), 1):
        if name == "opcode":
            yield subject, f"opcode {number} ({subject.get('OP_ID')})"
        elif isinstance(subject, Reason):
            yield subject, f"reason {number} ({_short(subject.source)}, {_short(subject.text)})"
        else:
            yield subject, f"job {job.number}"


class _Blame:
    """Evaluates one predicate, and finds the part that is the cause where it is not true."""

    def __init__(self, predicate: Any, watermark: int, dialect: Dialect, place: str) -> None:
        self.test = Predicate(predicate, watermark, dialect)
        self._expression, self._watermark, self._place = predicate[1], watermark, place
        self._dialect = dialect

    def cause(self, subject: Subject, name: str) -> Cause | None:
        """Why the expression is not true of a subject; None: it is true."""
        try:
            if self.test.is_true_of(subject):
                return None
            unknown = False
        except Undecided:
            unknown = True
        try:
            find = self.test.find(subject)
        except Mismatch as err:
            return Cause(name, self._place, self._expression, str(err))
        ending = self.test.part.ending(find)
        if isinstance(ending, Undecided) and not unknown:
            # False or a mismatch whatever the undecided part is.
            text = self._values(self.test.part, self._expression, find)
            return Cause(name, self._place, self._expression, text)
        part, own, place = self._blamed(self.test.part, self._expression, self._place, find)
        return Cause(name, place, own, self._text(part, own, find), unknown)

    def _blamed(self, part: Part, own: Any, place: str, find: Find) -> tuple[Part, Any, str]:
        """The part as it was evaluated, as it is in the rule, and its place."""
        ending = part.ending(find)
        for number, inner in enumerate(part.parts, 1):
            if _blames(own[0], ending, inner.ending(find), len(part.parts)):
                return self._blamed(inner, own[number], f"{place}[{number}]", find)
        return part, own, place

    def _text(self, part: Part, own: Any, find: Find) -> str:
        ending = part.ending(find)
        # What luxid does not evaluate was replaced by a field that nothing has.
        if isinstance(ending, Mismatch) and fields_of(part.expression) != fields_of(own):
            if self.test.name == "reason":
                return f"{self._dialect.name} does not find {own[0]!r} true of any reason"
            compares = "compares job ids with integers and the word 'watermark' only"
            return f"{self._dialect.name} {compares}"
        if isinstance(ending, Mismatch | Undecided):
            return str(ending)
        return self._values(part, own, find)

    def _values(self, part: Part, own: Any, find: Find) -> str:
        names = sorted(fields_of(own) & fields_of(part.expression))
        values = [_value(name, find) for name in names]
        if self.test.name == "jobid" and WATERMARK in json.dumps(own):
            values.append(f"the watermark is {self._watermark}")
        return ", ".join(values) or "it has no parts"


def _blames(operator: str, ending: Ending, of_part: Ending, parts: int) -> bool:
    """Whether a part is the cause for the ending of the whole."""
    if isinstance(ending, Mismatch | Undecided):
        return type(of_part) is type(ending)
    return of_part is False and (operator == AND or (operator == OR and parts == 1))


def _value(name: str, find: Find) -> str:
    """A field and its value; it can be missing in a part that was not evaluated."""
    try:
        return f"{name} is {_short(find(name))}"
    except Mismatch as err:
        return str(err)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
