"""The last day of a reservation as a tag of the cluster, written and taken off."""

from __future__ import annotations

from collections.abc import Callable

from ganeti_steward.core.errors import StewardError
from ganeti_steward.plugins.aggregates.cli.reading import TaggedCluster
from ganeti_steward.plugins.aggregates.cli.tagging import CLUSTER, Change, complaint, run_stages
from ganeti_steward.plugins.aggregates.language.expression import ExpressionError
from ganeti_steward.plugins.aggregates.language.tags import (
    UNTIL,
    Declared,
    read_tag,
    until_tag,
)
from ganeti_steward.plugins.aggregates.language.until import Clock, day


def checked_end(name: str, date: str | None, clock: Clock) -> str:
    """The tag for the last day of a reservation, empty without one; raises StewardError."""
    if date is None:
        return ""
    try:
        tag = until_tag(name, date)
    except ExpressionError as err:
        raise StewardError(f"--until: {err}") from None
    if date < day(clock):
        raise StewardError(f"--until: {date} is over")
    return tag


def end_changes(tagged: TaggedCluster, name: str, tag: str) -> list[Change]:
    """What gives a reservation the end ``tag`` names; empty: none."""
    old = [one for one in tagged.cluster.tags if one != tag and _is_end(one, name)]
    changes = [Change(CLUSTER, "", tuple(old), removed=True)] if old else []
    if tag and tag not in tagged.cluster.tags:
        changes.append(Change(CLUSTER, "", (tag,)))
    return changes


def write_end(
    tagged: TaggedCluster,
    changes: list[Change],
    reason: str,
    interrupts: Callable[[], int] = lambda: 0,
) -> None:
    """Write it; raises StewardError."""
    # One after the other: both are of the cluster.
    result = run_stages(tagged.jobs, [[change] for change in changes], reason, interrupts)
    if not result.complete:
        wanted = "; ".join(change.sentence for change in changes)
        raise StewardError(f"{complaint(result)}; perhaps not done: {wanted}")


def _is_end(tag: str, name: str) -> bool:
    if not tag.startswith(f"steward:{UNTIL}:"):
        return False
    try:
        declared = read_tag(CLUSTER, tag)
    except ExpressionError:
        return False
    return isinstance(declared, Declared) and declared.name == name
