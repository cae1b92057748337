"""What is done now about one instance: a table of rules, from its tags and its health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from ganeti_steward.core.model.job_state import LOST, SUCCESS, JobState
from ganeti_steward.plugins.maintenance.harep import health, tags
from ganeti_steward.plugins.maintenance.harep.health import Blocked, Need
from ganeti_steward.plugins.maintenance.harep.tags import (
    FAILED,
    FOR_EVER,
    PENDING,
    TYPES,
    Mark,
    RepairPolicy,
    RepairStanding,
)

#: s for which the result of a repair of degraded disks counts for the next one.
LADDER: Final = 86400


class SubmittedRepair(NamedTuple):
    """A repair that was submitted and has no tag yet."""

    step: str
    number: int
    """Ganeti's number of its job"""
    at: int
    """s since the epoch"""


class InstanceFacts(NamedTuple):
    """Everything that decides about one instance."""

    name: str
    now: int
    """s since the epoch"""
    repair_state: RepairStanding
    policy: RepairPolicy | None
    """None: no repair is enabled"""
    need: Need | Blocked | None
    jobs: Mapping[int, JobState]
    """number -> state, of the jobs its pending tag names, as far as they are known"""
    submitted: SubmittedRepair | None = None
    replace_after: float = 3600
    """s until disks that are still degraded are replaced"""


class Tag(NamedTuple):
    """A tag is set, and outdated ones are removed."""

    mark: Mark
    remove: tuple[str, ...]
    reason: str


class StartRepair(NamedTuple):
    """A repair is submitted."""

    need: Need
    allowed: str
    """the most invasive type that is allowed"""
    reason: str


class NotRepaired(NamedTuple):
    """Nothing is done, though something is wrong or in progress."""

    reason: str
    """one sentence"""


Action = Tag | StartRepair | NotRepaired


def decide(case: InstanceFacts) -> Action | None:
    """What is done now; None: nothing is wrong."""
    if case.submitted:
        return _pending(case, case.submitted)
    if case.repair_state.status == PENDING:
        return _finish(case)
    if case.need is None:
        return None
    if isinstance(case.need, Blocked):
        return NotRepaired(f"{case.name} is not repaired: {case.need.why}")
    if case.repair_state.status == FAILED:
        return NotRepaired(
            f"{case.name} is not repaired, though {case.need.why}: a repair failed; remove its tag "
            f"{case.repair_state.outdated[0]} to allow another one"
        )
    return _start(case, case.need)


# A repair in progress


def _pending(case: InstanceFacts, one: SubmittedRepair) -> Tag:
    """The tag of a repair that was submitted a moment ago."""
    kind = health.TYPE_OF[one.step]
    before = case.repair_state.mark
    jobs = before.jobs if before and one.step == health.REPLACE else ()
    mark = Mark(kind, _id(case.name, one.number), one.at, (*jobs, one.number))
    return Tag(mark, case.repair_state.outdated, f"job {one.number} repairs {case.name} ({kind})")


def _finish(case: InstanceFacts) -> Action:
    mark = case.repair_state.mark
    assert mark is not None
    states = [case.jobs[number] for number in mark.jobs if number in case.jobs]
    if len(states) < len(set(mark.jobs)):
        return NotRepaired(f"the state of the jobs of {case.name}'s repair is not known")
    running = [state.number for state in states if not state.ended]
    if running:
        return NotRepaired(f"{case.name} is being repaired by job {', '.join(map(str, running))}")
    result, why = _result(case, states)
    done = mark._replace(time=case.now, result=result)
    return Tag(done, case.repair_state.outdated, f"the repair of {case.name} ended: {why}")


def _result(case: InstanceFacts, states: list[JobState]) -> tuple[str, str]:
    """How a repair ended.  Of jobs that were archived only the instance itself shows the result."""
    failed = [one for one in states if one.status not in (SUCCESS, LOST)]
    if failed:
        one = failed[0]
        return tags.FAILURE, f"job {one.number} ended with {one.status} {one.error}".rstrip()
    if not states:
        return tags.SUCCESS, "its tag names no job"
    if all(one.status == LOST for one in states):
        fine = case.need is None
        word = "nothing is wrong with it" if fine else "it still needs a repair"
        return (tags.SUCCESS if fine else tags.FAILURE), f"its jobs were archived, and {word}"
    return tags.SUCCESS, "its jobs succeeded"


# A new repair


def _start(case: InstanceFacts, need: Need) -> Action | None:
    policy = case.policy
    if policy is None:
        return NotRepaired(f"{case.name} is not repaired, though {need.why}: no repair is enabled")
    if policy.until:
        end = "without an end" if policy.until == FOR_EVER else f"until {policy.until}"
        return NotRepaired(
            f"{case.name} is not repaired, though {need.why}: suspended {end} by {policy.where}"
        )
    if TYPES.index(need.type) > TYPES.index(policy.allowed):
        return _not_allowed(case, need, policy)
    if need.step == health.ACTIVATE:
        return _degraded(case, need, policy)
    return _repair(case, need, policy)


def _not_allowed(case: InstanceFacts, need: Need, policy: RepairPolicy) -> Action:
    """The tag that says so is set once, and again when another type is needed."""
    why = (
        f"{case.name} is not repaired, though {need.why}: it needs {need.type}, and "
        f"{policy.where} allows {policy.allowed}"
    )
    mark = case.repair_state.mark
    if mark and mark.result == tags.NOT_ALLOWED and mark.type == need.type:
        return NotRepaired(why)
    key = _id(case.name, case.now)
    new = Mark(need.type, key, case.now, (), tags.NOT_ALLOWED)
    return Tag(new, case.repair_state.outdated, why)


def _degraded(case: InstanceFacts, need: Need, policy: RepairPolicy) -> Action:
    """Disks are activated first; those that stay degraded are replaced, once a day at most."""
    mark = case.repair_state.mark
    last = mark if mark and _is_fixed(mark) and case.now - mark.time < LADDER else None
    if last is None:
        return _repair(case, need, policy)
    if len(last.jobs) > 1:
        left = last.time + LADDER - case.now
        return NotRepaired(
            f"{case.name} was repaired and {need.why}; it is repaired again in {left} s at the "
            "earliest"
        )
    wait = last.time + case.replace_after - case.now
    if wait > 0:
        return NotRepaired(f"{case.name} was repaired and {need.why}; replaced in {wait:g} s")
    if need.not_replaced:
        return NotRepaired(
            f"{case.name} was repaired and {need.why}; not replaced: {need.not_replaced}"
        )
    return _repair(case, need._replace(step=health.REPLACE), policy)


def _is_fixed(mark: Mark) -> bool:
    return mark.result == tags.SUCCESS and mark.type == tags.FIX_STORAGE


def _repair(case: InstanceFacts, need: Need, policy: RepairPolicy) -> StartRepair:
    return StartRepair(need, policy.allowed, f"repair {case.name} ({need.step}): {need.why}")


def _id(name: str, number: int) -> str:
    """An id of a repair: the same for the same one, and no other's."""
    return str(uuid5(NAMESPACE_URL, f"{name} {number}"))
