"""The tags of harep, byte for byte: which repairs are allowed, running and finished."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

PREFIX: Final = "ganeti:watcher:autorepair:"
SUSPEND: Final = f"{PREFIX}suspend:"
_PENDING: Final = f"{PREFIX}pending:"
_RESULT: Final = f"{PREFIX}result:"

FIX_STORAGE: Final = "fix-storage"
MIGRATE: Final = "migrate"
FAILOVER: Final = "failover"
REINSTALL: Final = "reinstall"
#: The types of repairs, the least invasive first; allowing one allows those before it.
TYPES: Final = (FIX_STORAGE, MIGRATE, FAILOVER, REINSTALL)

NOT_ALLOWED: Final = "enoperm"
SUCCESS: Final = "success"
FAILURE: Final = "failure"
#: How a repair ended, the one that counts least first; empty: it has not.
RESULTS: Final = ("", NOT_ALLOWED, SUCCESS, FAILURE)

_INTEGER: Final = re.compile(r"-?[0-9]+")


class Mark(NamedTuple):
    """A pending or a result tag of an instance."""

    type: str
    """one of `TYPES`"""
    id: str
    """the same in the pending and the result tag of one repair"""
    time: int
    """s since the epoch: of the submission (pending), or when the end was noticed"""
    jobs: tuple[int, ...] = ()
    """Ganeti's numbers of the jobs of the repair"""
    result: str = ""
    """one of `RESULTS`; empty for a pending tag"""

    @property
    def tag(self) -> str:
        """The tag as it is written."""
        jobs = "+".join(map(str, self.jobs))
        end = f"{self.result}:{jobs}" if self.result else jobs
        return f"{_RESULT if self.result else _PENDING}{self.type}:{self.id}:{self.time}:{end}"


class Found(NamedTuple):
    """A mark, and the tag it was read from."""

    mark: Mark
    tag: str


def read_marks(tags: Iterable[str]) -> list[Found]:
    """The pending and result tags among these, in the order of their bytes.

    What does not have exactly their form is no such tag.
    """
    found = ((tag, read_mark(tag)) for tag in sorted(tags))
    return [Found(mark, tag) for tag, mark in found if mark]


def read_mark(tag: str) -> Mark | None:
    """The mark a tag is; None when it is none."""
    if tag.startswith(_PENDING):
        parts = tag.removeprefix(_PENDING).split(":")
        return _mark([*parts[:3], "", parts[3]]) if len(parts) == 4 else None
    if tag.startswith(_RESULT):
        parts = tag.removeprefix(_RESULT).split(":")
        known = len(parts) == 5 and parts[3] in RESULTS[1:]
        return _mark(parts) if known else None
    return None


def _mark(parts: Sequence[str]) -> Mark | None:
    """The mark of type, id, time, result and jobs."""
    kind, key, time, result, jobs = parts
    numbers = jobs.split("+") if jobs else []
    if kind not in TYPES or not all(map(is_integer, (time, *numbers))):
        return None
    if any(int(number) < 0 for number in numbers):
        return None
    return Mark(kind, key, int(time), tuple(map(int, numbers)), result)


def is_integer(text: str) -> bool:
    """Whether harep reads a text as an integer."""
    return _INTEGER.fullmatch(text) is not None
