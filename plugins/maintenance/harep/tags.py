"""The tags of harep, byte for byte: which repairs are allowed, running and finished.

Of allowed repairs the nearest object with a statement decides; the pending and result tags of an
instance say together how its repairs stand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
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


class FoundMark(NamedTuple):
    """A mark, and the tag it was read from."""

    mark: Mark
    tag: str


def read_marks(tags: Iterable[str]) -> list[FoundMark]:
    """The pending and result tags among these, in the order of their bytes.

    What does not have exactly their form is no such tag.
    """
    found = ((tag, read_mark(tag)) for tag in sorted(tags))
    return [FoundMark(mark, tag) for tag, mark in found if mark]


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


#: A suspension without an end.
FOR_EVER: Final = -1


class RepairPolicy(NamedTuple):
    """What one object says."""

    allowed: str = ""
    """the most invasive type of repair that is allowed; empty: none, for it is suspended"""
    until: int = 0
    """s since the epoch; the end of the suspension, or `FOR_EVER`"""
    where: str = ""
    """whose tags say so, in words"""


def own_policy(tags: Collection[str], now: int) -> RepairPolicy | None:
    """What the tags of one object say; None: nothing.  ``now``: s since the epoch.

    A suspension without an end wins over one with an end, that over allowed types, and of those
    the least invasive counts.
    """
    ends = [tag.removeprefix(SUSPEND) for tag in tags if tag.startswith(SUSPEND)]
    if "" in ends or SUSPEND.removesuffix(":") in tags:
        return RepairPolicy(until=FOR_EVER)
    later = [int(end) for end in ends if is_integer(end) and int(end) > now]
    if later:
        return RepairPolicy(until=max(later))
    return next((RepairPolicy(kind) for kind in TYPES if f"{PREFIX}{kind}" in tags), None)


def policy_of(objects: Collection[tuple[str, Collection[str]]], now: int) -> RepairPolicy | None:
    """The policy of the first object that has one; None: no repair is enabled.

    ``objects``: names in words, with the tags: the instance, its node group, the cluster.
    """
    for where, tags in objects:
        found = own_policy(tags, now)
        if found:
            return found._replace(where=where)
    return None


HEALTHY: Final = "healthy"
PENDING: Final = "pending"
FAILED: Final = "failed"


class Contradiction(Exception):
    """Tags that cannot stand together; the text says which, in one sentence."""


class RepairStanding(NamedTuple):
    """How the repairs of one instance stand."""

    status: str = HEALTHY
    """``healthy``: a new repair may start; ``pending``: one is running; ``failed``: one failed, and
    nothing is done until a person removes its tag"""
    mark: Mark | None = None
    """the repair that counts; None when there was none"""
    outdated: tuple[str, ...] = ()
    """tags that are to be removed as soon as another one is set, that of ``mark`` first"""


def repair_state_of(tags: Collection[str]) -> RepairStanding:
    """How the repairs of an instance with these tags stand; raises Contradiction."""
    repair_state = RepairStanding()
    for found in _repairs(read_marks(tags)):
        repair_state = _after(repair_state, found)
    return repair_state


def _repairs(marks: list[FoundMark]) -> list[FoundMark]:
    """The mark that counts of each repair, in the order in which the repairs began."""
    groups = [
        list(group)
        for _, group in groupby(
            sorted(marks, key=lambda one: one.mark.id), key=lambda one: one.mark.id
        )
    ]
    groups.sort(key=lambda group: min(one.mark.time for one in group))
    return [
        max(group, key=lambda one: (RESULTS.index(one.mark.result), one.mark.time))
        for group in groups
    ]


def _after(before: RepairStanding, found: FoundMark) -> RepairStanding:
    """With one more repair, which began later."""
    if before.status == FAILED:
        return before
    if before.status == PENDING:
        raise Contradiction(
            f"the tag {found.tag} is of a later repair than {before.outdated[0]}, which is pending"
        )
    status = FAILED if found.mark.result == FAILURE else HEALTHY if found.mark.result else PENDING
    return RepairStanding(status, found.mark, (found.tag, *before.outdated))
