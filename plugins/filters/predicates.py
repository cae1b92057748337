"""Predicates of a rule as functions of a job (job-filters 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from ganeti_steward.plugins.filters import expressions
from ganeti_steward.plugins.filters.jobs import COMMON, Job
from ganeti_steward.plugins.filters.language import COMPARISONS, Dialect, leaves, replaced
from ganeti_steward.plugins.filters.regex import Effort, Undecided

WATERMARK: Final = "watermark"
#: Something that is evaluated by itself: an opcode of a job, a reason, or the job.
Subject = Any


class Predicate:
    """One valid predicate of a rule with this watermark."""

    def __init__(
        self,
        predicate: Sequence[Any],
        watermark: int,
        dialect: Dialect,
        effort: Effort | None = None,
    ) -> None:
        """``effort``: what the rule's regular expressions take together."""
        self.name, self.expression = str(predicate[0]), predicate[1]
        evaluated, order = self.expression, expressions.ordered
        if self.name == "jobid":
            evaluated = _with_watermark(evaluated, watermark, dialect)
        elif self.name == "reason" and not dialect.reason_operators:
            evaluated, order = _comparisons_only(evaluated), expressions.strings_first
        # In their order, so that the same missing field is named each time.
        self._needed = dict.fromkeys(leaf[1] for leaf in leaves(self.expression)).keys()
        self._common = dialect.common_parameters
        self._plain = not any("." in name or name in COMMON for name in self._needed)
        self.part = expressions.compiled(evaluated, order, effort)
        self.size = max(1, len(list(leaves(evaluated))))
        """comparisons and searches in one subject"""
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
            return self.part.test(self.find(subject))
        except expressions.Mismatch:
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

    def _certain(self, find: expressions.Find) -> bool | None:
        """Whether it is true, whatever the leaves are that are undecided; None: they matter."""
        ends = expressions.outcomes(self.part, lambda leaf: expressions.of_fields(leaf, find))
        return True in ends if ends == {True} or True not in ends else None

    def find(self, subject: Subject) -> expressions.Find:
        """What finds the fields of an opcode, a reason or a job; raises Mismatch."""
        if self.name == "opcode":
            # Luxid looks up all fields of an opcode first: also those it would not need.
            if self._plain and self._needed <= subject.keys():
                found: expressions.Find = subject.__getitem__
                return found
            values = {name: _of_opcode(subject, self._common, name) for name in self._needed}
            return values.__getitem__
        return partial(self._attribute, subject)

    def _attribute(self, subject: Subject, field: str) -> Any:
        """A field of a reason or a job."""
        value = _FIELDS[self.name].get(field)
        if value is None:
            what = "reason" if self.name == "reason" else "job id"
            raise expressions.Mismatch(f"a {what} has no field {field}")
        return value(subject)


def _of_opcode(opcode: Mapping[str, Any], common: bool, path: str) -> Any:
    """A parameter that is set; dots lead into objects."""
    found: Any = opcode
    names = path.split(".")
    for name in names:
        if not isinstance(found, Mapping) or name not in found:
            raise expressions.Mismatch(f"there is no field {path}")
        found = found[name]
    if names[0] in COMMON and not common:
        raise expressions.Mismatch(f"the field {names[0]} is not visible to filters")
    return found


_FIELDS: Final[Mapping[str, Mapping[str, Callable[[Subject], Any]]]] = {
    "reason": {
        "source": attrgetter("source"),
        "reason": attrgetter("text"),
        "timestamp": attrgetter("timestamp"),
    },
    "jobid": {"id": attrgetter("number")},
}
_SUBJECTS: Final[Mapping[str, Callable[[Job], Sequence[Subject]]]] = {
    "opcode": attrgetter("opcodes"),
    "reason": attrgetter("reasons"),
    "jobid": lambda job: (job,),
}

#: What luxid does not evaluate: a field that nothing has, which is a mismatch.
_NOTHING: Final = ["=", "", ""]


def _comparisons_only(expression: Any) -> Any:
    """Luxid compares the fields of reasons and nothing else (job-filters 2.2)."""
    return replaced(expression, lambda leaf: leaf if leaf[0] in COMPARISONS else _NOTHING)


def _with_watermark(expression: Any, watermark: int, dialect: Dialect) -> Any:
    """Luxid compares a job's id with integers and the watermark only (job-filters 2.3)."""

    def in_dialect(leaf: Any) -> Any:
        operator, field, *value = leaf
        if operator in COMPARISONS:
            if value == [WATERMARK]:
                return [operator, field, watermark]
            if isinstance(value[0], int) or dialect.any_value:
                return leaf
        return _NOTHING

    return replaced(expression, in_dialect)
