"""What the pending and result tags of an instance say together: how its repairs stand."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from typing import Final, NamedTuple

from ganeti_steward.plugins.maintenance.harep.tags import FAILURE, RESULTS, Found, Mark, read_marks

HEALTHY: Final = "healthy"
PENDING: Final = "pending"
FAILED: Final = "failed"


class Contradiction(Exception):
    """Tags that cannot stand together; the text says which, in one sentence."""


class Standing(NamedTuple):
    """How the repairs of one instance stand."""

    status: str = HEALTHY
    """``healthy``: a new repair may start; ``pending``: one is running; ``failed``: one failed, and
    nothing is done until a person removes its tag"""
    mark: Mark | None = None
    """the repair that counts; None when there was none"""
    outdated: tuple[str, ...] = ()
    """tags that are to be removed as soon as another one is set, that of ``mark`` first"""


def standing_of(tags: Collection[str]) -> Standing:
    """How the repairs of an instance with these tags stand; raises Contradiction."""
    standing = Standing()
    for found in _repairs(read_marks(tags)):
        standing = _after(standing, found)
    return standing


def _repairs(marks: list[Found]) -> list[Found]:
    """The mark that counts of each repair, in the order in which the repairs began."""
    groups = [
        list(group)
        for _, group in groupby(
            sorted(marks, key=lambda one: one.mark.id), key=lambda one: one.mark.id
        )
    ]
    groups.sort(key=lambda group: min(one.mark.time for one in group))
    return [max(group, key=_weight) for group in groups]


def _weight(one: Found) -> tuple[int, int]:
    return RESULTS.index(one.mark.result), one.mark.time


def _after(before: Standing, found: Found) -> Standing:
    """With one more repair, which began later."""
    if before.status == FAILED:
        return before
    if before.status == PENDING:
        raise Contradiction(
            f"the tag {found.tag} is of a later repair than {before.outdated[0]}, which is pending"
        )
    status = FAILED if found.mark.result == FAILURE else HEALTHY if found.mark.result else PENDING
    return Standing(status, found.mark, (found.tag, *before.outdated))
