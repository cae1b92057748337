"""Predicates of a rule as functions of a job (job-filters 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.plugins.filters.dialect import Dialect
from ganeti_steward.plugins.filters.expressions import (
    Find,
    Mismatch,
    Note,
    Test,
    evaluation,
    ordered,
    strings_first,
)
from ganeti_steward.plugins.filters.jobs import COMMON, Job
from ganeti_steward.plugins.filters.language import (
    AND,
    COMPARISONS,
    NOT,
    OR,
    fields_of,
)
from ganeti_steward.plugins.filters.outcomes import leaf_of, of_fields, outcomes
from ganeti_steward.plugins.filters.regex import Effort, Undecided

WATERMARK: Final = "watermark"
#: Something that is evaluated by itself: an opcode of a job, a reason, or the job.
Subject = Any
#: Whether a predicate is true of a job.
Matches = Callable[[Job], bool]


class Predicate:
    """One valid predicate of a rule with this watermark."""

    def __init__(
        self,
        predicate: Sequence[Any],
        watermark: int,
        dialect: Dialect,
        note: Note | None = None,
        effort: Effort | None = None,
    ) -> None:
        """``effort``: what the rule's regular expressions take together."""
        self.name, self.expression = str(predicate[0]), predicate[1]
        evaluated, order = self.expression, ordered
        if self.name == "jobid":
            evaluated = _with_watermark(evaluated, watermark, dialect)
        elif self.name == "reason" and not dialect.reason_operators:
            evaluated, order = _comparisons_only(evaluated), strings_first
        self._needed = fields_of(self.expression) if self.name == "opcode" else frozenset()
        self._common = dialect.common_parameters
        self._plain = not any("." in name or name in COMMON for name in self._needed)
        self._evaluated, self._order, self._effort = evaluated, order, effort or Effort()
        self._test: Test = evaluation(evaluated, note, order, self._effort)
        self.subjects: Callable[[Job], Sequence[Subject]] = _SUBJECTS[self.name]

    def matches(self, job: Job) -> bool:
        """Whether it is true of one of the job's opcodes or reasons, or of the job.

        Raises Undecided.
        """
        undecided = None
        # Loops instead of any() here and in the chain: this runs for each job and rule.
        for one in self.subjects(job):
            try:
                if self.is_true_of(one):
                    return True
            except Undecided as err:
                undecided = err
        if undecided:
            raise undecided
        return False

    def is_true_of(self, subject: Subject) -> bool:
        """Whether it is true of one of them; raises Undecided."""
        try:
            return self._test(self.find(subject))
        except Mismatch:
            return False
        except Undecided:
            if (certain := self._certain(self.find(subject))) is None:
                raise
            return certain

    def is_surely_true_of(self, subject: Subject) -> bool:
        """Whether it is known to be true of one of them."""
        try:
            return self.is_true_of(subject)
        except Undecided:
            return False

    def _certain(self, find: Find) -> bool | None:
        """Whether it is true, whatever the leaves are that are undecided; None: they matter."""
        found = outcomes(
            self._evaluated,
            lambda *leaf: of_fields(leaf_of(*leaf), find, self._order, self._effort),
        )
        return True in found if found == {True} or True not in found else None

    def find(self, subject: Subject) -> Find:
        """What finds the fields of an opcode, a reason or a job; raises Mismatch."""
        if self.name == "opcode":
            # Luxid looks up all fields of an opcode first: also those it would not need.
            if self._plain and self._needed <= subject.keys():
                found: Find = subject.__getitem__
                return found
            values = {name: _of_opcode(subject, self._common, name) for name in self._needed}
            return values.__getitem__
        if self.name == "reason":
            return partial(_of_reason, subject)
        return partial(_of_job, subject)


def _of_opcode(opcode: Mapping[str, Any], common: bool, path: str) -> Any:
    """A parameter that is set; dots lead into objects."""
    found: Any = opcode
    names = path.split(".")
    for name in names:
        if not isinstance(found, Mapping) or name not in found:
            raise Mismatch(f"there is no field {path}")
        found = found[name]
    if names[0] in COMMON and not common:
        raise Mismatch(f"the field {names[0]} is not visible to filters")
    return found


def _of_reason(reason: Reason, name: str) -> Any:
    if name == "source":
        return reason.source
    if name == "reason":
        return reason.text
    if name == "timestamp":
        return reason.timestamp
    raise Mismatch(f"a reason has no field {name}")


def _of_job(job: Job, name: str) -> int:
    if name == "id":
        return job.number
    raise Mismatch(f"a job id has no field {name}")


def _opcodes(job: Job) -> Sequence[Subject]:
    return job.opcodes


def _reasons(job: Job) -> Sequence[Subject]:
    return job.reasons


def _job(job: Job) -> Sequence[Subject]:
    return (job,)


_SUBJECTS: Final[Mapping[str, Callable[[Job], Sequence[Subject]]]] = {
    "opcode": _opcodes,
    "reason": _reasons,
    "jobid": _job,
}


#: A field that nothing has; what uses it is a mismatch where it is evaluated.
_NOTHING: Final = ""


def _replaced(expression: Any, leaf: Callable[[str, str, Any], list[Any]]) -> Any:
    """The expression with its leaves (operator, field, value or None) replaced."""
    if expression is None:
        return None
    operator, *parts = expression
    if operator in (AND, OR, NOT):
        return [operator, *(_replaced(part, leaf) for part in parts)]
    return leaf(operator, parts[0], parts[1] if len(parts) > 1 else None)


def _comparisons_only(expression: Any) -> Any:
    """Luxid compares the fields of reasons and nothing else (job-filters 2.2)."""

    def leaf(operator: str, field: str, value: Any) -> list[Any]:
        return [operator, field, value] if operator in COMPARISONS else ["=", _NOTHING, ""]

    return _replaced(expression, leaf)


def _with_watermark(expression: Any, watermark: int, dialect: Dialect) -> Any:
    """Luxid compares a job's id with integers and the watermark only (job-filters 2.3)."""

    def leaf(operator: str, field: str, value: Any) -> list[Any]:
        if operator in COMPARISONS:
            if value == WATERMARK:
                return [operator, field, watermark]
            if isinstance(value, int) or dialect.any_value:
                return [operator, field, value]
        return ["=", _NOTHING, ""]

    return _replaced(expression, leaf)
