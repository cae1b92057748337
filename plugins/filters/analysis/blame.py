"""Why a predicate is not true of a job: the part of its expression that ends the evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.dialect import Dialect
from ganeti_steward.plugins.filters.expressions import Find, Mismatch
from ganeti_steward.plugins.filters.jobs import Job
from ganeti_steward.plugins.filters.language import AND, NOT, OR, fields_of
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
    trace = _Trace(predicate, watermark, dialect, place)
    causes = []
    for subject, name in _subjects(predicate[0], job, trace.test):
        cause = trace.cause(subject, name)
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


class _Trace:
    """Evaluates one predicate and notes the outcome of each part."""

    def __init__(self, predicate: Any, watermark: int, dialect: Dialect, place: str) -> None:
        self.test = Predicate(predicate, watermark, dialect, self._note)
        self._expression, self._watermark, self._place = predicate[1], watermark, place
        self._dialect = dialect
        self._seen: dict[int, bool | Mismatch | Undecided] = {}
        self._last: tuple[Any, Find] | None = None

    def _note(self, part: Any, outcome: bool | Mismatch | Undecided, find: Find) -> None:
        self._seen[id(part)] = outcome
        # The whole expression is noted after its parts.
        self._last = part, find

    def cause(self, subject: Subject, name: str) -> Cause | None:
        """Why the expression is not true of a subject; None: it is true."""
        self._seen.clear()
        self._last = None
        unknown = False
        try:
            if self.test.is_true_of(subject):
                return None
        except Undecided:
            unknown = True
        if self._last is None:
            return Cause(name, self._place, self._expression, self._missing(subject))
        root, find = self._last
        if isinstance(self._seen[id(root)], Undecided) and not unknown:
            # False or a mismatch whatever the undecided part is.
            values = self._values(root, self._expression, find)
            return Cause(name, self._place, self._expression, values)
        place, used, part = self._blamed(root, self._expression, self._place)
        return Cause(name, place, part, self._text(used, part, find), unknown)

    def _missing(self, subject: Subject) -> str:
        """Which field the subject does not have, without which nothing is evaluated."""
        try:
            self.test.find(subject)
        except Mismatch as err:
            return str(err)
        raise AssertionError("an expression that was not evaluated lacks a field")

    def _blamed(self, used: Any, part: Any, place: str) -> tuple[str, Any, Any]:
        """Place, part as it was evaluated, and part of the rule."""
        outcome = self._seen[id(used)]
        operator = None if part is None else part[0]
        if operator in (AND, OR, NOT):
            wanted = [
                (at, one)
                for at, one in enumerate(used[1:], 1)
                if self._blames(operator, outcome, self._seen.get(id(one)), len(part) - 1)
            ]
            if wanted:
                at, one = wanted[-1]
                return self._blamed(one, part[at], f"{place}[{at}]")
        return place, used, part

    @staticmethod
    def _blames(
        operator: str,
        outcome: bool | Mismatch | Undecided,
        of_part: bool | Mismatch | Undecided | None,
        parts: int,
    ) -> bool:
        """Whether a part is the cause for the outcome of the whole."""
        if isinstance(outcome, Mismatch | Undecided):
            return type(of_part) is type(outcome)
        return of_part is False and (operator == AND or (operator == OR and parts == 1))

    def _text(self, used: Any, part: Any, find: Find) -> str:
        outcome = self._seen[id(used)]
        if isinstance(outcome, Mismatch):
            # What luxid does not evaluate was replaced by a field that nothing has.
            replaced = fields_of(used) != fields_of(part)
            return self._unsupported(part) if replaced else str(outcome)
        if isinstance(outcome, Undecided):
            return str(outcome)
        return self._values(used, part, find)

    def _values(self, used: Any, part: Any, find: Find) -> str:
        names = sorted(fields_of(part))
        values = [_value(name, find) for name in names if name in fields_of(used)]
        if self.test.name == "jobid" and WATERMARK in json.dumps(part):
            values.append(f"the watermark is {self._watermark}")
        return ", ".join(values) or "it has no parts"

    def _unsupported(self, part: Any) -> str:
        if self.test.name == "reason":
            return f"{self._dialect.name} does not find {part[0]!r} true of any reason"
        return f"{self._dialect.name} compares job ids with integers and the word 'watermark' only"


def _value(name: str, find: Find) -> str:
    """A field and its value; it can be missing in a part that was not evaluated."""
    try:
        return f"{name} is {_short(find(name))}"
    except Mismatch as err:
        return str(err)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
