"""The actions that Ganeti does not have: WINDOW, AFTER_INCIDENT and APPROVE."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.json_reader import quoted
from ganeti_steward.plugins.model.filter_action import (
    APPROVE_TAG,
    Facts,
    Hold,
    QueuedJob,
    Release,
    Verdict,
)
from ganeti_steward.plugins.model.windows import is_open, is_window

WINDOW: Final = "WINDOW"
AFTER_INCIDENT: Final = "AFTER_INCIDENT"
APPROVE: Final = "APPROVE"
ACTIONS: Final = (WINDOW, AFTER_INCIDENT, APPROVE)


def fault_of(action: str, arguments: str) -> str:
    """What is wrong with the arguments of one of these actions, in a sentence; empty: nothing."""
    if action == WINDOW and not all(map(is_window, _windows(arguments))):
        return (
            f"{WINDOW} takes days and times, like 'Mon-Fri 22:00-06:00', several with commas "
            f"between them, not {quoted(arguments)}"
        )
    if action == AFTER_INCIDENT and len(arguments.split()) != 1:
        return f"{AFTER_INCIDENT} takes the name or the uuid of one node, not {quoted(arguments)}"
    if action == APPROVE and arguments:
        return f"{APPROVE} takes nothing, not {quoted(arguments)}"
    return ""


@hookimpl
def steward_filter_action(
    action: str, arguments: str, job: QueuedJob, facts: Facts
) -> Verdict | None:
    """The verdict of one of these actions; faulty arguments hold the job."""
    if action not in ACTIONS:
        return None
    if fault := fault_of(action, arguments):
        return Hold(fault)
    if action == WINDOW:
        return _window(arguments, facts)
    return _incident(arguments, facts) if action == AFTER_INCIDENT else _approval(job, facts)


def _windows(arguments: str) -> list[str]:
    return [one.strip() for one in arguments.split(",")]


def _window(arguments: str, facts: Facts) -> Verdict:
    at = f"{facts.local:%a %H:%M}"
    if is_open(_windows(arguments), facts.local):
        return Release(f"{at} is in {arguments}")
    return Hold(f"{at} is not in {arguments}")


def _incident(node: str, facts: Facts) -> Verdict:
    """A name that is misspelt must not count as a node without incidents."""
    found = [(uuid, name) for uuid, name in facts.nodes.items() if node in (uuid, name)]
    if not found:
        return Hold(f"the cluster has no node {quoted(node)}")
    ((uuid, name),) = found
    if uuid in facts.unreadable:
        return Hold(f"a record of an incident of {name} cannot be read")
    for incident in facts.incidents:
        if incident.node == uuid and incident.active:
            return Hold(f"{name} has the active incident {incident.uuid}")
    return Release(f"{name} has no active incident")


def _approval(job: QueuedJob, facts: Facts) -> Verdict:
    if job.number in facts.approved:
        return Release(f"the cluster has the tag {APPROVE_TAG}{job.number}")
    if _approves(job):
        return Release("the job only approves others")
    return Hold(f"an admin approves a job with the cluster's tag {APPROVE_TAG}NUMBER")


def _approves(job: QueuedJob) -> bool:
    """Whether the job sets approvals and nothing else; else a rule for all jobs held it, too."""
    return all(
        op.get("OP_ID") == "OP_TAGS_SET"
        and op.get("kind") == "cluster"
        and all(str(tag).startswith(APPROVE_TAG) for tag in op.get("tags") or ())
        for op in job.opcodes
    )
