"""Jobs as filter rules see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ganeti_steward.core.ganeti.reasons import Reason
from ganeti_steward.core.json_nesting import is_deep, load_json
from ganeti_steward.core.json_reader import describe
from ganeti_steward.core.model.job_state import CANCELED
from ganeti_steward.plugins.texts import read_reasons

#: Parameters that every opcode can have; luxid's predicate ``opcode`` does not see them.
COMMON: Final = frozenset({"comment", "debug_level", "depends", "dry_run", "priority", "reason"})

#: Levels of lists and objects in the opcodes of a job, which are compared recursively.
_DEEPEST: Final = 200
#: Digits from which on a number is none of a job.
_DIGITS: Final = 20

QUEUED: Final = "queued"
#: Of jobs that luxid has started and not seen finished.
RUNNING: Final = frozenset({"waiting", "running", "canceling"})

#: The fields of a job that are read from luxid.
FIELDS: Final = ("id", "status", "priority", "ops", "opstatus", "received_ts", "start_ts", "end_ts")


class Job(NamedTuple):
    """One job of a queue."""

    number: int
    status: str = QUEUED
    priority: int = 0
    """the most urgent of its unfinished opcodes, -20 to 19; lower is earlier"""
    opcodes: tuple[Mapping[str, Any], ...] = ()
    """each with ``OP_ID`` and its parameters, as luxid stores them, defaults included"""
    reasons: tuple[Reason, ...] = ()
    """those of all opcodes, in their order"""
    depends: tuple[int, ...] = ()
    """numbers of the jobs it waits for"""
    canceled_with: tuple[int, ...] = ()
    """those of them that luxid cancels it with: it does not list their state `CANCELED`"""

    @property
    def summary(self) -> str:
        """The opcodes' names, without what all of them begin with."""
        return ",".join(str(one.get("OP_ID", "?")).removeprefix("OP_") for one in self.opcodes)


def read_job(row: Mapping[str, Any]) -> Job:
    """A job from a row with at least ``id`` and ``ops``; raises ValueError with one sentence."""
    number = row.get("id")
    if not _is_number(number):
        raise ValueError(f"key 'id': the number of a job is expected, found {describe(number)}")
    opcodes = row.get("ops")
    if not isinstance(opcodes, Sequence) or not all(isinstance(one, Mapping) for one in opcodes):
        raise ValueError(f"job {number}, key 'ops': a list of opcodes is expected")
    if not all(isinstance(one.get("OP_ID"), str) for one in opcodes):
        raise ValueError(f"job {number}, key 'ops': each opcode needs its name, OP_ID")
    if is_deep(opcodes, _DEEPEST):
        raise ValueError(f"job {number}, key 'ops': more than {_DEEPEST} levels are too many")
    depends = _depends(number, opcodes)
    reasons = [reason for one in opcodes for reason in read_reasons(one.get("reason") or [])]
    return Job(
        int(str(number)),
        str(row.get("status", QUEUED)),
        _priority(row, opcodes),
        tuple(opcodes),
        tuple(reasons),
        tuple(sorted(depends)),
        tuple(sorted(one for one, states in depends.items() if CANCELED not in states)),
    )


def _is_number(value: object) -> bool:
    text = str(value) if isinstance(value, str) or type(value) is int else ""
    return len(text) < _DIGITS and text.isascii() and text.isdecimal()


def _depends(number: object, opcodes: Sequence[Mapping[str, Any]]) -> dict[int, tuple[Any, ...]]:
    """Number of a job -> the states in which it may end."""
    try:
        return {
            int(one[0]): tuple(state for states in one[1:] for state in states or ())
            for op in opcodes
            for one in op.get("depends") or ()
        }
    except (LookupError, OverflowError, TypeError, ValueError):
        raise ValueError(f"job {number}, key 'depends': numbers of jobs are expected") from None


def _priority(row: Mapping[str, Any], opcodes: Sequence[Mapping[str, Any]]) -> int:
    """Luxid's field has the present one; that of the opcodes is what was submitted."""
    found = row.get("priority")
    if isinstance(found, int):
        return found
    given = [one.get("priority") or 0 for one in opcodes]
    if not all(isinstance(one, int) for one in given):
        raise ValueError(f"job {row['id']}, key 'priority': a whole number is expected")
    return min(given, default=0)


def read_jobs(text: str | bytes, name: str) -> list[Job]:
    """The jobs of a file: a JSON list of rows; raises ValueError naming the file and all faults."""
    try:
        rows = load_json(text)
    except ValueError as err:
        raise ValueError(f"{name}: this is not JSON: {err}") from err
    if not isinstance(rows, list):
        raise ValueError(f"{name}: a list of jobs is expected, found {describe(rows)}")
    jobs, faults = [], []
    for at, row in enumerate(rows):
        try:
            if not isinstance(row, dict):
                raise ValueError(f"a job is expected, found {describe(row)}")
            jobs.append(read_job(row))
        except ValueError as err:
            faults.append(f"entry {at + 1}: {err}")
    if faults:
        raise ValueError(f"{name}: {'; '.join(faults)}")
    return jobs
